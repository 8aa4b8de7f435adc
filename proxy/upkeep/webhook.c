/*-------------------------------------------------------------------------
 *
 * webhook.c
 *	  Sends new failures to the targets of add_webhook().
 *
 * The database says which events to send to which target, and keeps the
 * position of each target (sql/export/outgoing.sql).  This file signs a batch,
 * sends it with libcurl, and reports the outcome to the database.  The report
 * is repeated while this sender still holds the target, because a lost report
 * makes the batch be sent again.
 *
 * Requests follow the Standard Webhooks convention: webhook-id,
 * webhook-timestamp and, with a key, webhook-signature.  Tokens, keys and CAs
 * are files in --webhook-directory, which are read for each batch.  When a
 * file cannot be read, the batch is not sent, and this proxy leaves the target
 * to other proxies for a while: a missing file of one proxy is not a failure
 * of the target.  Redirects are not followed: a code other than 200 to 299 is
 * a failure.
 *
 *-------------------------------------------------------------------------
 */
#include "upkeep/webhook.h"

#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/base64.h"
#include "base/allocate.h"
#include "base/config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "db/pg.h"
#include "cluster/transfer.h"

/* How often the database is asked for batches when there was nothing to send, and for the metrics. */
#define LOOK_MS 1000
#define STATES_MS 15000
#define PG_TIMEOUT_MS 10000

/* Largest number of batches in progress. */
#define MAX_DELIVERIES 16

/*
 * The time that api_webhook_next() gives a sender beyond the target's time-out.  The report of the outcome is repeated
 * during this time, every NOTE_AGAIN_MS.
 */
#define NOTE_MS 5000
#define NOTE_AGAIN_MS 250

#define MAX_FILE (64 * 1024)

/* How long a target whose files this proxy cannot use is left to others: doubled each time. */
#define LEFT_FIRST_MS 500
#define LEFT_LAST_MS (5 * 60 * 1000)
#define MAX_LEFT 64				/* at the limit, the target whose delay ends first is forgotten */

/* This much of an answer is read, so that the connection can be reused; of longer answers only the code counts. */
#define MAX_ANSWER (64 * 1024)

/* Columns of api_webhook_next(). */
enum
{
	COLUMN_NAME,
	COLUMN_URL,
	COLUMN_TOKEN_FILE,
	COLUMN_HMAC_FILE,
	COLUMN_CA_FILE,
	COLUMN_TIMEOUT,
	COLUMN_BATCH,
	COLUMN_BODY,
	COLUMN_VERSION,
	COLUMN_KEY,
	COLUMN_EVENTS,
	COLUMN_HOLDER
};

/* A batch, from the answer of the database until its outcome is noted. */
typedef struct Delivery
{
	PgResult   *batch;
	Arena		arena;
	KubeConfig	target;
	uint64_t	held_until;
	int			code;			/* HTTP status of the answer that is being read */
	size_t		answer_len;
	const char *failure;		/* reason of the failure; NULL: the batch was acknowledged */
	bool		not_sent;		/* this proxy failed, not the target */
	LoopTimer	timer;			/* reports the outcome again */
} Delivery;

/* A target to which this proxy cannot send for now. */
typedef struct LeftTarget
{
	char		name[64];		/* "" for none */
	uint64_t	until;
	uint64_t	delay;
} LeftTarget;

static LeftTarget left_targets[MAX_LEFT];

static LoopTimer look_timer;
static LoopTimer states_timer;
static bool looking;
static bool ending;
static size_t delivery_count;

static void look(void *state);
static void note_outcome(void *state);

static const char *
delivery_text(const Delivery *delivery, int column)
{
	return pg_text(delivery->batch, 0, column).bytes;
}

/* ---------- targets left to other proxies ---------- */

static LeftTarget *
left_target(const char *name)
{
	for (size_t i = 0; i < MAX_LEFT; i++)
		if (strcmp(left_targets[i].name, name) == 0)
			return &left_targets[i];
	return NULL;
}

static void
leave_target(const char *name)
{
	LeftTarget *target = left_target(name);

	if (target == NULL)
	{
		target = &left_targets[0];
		for (size_t i = 1; i < MAX_LEFT; i++)
			if (left_targets[i].until < target->until)
				target = &left_targets[i];
		snprintf(target->name, sizeof(target->name), "%s", name);
		target->delay = 0;
	}
	target->delay = target->delay == 0 ? LEFT_FIRST_MS : target->delay * 2;
	if (target->delay > LEFT_LAST_MS)
		target->delay = LEFT_LAST_MS;
	target->until = loop_now() + target->delay;
}

static void
take_target(const char *name)
{
	LeftTarget *target = left_target(name);

	if (target != NULL)
		memset(target, 0, sizeof(*target));
}

/* ---------- files ---------- */

/*
 * Reads a file of --webhook-directory, without the newline at its end; bytes NULL on failure, and delivery->failure has
 * the reason.
 */
