/*-------------------------------------------------------------------------
 *
 * forward.c
 *	  Requests of senders in other clusters: /v1/forward/...
 *
 * These requests have a port of their own.  Credentials of senders are not
 * credentials of Kubernetes' users: the API port accepts neither the token nor
 * the certificate of a sender, and the proxy never sends a sender's token to
 * kube-apiserver.  The database has the credentials and the cluster of each.
 *
 * A credential is looked up at the end of the head, before the body is read,
 * so that an unknown sender costs a brief read of the database and no memory.
 * Later bodies on the same connection are read without that look-up.  The
 * credential of each request is looked up again before its body is sent to the
 * database, and once more by the statement that stores the body.
 *
 *-------------------------------------------------------------------------
 */
#include "api/forward.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/exchange.h"
#include "api/reply.h"
#include "base/allocate.h"
#include "base/config.h"
#include "base/log.h"
#include "codec/digest.h"
#include "codec/encoding.h"
#include "engine/base/hash.h"
#include "trust/client_certificate.h"
#include "trust/request_header.h"

/* How many times larger than the limit of a body an unpacked body may be. */
#define GROWTH 4
#define LOG_INTERVAL 5000		/* shortest time between two log lines about refusals, in milliseconds */
#define HEAD_TIMEOUT_MS 10000	/* time limit of the look-up at the end of a head */

typedef struct SenderCredential
{
	const char *kind;			/* a literal */
	const char *text;			/* in the arena of the request or of the question */
} SenderCredential;

typedef struct Forward
{
	const char *what;			/* results, objects or sync; a literal */
	SenderCredential credential;
	uint64_t	turn;			/* of the sender, whatever its credential */
	bool		gzip;
} Forward;

/* The struct behind a HeadQuestion of http/. */
typedef struct SenderQuestion
{
	Arena		arena;
	PgCall	   *call;
	void		(*told) (void *state, HeadVerdict verdict);
	void	   *state;
} SenderQuestion;

/* ---------- the credential ---------- */

static const char *
token_hash(Arena *arena, const char *token)
{
	char	   *hash = arena_alloc(arena, DIGEST_HEX_SIZE);

	sha256_hex(token, strlen(token), hash);
	return hash;
}

static void
log_refusal(const char *why)
{
	static uint64_t logged_at;
	uint64_t	now = loop_now();

	if (logged_at != 0 && now - logged_at < LOG_INTERVAL)
		return;
	logged_at = now;
	log_line(LOG_WARNING, "a sender was refused: %s", why);
}

/*
 * Reads the credential of a request.  A token is preferred to a certificate: a sender that has both changes to the
 * token.
 */
static bool
read_credential(Arena *arena, ClientCertificate *peer, const char *authorization, SenderCredential *credential)
{
	const char *why = "it has no credentials";
	bool		spaced;

	if (authorization != NULL)
	{
		const char *token = bearer_token(arena, authorization, &spaced);

		if (token == NULL)
		{
			log_refusal("its header Authorization has no bearer token");
			return false;
		}
		*credential = (SenderCredential) {"token", token_hash(arena, token)};
		return true;
	}
	credential->kind = "certificate";
	if (client_certificate_sender(peer, arena, &credential->text, &why) == CERTIFICATE_TRUSTED)
		return true;
	log_refusal(why);
	return false;
}

/* Returns the call that looks a credential up.  Its row has the name of the sender; null: the sender is unknown. */
static PgCall *
sender_call(const SenderCredential *credential)
{
	PgCall	   *call = pg_call_new(PG_FORWARD_SENDER);

	pg_add_text(call, credential->kind);
	pg_add_text(call, credential->text);
	return call;
}

static void
log_stranger(void)
{
	log_refusal("its credential is unknown or has expired");
}

static void
answer_unauthorized(Exchange *exchange)
{
	reply_status(exchange, 401, "Unauthorized", "Unauthorized", NULL);
}

/* ---------- the head ---------- */

