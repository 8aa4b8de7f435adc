/*-------------------------------------------------------------------------
 *
 * receiver.c
 *	  Requests of the sender to the receiver: batches of the queue, and questions.
 *
 * One batch is sent at a time.  Without an answer, and after 429 and 5xx, the
 * same batch is sent again, after a longer time in each case.  The receiver
 * stores a batch whole or not at all; items that it can never store are left
 * out (refused.c).  An answer 409 means that the receiver does not know the
 * stream any more, because its database was restored: the batches continue as a
 * new stream, and every kind is compared.  A batch is removed from the queue
 * only when the receiver has stored it.
 *
 * A sender that had no answer for a minute, because nothing changes in its
 * cluster, asks an empty question.  The receiver then sees that the cluster is
 * not silent, and the sender that the receiver is there.
 *
 *-------------------------------------------------------------------------
 */
#include "forward/receiver.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/transfer.h"
#include "forward/queue.h"
#include "forward/refused.h"

#define TIMEOUT_MS 60000L
#define ANSWER_LIMIT ((size_t) 4 * 1024 * 1024)
#define FILE_LIMIT ((size_t) 1024 * 1024)
#define FIRST_DELAY_MS 100
#define LAST_DELAY_MS 15000
#define LOG_MS 5000
#define IDLE_MS 60000

/* Of probes: the first batch of any stream has the number 1. */
#define PROBE_STREAM "00000000-0000-4000-8000-000000000000"
#define PROBE_SEQ 2ULL

static Receiver receiver;
static ReceiverCounts counts;
static uint64_t answered_at;	/* when a request was last answered with 200 */
static size_t questions;		/* questions without an answer yet, also those that are asked again later */

/* ---------- one request ---------- */

typedef struct Posting
{
	Arena		arena;
	StrBuf		received;
	long		retry_after;
	uint64_t	delay;
	LoopTimer	timer;
} Posting;

static bool
read_text(Arena *arena, const char *path, JsonText *text)
{
	const char *why;

	if (path[0] == '\0')
		return true;
	if (file_read(arena, path, FILE_LIMIT, text, &why))
		return true;
	log_line(LOG_ERROR, "%s: %s", path, why);
	return false;
}

/* Sends a body that is in the posting's arena; false when a file of the credentials cannot be read. */
static bool
post(Posting *posting, const char *path, JsonText body, void (*done) (void *state, int status, const char *why),
	 void *state)
{
	KubeConfig	target = {.server = receiver.server};

	if (!read_text(&posting->arena, receiver.ca_file, &target.ca) ||
		!read_text(&posting->arena, receiver.certificate_file, &target.certificate) ||
		!read_text(&posting->arena, receiver.key_file, &target.key))
		return false;
	target.token_file = receiver.token_file[0] == '\0' ? NULL : receiver.token_file;
	posting->retry_after = 0;
	strbuf_init(&posting->received, &posting->arena);
	transfer_start(&target, &(TransferRequest) {.path = path, .body = body.bytes, .body_len = body.len,
				   .timeout_ms = TIMEOUT_MS, .retry_after = &posting->retry_after, .received = &posting->received,
				   .limit = ANSWER_LIMIT, .done = done, .state = state});
	return true;
}

static void
note(int status, const char *what, const char *why, JsonText answer)
{
	static uint64_t logged_at;
	uint64_t	now = loop_now();

	if (status == 200)
	{
		if (!counts.up && counts.failures > 0)
			log_line(LOG_NOTICE, "the receiver answers again");
		counts.up = true;
		answered_at = now;
		return;
	}
	counts.failures++;
	if (counts.up || logged_at == 0 || now - logged_at >= LOG_MS)
	{
		log_line(LOG_WARNING, "%s failed: %s (code %d) %.*s", what, why != NULL ? why : "it was refused", status,
				 (int) (answer.len < 500 ? answer.len : 500), answer.bytes != NULL ? answer.bytes : "");
		logged_at = now;
	}
	counts.up = false;
}

static void
again_later(Posting *posting, void (*fire) (void *state), void *state)
{
	uint64_t	delay = posting->delay < FIRST_DELAY_MS ? FIRST_DELAY_MS : posting->delay;

	posting->delay = delay * 2 > LAST_DELAY_MS ? LAST_DELAY_MS : delay * 2;
	if (posting->retry_after > 0)
		delay = (uint64_t) (posting->retry_after > 30 ? 30 : posting->retry_after) * 1000;
	delay += arc4random_uniform((uint32_t) delay / 4 + 1);
	loop_timer_start(&posting->timer, delay, fire, state);
}

/* ---------- batches ---------- */