static JsonText
read_file(Delivery *delivery, int column)
{
	const char *name = delivery_text(delivery, column);
	const char *why;
	JsonText	text;

	/* The database refuses such names, but the directory belongs to this proxy: check again. */
	if (config.webhook_directory[0] == '\0' || strchr(name, '/') != NULL || name[0] == '.')
	{
		delivery->failure = "files need --webhook-directory";
		return (JsonText) {0};
	}
	if (!file_read(&delivery->arena, arena_printf(&delivery->arena, "%s/%s", config.webhook_directory, name), MAX_FILE,
				   &text, &why))
	{
		delivery->failure = arena_printf(&delivery->arena, "file %s: %s", name, why);
		return (JsonText) {0};
	}
	while (text.len > 0 && (text.bytes[text.len - 1] == '\n' || text.bytes[text.len - 1] == '\r'))
		text.len--;
	if (text.len > 0)
		return (JsonText) {arena_strndup(&delivery->arena, text.bytes, text.len), text.len};
	delivery->failure = arena_printf(&delivery->arena, "file %s is empty", name);
	return (JsonText) {0};
}

/* Returns the bytes of a key: whsec_ and base64, or the bytes of the file. */
static JsonText
key_bytes(Delivery *delivery, JsonText text)
{
	static const char prefix[] = "whsec_";
	size_t		prefix_len = sizeof(prefix) - 1;
	JsonText	key = {NULL, 0};

	if (text.len < prefix_len || memcmp(text.bytes, prefix, prefix_len) != 0)
		return text;
	if (!base64_decode_value(&delivery->arena, text.bytes + prefix_len, &key) || key.len == 0)
		delivery->failure = "the key is no base64 behind whsec_";
	return key;
}

/* ---------- the request ---------- */

static const char *
signature_header(Delivery *delivery, JsonText key, const char *id, const char *timestamp, JsonText body)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int digest_len = 0;
	StrBuf		content;

	strbuf_init(&content, &delivery->arena);
	strbuf_printf(&content, "%s.%s.", id, timestamp);
	strbuf_append(&content, body.bytes, body.len);
	if (HMAC(EVP_sha256(), key.bytes, (int) key.len, (const unsigned char *) content.bytes, content.len, digest,
			 &digest_len) == NULL)
	{
		delivery->failure = "the batch cannot be signed";
		return NULL;
	}
	return arena_printf(&delivery->arena, "webhook-signature: v1,%s",
						base64_encode(&delivery->arena, (JsonText) {(const char *) digest, digest_len}));
}

/* Only the code of the answer matters; the body is ignored. */
static bool
answer_taken(void *state, int status, const char *bytes, size_t len)
{
	Delivery   *delivery = state;

	delivery->code = status;
	delivery->answer_len += len;
	return delivery->answer_len <= MAX_ANSWER;
}

static void
delivered(void *state, int status, const char *why)
{
	Delivery   *delivery = state;

	if (delivery->answer_len > MAX_ANSWER)
		status = delivery->code;
	if (status == 0)
		delivery->failure = arena_strdup(&delivery->arena, why);
	else if (status < 200 || status > 299)
		delivery->failure = arena_printf(&delivery->arena, "the target answered with code %d", status);
	note_outcome(delivery);
}

/* Sends the batch, unless one of its files or its key is missing or invalid. */
static void
deliver(Delivery *delivery)
{
	Arena	   *arena = &delivery->arena;
	JsonText	body = pg_text(delivery->batch, 0, COLUMN_BODY);
	const char *id = delivery_text(delivery, COLUMN_BATCH);
	const char *timestamp = arena_printf(arena, "%lld", (long long) time(NULL));
	const char *headers[5] = {NULL};
	size_t		count = 0;

	delivery->target.server = delivery_text(delivery, COLUMN_URL);
	headers[count++] = arena_printf(arena, "webhook-id: %s", id);
	headers[count++] = arena_printf(arena, "idempotency-key: %s", id);
	headers[count++] = arena_printf(arena, "webhook-timestamp: %s", timestamp);
	if (!pg_is_null(delivery->batch, 0, COLUMN_CA_FILE))
		delivery->target.ca = read_file(delivery, COLUMN_CA_FILE);
	if (delivery->failure == NULL && !pg_is_null(delivery->batch, 0, COLUMN_TOKEN_FILE))
	{
		delivery->target.token = read_file(delivery, COLUMN_TOKEN_FILE).bytes;
		/* A line break would end the header and begin another. */
		if (delivery->target.token != NULL && strpbrk(delivery->target.token, "\r\n") != NULL)
			delivery->failure = "the token has more than one line";
	}
	if (delivery->failure == NULL && !pg_is_null(delivery->batch, 0, COLUMN_HMAC_FILE))
	{
		JsonText	key = read_file(delivery, COLUMN_HMAC_FILE);

		if (key.bytes != NULL)
			key = key_bytes(delivery, key);
		if (key.bytes != NULL)
			headers[count++] = signature_header(delivery, key, id, timestamp, body);
	}
	if (delivery->failure != NULL)
	{
		delivery->not_sent = true;
		leave_target(delivery_text(delivery, COLUMN_NAME));
		note_outcome(delivery);
		return;
	}
	take_target(delivery_text(delivery, COLUMN_NAME));
	transfer_start(&delivery->target, &(TransferRequest) {
				   .path = "",
				   .body = body.bytes,
				   .body_len = body.len,
				   .headers = headers,
				   .timeout_ms = pg_int4(delivery->batch, 0, COLUMN_TIMEOUT),
				   .take = answer_taken,
				   .done = delivered,
				   .state = delivery,
				   });
}