static void
free_question(SenderQuestion *question)
{
	arena_free(&question->arena);
	free(question);
}

/* If the database did not answer, the body is read, and the next stages answer.  The limit of held bodies applies. */
static void
looked_up(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	SenderQuestion *question = state;
	HeadVerdict verdict = HEAD_STRANGER;

	if (outcome == PG_OK)
	{
		verdict = pg_is_null(result, 0, 0) ? HEAD_UNAUTHORIZED : HEAD_KNOWN;
		pg_result_free(result);
	}
	if (verdict == HEAD_UNAUTHORIZED)
		log_stranger();
	question->told(question->state, verdict);
	free_question(question);
}

HeadQuestion *
forward_ask_head(struct ClientCertificate *peer, const char *authorization, HeadVerdict *verdict,
				 void (*told) (void *state, HeadVerdict verdict), void *state)
{
	/* freed by looked_up() or forward_cancel_head() */
	SenderQuestion *question = allocate(sizeof(SenderQuestion));
	SenderCredential credential;

	arena_init(&question->arena);
	if (!read_credential(&question->arena, peer, authorization, &credential))
	{
		*verdict = HEAD_UNAUTHORIZED;
		free_question(question);
		return NULL;
	}
	question->told = told;
	question->state = state;
	question->call = sender_call(&credential);
	pg_send(question->call, false, HEAD_TIMEOUT_MS, looked_up, question);
	return (HeadQuestion *) question;
}

void
forward_cancel_head(HeadQuestion *asked)
{
	SenderQuestion *question = (SenderQuestion *) asked;

	pg_cancel(question->call);
	free_question(question);
}

/* ---------- the body ---------- */

static void
store(Exchange *exchange)
{
	const Forward *forward = exchange->work;
	PgCall	   *call = pg_call_new(PG_FORWARD);

	pg_add_text(call, forward->what);
	pg_add_text(call, forward->credential.kind);
	pg_add_text(call, forward->credential.text);
	pg_add_bytes(call, exchange->body.bytes, exchange->body.len);
	pg_in_turn(call, forward->turn);
	exchange->call = call;
	pg_send(call, false, exchange_time_left(exchange), reply_with_result, exchange);
}

typedef struct UnpackJob
{
	OffloadJob	job;
	Exchange   *exchange;		/* not used by the thread */
	Arena		arena;			/* holds both texts */
	JsonText	text;
	bool		good;
	bool		large;
} UnpackJob;

static void
unpack(OffloadJob *job)
{
	UnpackJob  *body = (UnpackJob *) job;

	body->good = decode_gzip(&body->arena, body->text, config.max_request_body_bytes * GROWTH, &body->text,
							 &body->large);
}

static void
unpacked(OffloadJob *job, bool cancelled)
{
	UnpackJob	body = *(UnpackJob *) job;
	Exchange   *exchange = body.exchange;

	free(job);
	if (!cancelled)
	{
		exchange->job = NULL;
		if (body.good && !http_hold(exchange->http, body.text.len))
			reply_too_many_requests(exchange);
		else if (body.good)
		{
			exchange->body = body.text;
			store(exchange);
			exchange->body = (JsonText) {NULL, 0};
		}
		else if (body.large)
			reply_status(exchange, 413, "RequestEntityTooLarge", "Request entity too large: the limit of an unpacked "
						 "body is four times --max-request-body-bytes", NULL);
		else
			reply_status(exchange, 400, "BadRequest", "the body is not gzip", NULL);
	}
	arena_free(&body.arena);
}

static void
unpack_elsewhere(Exchange *exchange)
{
	UnpackJob  *job;

	if (!offload_has_room())
	{
		reply_too_many_requests(exchange);
		return;
	}
	/* zeroed; freed by unpacked() */
	job = allocate(sizeof(*job));
	job->job.run = unpack;
	job->job.done = unpacked;
	job->exchange = exchange;
	arena_init(&job->arena);
	job->text = (JsonText) {arena_strndup(&job->arena, exchange->body.bytes, exchange->body.len), exchange->body.len};
	exchange->job = &job->job;
	offload_submit(&job->job);
}