static struct
{
	Posting		posting;
	bool		busy;
	uint64_t	number;
	JsonText	items;			/* items of the batch, in the arena */
}			delivery;

static void delivered(void *state, int status, const char *why);
static void greet(void);

static void
deliver_again(void *state)
{
	delivery.busy = false;
	receiver_look();
}

static void
retry(void)
{
	arena_free(&delivery.posting.arena);
	again_later(&delivery.posting, deliver_again, NULL);
}

static void
delivered(void *state, int status, const char *why)
{
	Posting    *posting = &delivery.posting;
	JsonText	answer = {posting->received.bytes, posting->received.len};
	bool		probing = refused_probing();

	/* A probe is answered with one of these two. */
	if (!probing || (status != 409 && status != 400))
		note(status, "a batch", why, answer);
	if (refused_read(delivery.items, status, answer, &counts.rejected))
		posting->delay = 0;
	else if (!probing && status == 200 && queue_done(delivery.number))
	{
		counts.batches++;
		posting->delay = 0;
		refused_forget();
		arena_free(&posting->arena);
		delivery.busy = false;
		receiver.stored(delivery.number);
		receiver_look();
		return;
	}
	else if (!probing && status == 409 && queue_new_stream())
	{
		counts.streams++;
		log_line(LOG_WARNING, "the receiver does not know the stream: everything is compared");
		receiver.stream_lost();
	}
	retry();
}

void
receiver_look(void)
{
	Arena	   *arena = &delivery.posting.arena;
	uint64_t	seq;
	JsonText	rest;
	StrBuf		body;

	if (delivery.busy)
		return;
	arena_init(arena);
	if (!queue_front(arena, &delivery.number, &seq, &delivery.items))
	{
		arena_free(arena);
		greet();
		return;
	}
	delivery.busy = true;
	rest = refused_rest(arena, delivery.items);
	strbuf_init(&body, arena);
	strbuf_printf(&body, "{\"apiVersion\":\"forward/v1\",\"stream\":\"%s\",\"seq\":%llu,",
				  refused_probing() ? PROBE_STREAM : queue_stream(),
				  refused_probing() ? PROBE_SEQ : (unsigned long long) seq);
	strbuf_printf(&body, "\"extraMetadata\":%s,\"items\":[", receiver.metadata);
	strbuf_append(&body, rest.bytes, rest.len);
	strbuf_puts(&body, "]}");
	if (!post(&delivery.posting, "/v1/forward/objects", (JsonText) {body.bytes, body.len}, delivered, NULL))
		retry();
}

/* ---------- questions ---------- */

struct ReceiverQuestion
{
	Posting		posting;
	char	   *path;
	char	   *body;
	size_t		len;
	void		(*answered) (void *state, JsonText body);
	void	   *state;
};

static void question_send(void *state);

static void
question_done(void *state, int status, const char *why)
{
	ReceiverQuestion *question = state;
	JsonText	answer = {question->posting.received.bytes, question->posting.received.len};

	note(status, "a question", why, answer);
	if (status != 200)
	{
		arena_free(&question->posting.arena);
		again_later(&question->posting, question_send, question);
		return;
	}
	questions--;
	question->answered(question->state, answer);
	arena_free(&question->posting.arena);
	free(question->path);
	free(question->body);
	free(question);
}

static void
question_send(void *state)
{
	ReceiverQuestion *question = state;

	arena_init(&question->posting.arena);
	if (post(&question->posting, question->path, (JsonText) {question->body, question->len}, question_done, question))
		return;
	arena_free(&question->posting.arena);
	again_later(&question->posting, question_send, question);
}

ReceiverQuestion *
receiver_ask(const char *path, JsonText body, void (*answered) (void *state, JsonText body), void *state)
{
	ReceiverQuestion *question = allocate(sizeof(*question));

	question->path = strdup(path);
	question->body = allocate(body.len + 1);
	memcpy(question->body, body.bytes, body.len);
	question->len = body.len;
	question->answered = answered;
	question->state = state;
	if (question->path == NULL)
		abort();
	questions++;
	question_send(question);
	return question;
}

static void
greeted(void *state, JsonText body)
{
}

/* At most one such question waits for its answer, because it is a question like the others. */
static void
greet(void)
{
	static const char empty[] = "{\"apiVersion\":\"forward/v1\",\"items\":[]}";

	if (questions == 0 && loop_now() - answered_at >= IDLE_MS)
		receiver_ask("/v1/forward/sync", (JsonText) {empty, sizeof(empty) - 1}, greeted, NULL);
}

ReceiverCounts
receiver_counts(void)
{
	return counts;
}

void
receiver_start(const Receiver *given)
{
	receiver = *given;
}