/* ---------- the outcome ---------- */

static void
outcome_noted(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Delivery   *delivery = state;
	const char *name = delivery_text(delivery, COLUMN_NAME);

	if (outcome != PG_OK && loop_now() < delivery->held_until)
	{
		loop_timer_start(&delivery->timer, NOTE_AGAIN_MS, note_outcome, delivery);
		return;
	}
	if (outcome == PG_OK && pg_bool(result, 0, 0) && delivery->failure == NULL)
		metrics_webhook_sent(name, (unsigned long) pg_int4(delivery->batch, 0, COLUMN_EVENTS));
	else
	{
		metrics_webhook_failed(name);
		log_line(LOG_WARNING, "webhook %s: batch %s: %s", name, delivery_text(delivery, COLUMN_BATCH),
				 delivery->failure != NULL ? delivery->failure :
				 "it was acknowledged, but that could not be noted in time");
	}
	pg_result_free(result);
	pg_result_free(delivery->batch);
	arena_free(&delivery->arena);
	free(delivery);
	delivery_count--;
	look(NULL);
}

static void
note_outcome(void *state)
{
	Delivery   *delivery = state;
	PgCall	   *call = pg_call_new(PG_WEBHOOK_DONE);

	pg_add_text(call, delivery_text(delivery, COLUMN_NAME));
	pg_add_text(call, delivery_text(delivery, COLUMN_HOLDER));
	pg_add_int8(call, pg_int8(delivery->batch, 0, COLUMN_VERSION));
	pg_add_int8(call, pg_int8(delivery->batch, 0, COLUMN_KEY));
	pg_add_int4(call, pg_int4(delivery->batch, 0, COLUMN_EVENTS));
	if (delivery->failure != NULL)
		pg_add_text(call, delivery->failure);
	else
		pg_add_null(call);
	pg_add_int4(call, delivery->not_sent);
	pg_send(call, false, PG_TIMEOUT_MS, outcome_noted, delivery);
}

/* ---------- finding work ---------- */

static void
looked(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Delivery   *delivery;

	looking = false;
	if (outcome != PG_OK || pg_rows(result) == 0)
	{
		pg_result_free(result);
		loop_timer_start(&look_timer, LOOK_MS, look, NULL);
		return;
	}
	delivery = allocate(sizeof(Delivery));
	arena_init(&delivery->arena);
	delivery->batch = result;
	delivery->held_until = loop_now() + (uint64_t) pg_int4(result, 0, COLUMN_TIMEOUT) + NOTE_MS;
	delivery_count++;
	deliver(delivery);
	look(NULL);
}

static void
look(void *state)
{
	JsonText	left[MAX_LEFT];
	size_t		count = 0;
	PgCall	   *call;

	if (looking || ending || delivery_count >= MAX_DELIVERIES)
		return;
	looking = true;
	loop_timer_stop(&look_timer);
	for (size_t i = 0; i < MAX_LEFT; i++)
		if (left_targets[i].until > loop_now())
			left[count++] = (JsonText) {left_targets[i].name, strlen(left_targets[i].name)};
	call = pg_call_new(PG_WEBHOOK_NEXT);
	pg_add_text_array(call, left, count);
	pg_send(call, false, PG_TIMEOUT_MS, looked, NULL);
}

static void ask_states(void *state);

static void
states_known(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	for (size_t row = 0; outcome == PG_OK && row < pg_rows(result); row++)
		metrics_webhook_state(pg_text(result, row, 0).bytes, (double) pg_int8(result, row, 1) / 1000,
							  pg_int4(result, row, 2),
							  pg_bool(result, row, 3));
	pg_result_free(result);
	loop_timer_start(&states_timer, STATES_MS, ask_states, NULL);
}

static void
ask_states(void *state)
{
	pg_send(pg_call_new(PG_WEBHOOKS), false, PG_TIMEOUT_MS, states_known, NULL);
}

void
webhooks_start(void)
{
	if (!config.webhooks)
		return;
	loop_timer_start(&look_timer, LOOK_MS, look, NULL);
	loop_timer_start(&states_timer, LOOK_MS, ask_states, NULL);
}

void
webhooks_end(void)
{
	ending = true;
	loop_timer_stop(&look_timer);
	loop_timer_stop(&states_timer);
}

bool
webhooks_under_way(void)
{
	return delivery_count > 0 || (ending && looking);
}