static void
known(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Exchange   *exchange = state;
	Forward    *forward = exchange->work;
	const char *name;

	if (!reply_call_ended(exchange, outcome, error))
		return;
	name = pg_is_null(result, 0, 0) ? NULL : arena_strdup(&exchange->arena, pg_text(result, 0, 0).bytes);
	pg_result_free(result);
	if (name == NULL)
	{
		log_stranger();
		answer_unauthorized(exchange);
		return;
	}
	if (!http_recognize(exchange->http))
	{
		reply_too_many_requests(exchange);
		return;
	}
	forward->turn = hash_bytes(HASH_SEED, name, strlen(name));
	http_set_user(exchange->http, arena_printf(&exchange->arena, "sender:%s", name), NULL, 0);
	exchange->body.bytes = http_body(exchange->http, &exchange->body.len);
	if (forward->gzip)
		unpack_elsewhere(exchange);
	else
		store(exchange);
}

/* ---------- the request ---------- */

/* Returns the part of the path after the prefix, as a literal; NULL: the path is not served. */
static const char *
what_of(const char *path)
{
	static const char prefix[] = "/v1/forward/";
	static const char *const whats[] = {"results", "objects", "evidence", "sync"};

	if (strncmp(path, prefix, sizeof(prefix) - 1) != 0)
		return NULL;
	for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++)
	{
		if (strcmp(path + sizeof(prefix) - 1, whats[i]) == 0)
			return whats[i];
	}
	return NULL;
}

static bool
is_json(const char *content_type)
{
	static const char json[] = "application/json";
	size_t		len = content_type == NULL ? 0 : strcspn(content_type, "; \t");

	return content_type == NULL || (len == sizeof(json) - 1 && strncasecmp(content_type, json, len) == 0);
}

/* Checks path, method and headers; false when the request was answered with an error. */
static bool
read_head(Exchange *exchange, Forward *forward)
{
	const char *encoding = http_header(exchange->http, "content-encoding");

	forward->what = what_of(exchange->route->path);
	forward->gzip = encoding != NULL && strcasecmp(encoding, "gzip") == 0;
	if (forward->what == NULL)
		reply_status(exchange, 404, "NotFound", "the server could not find the requested resource", NULL);
	else if (strcmp(exchange->route->method, "POST") != 0)
		reply_method_not_allowed(exchange, "POST");
	else if (!is_json(http_header(exchange->http, "content-type")))
		reply_status(exchange, 415, "UnsupportedMediaType", "the body of the request must be application/json", NULL);
	else if (encoding != NULL && !forward->gzip && strcasecmp(encoding, "identity") != 0)
		reply_status(exchange, 415, "UnsupportedMediaType", "the body of the request may be compressed with gzip only",
					 NULL);
	else if (!read_credential(&exchange->arena, http_peer(exchange->http),
							  http_header(exchange->http, "authorization"), &forward->credential))
		answer_unauthorized(exchange);
	else
		return true;
	return false;
}

static void
let_go(Exchange *exchange)
{
}

void
forward_request(HttpRequest *request)
{
	Exchange   *exchange = exchange_open(request, reply_bad_request);
	Forward    *forward;

	if (exchange == NULL)
		return;
	exchange->verb = "forward";
	if (api_shutting_down())
	{
		reply_plain(exchange, 503, "The server is shutting down, please try again later.\n", 5);
		return;
	}
	exchange_set_deadline(exchange, (uint64_t) config.request_timeout * 1000, reply_timeout);
	forward = arena_alloc0(&exchange->arena, sizeof(Forward));
	if (!read_head(exchange, forward))
		return;
	exchange_hold(exchange, forward, let_go, NULL);
	exchange->call = sender_call(&forward->credential);
	pg_send(exchange->call, false, exchange_time_left(exchange), known, exchange);
}
