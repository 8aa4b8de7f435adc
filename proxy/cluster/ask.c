/*-------------------------------------------------------------------------
 *
 * ask.c
 *	  Blocking requests: for commands and at the start, never for a worker's loop.
 *
 *-------------------------------------------------------------------------
 */
#include "cluster/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/allocate.h"
#include "cluster/kubeapi.h"
#include "cluster/transfer.h"

#define TIMEOUT_MS 10000L
#define ANSWER_LIMIT ((size_t) 4 * 1024 * 1024)
#define ATTEMPTS 5
#define FIRST_DELAY_MS 500
#define MOST_DELAY_S 30L

struct Asker
{
	KubeApi    *kube;			/* provides the credentials */
	bool		other;			/* not kube-apiserver: server, ca and connect_to are used */
	Arena		arena;			/* holds server, ca and connect_to */
	const char *server;
	JsonText	ca;
	const char *connect_to;
	TransferConnections *connections;
};

static Asker *
asker_new(KubeApi *kube)
{
	Asker	   *asker = allocate(sizeof(*asker));

	arena_init(&asker->arena);
	asker->kube = kube;
	asker->connections = transfer_connections_open();
	return asker;
}

Asker *
asker_open(Arena *arena, const char *kubeconfig, const char **why)
{
	KubeConfig	tried;

	/* kubeapi_open() would exit without a readable kubeconfig. */
	if (!kubeconfig_load(arena, kubeconfig, &tried, why))
		return NULL;
	return asker_new(kubeapi_open(kubeconfig));
}

Asker *
asker_for(Asker *kube, const char *server, JsonText ca, const char *connect_to)
{
	Asker	   *asker = asker_new(kube->kube);

	asker->other = true;
	asker->server = arena_strdup(&asker->arena, server);
	asker->ca = (JsonText) {arena_strndup(&asker->arena, ca.bytes, ca.len), ca.len};
	asker->connect_to = connect_to == NULL ? NULL : arena_strdup(&asker->arena, connect_to);
	return asker;
}

void
asker_close(Asker *asker)
{
	transfer_connections_close(asker->connections);
	arena_free(&asker->arena);
	free(asker);
}

const char *
asker_server(Asker *asker)
{
	return asker->other ? asker->server : kubeapi_config(asker->kube)->server;
}

/* ---------- one attempt ---------- */

typedef struct Attempt
{
	Arena	   *arena;
	StrBuf		received;
	int			status;
	bool		untrusted;
	const char *why;
} Attempt;

static void
attempt_done(void *state, int status, const char *why)
{
	Attempt    *attempt = state;

	attempt->status = status;
	attempt->why = status == 0 ? arena_strdup(attempt->arena, why) : NULL;
}

static void
attempt_run(Asker *asker, const Ask *question, Attempt *attempt, long *retry_after)
{
	KubeConfig	kubeconfig = *kubeapi_config(asker->kube);
	TransferRequest request = {
		.path = question->path,
		.method = question->method,
		.accept = question->accept,
		.body = question->body.bytes,
		.body_len = question->body.len,
		.content_type = question->content_type,
		.timeout_ms = question->timeout_ms > 0 ? question->timeout_ms : TIMEOUT_MS,
		.connections = asker->connections,
		.retry_after = retry_after,
		.untrusted = &attempt->untrusted,
		.received = &attempt->received,
		.limit = question->answer_limit > 0 ? question->answer_limit : ANSWER_LIMIT,
		.done = attempt_done,
		.state = attempt,
	};

	if (asker->other)
	{
		kubeconfig.server = asker->server;
		kubeconfig.ca = asker->ca;
		request.connect_to = asker->connect_to;
	}
	attempt->received.len = 0;
	transfer_run(&kubeconfig, &request);
}

/* ---------- all attempts ---------- */

static bool
is_get(const Ask *question)
{
	return question->method == NULL || strcmp(question->method, "GET") == 0;
}

/* Whether another attempt is safe and may have another outcome. */
static bool
is_again(const Ask *question, int status, bool untrusted, long retry_after)
{
	if (status == 429 || (status == 503 && retry_after > 0))
		return true;
	return is_get(question) && ((status == 0 && !untrusted) || status >= 500);
}

static void
wait_ms(long milliseconds)
{
	struct timespec left = {.tv_sec = milliseconds / 1000, .tv_nsec = (milliseconds % 1000) * 1000000};

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		continue;
}

/* Describes a failure in one line of limited length, with the message of a Status if there is one. */
static const char *
explain(Arena *arena, const char *server, const Ask *question, const Attempt *attempt)
{
	const char *method = question->method == NULL ? "GET" : question->method;
	json_auto_t *status = kube_json_read(attempt->received.bytes, attempt->received.len);
	const char *message = kube_json_text(status, "message", NULL);

	if (attempt->status == 0)
		return arena_printf(arena, "%s%s: %s", server, question->path, attempt->why);
	return arena_printf(arena, "%s %s%s is answered with status %d%s%.1000s", method, server, question->path,
						attempt->status, message == NULL ? "" : ": ", message == NULL ? "" : message);
}

Answer
ask(Asker *asker, Arena *arena, const Ask *question)
{
	int			attempts = question->attempts > 0 ? question->attempts : ATTEMPTS;
	Attempt		attempt = {.arena = arena};
	long		delay = FIRST_DELAY_MS;
	Answer		answer = {0};

	strbuf_init(&attempt.received, arena);
	for (;;)
	{
		long		retry_after = 0;

		attempt_run(asker, question, &attempt, &retry_after);
		if (--attempts <= 0 || !is_again(question, attempt.status, attempt.untrusted, retry_after))
			break;
		wait_ms(retry_after <= 0 ? delay : retry_after > MOST_DELAY_S ? MOST_DELAY_S * 1000 : retry_after * 1000);
		delay = delay * 3 / 2;
	}
	answer.status = attempt.status;
	answer.untrusted = attempt.untrusted;
	answer.body.bytes = attempt.received.len > 0 ? attempt.received.bytes : "";
	answer.body.len = attempt.received.len;
	if (attempt.status < 200 || attempt.status >= 300)
		answer.why = explain(arena, asker_server(asker), question, &attempt);
	return answer;
}

json_t *
ask_document(Asker *asker, Arena *arena, const Ask *question, Answer *answer)
{
	json_t	   *document;

	*answer = ask(asker, arena, question);
	if (answer->why != NULL)
		return NULL;
	document = kube_json_read(answer->body.bytes, answer->body.len);
	if (document == NULL)
		answer->why = arena_printf(arena, "%s%s: the answer is not JSON", asker_server(asker), question->path);
	return document;
}

const char *
ask_cluster_uid(Asker *asker, Arena *arena, int attempts, Answer *answer)
{
	Ask			question = {.path = "/api/v1/namespaces/kube-system", .attempts = attempts};
	json_auto_t *namespace = ask_document(asker, arena, &question, answer);
	const char *uid = kube_json_text(namespace, "metadata", "uid", NULL);

	if (uid != NULL && uid[0] != '\0')
		return arena_strdup(arena, uid);
	if (answer->why == NULL)
		answer->why = arena_printf(arena, "the namespace kube-system has no uid: %s is no kube-apiserver",
								   asker_server(asker));
	return NULL;
}
