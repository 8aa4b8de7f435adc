/*-------------------------------------------------------------------------
 *
 * forward.c
 *	  Requests of senders in other clusters: /v1/forward/...
 *
 * These requests have a port of their own.  Their credentials are not those of
 * Kubernetes' users: neither a token nor a certificate of a sender means
 * anything at the API port, and a token of a sender is never shown to
 * kube-apiserver.  The database knows the credentials, and which cluster each
 * belongs to.
 *
 * A credential is looked up before the body goes to the database, so that a
 * stranger costs the database a brief read.  The statement that stores the
 * body looks it up again.
 *
 *-------------------------------------------------------------------------
 */
#include "api/forward.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/exchange.h"
#include "api/reply.h"
#include "base/allocate.h"
#include "base/config.h"
#include "base/log.h"
#include "codec/encoding.h"
#include "trust/client_certificate.h"
#include "trust/request_header.h"

/* How many times larger than the limit of a body an unpacked body may be. */
#define GROWTH 4
#define LOG_INTERVAL 5000		/* of refusals, in milliseconds */

typedef struct Forward
{
	const char *what;			/* results, objects or sync; a literal */
	const char *kind;			/* of the credential; a literal */
	const char *credential;
	bool		gzip;
} Forward;

/* ---------- the credential ---------- */

static const char *
token_hash(Arena *arena, const char *token)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len = 0;
	StrBuf		text;

	if (EVP_Digest(token, strlen(token), digest, &len, EVP_sha256(), NULL) != 1)
		abort();
	strbuf_init(&text, arena);
	for (unsigned int i = 0; i < len; i++)
		strbuf_printf(&text, "%02x", digest[i]);
	return text.bytes;
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

/* A token counts before a certificate: a sender that has both is rotating to the token. */
static bool
read_credential(Exchange *exchange, Forward *forward)
{
	const char *authorization = http_header(exchange->http, "authorization");
	const char *why = "it has no credentials";
	const char *token = NULL;
	bool		spaced;

	if (authorization != NULL)
	{
		token = bearer_token(&exchange->arena, authorization, &spaced);
		if (token == NULL)
		{
			log_refusal("its header Authorization has no bearer token");
			return false;
		}
		forward->kind = "token";
		forward->credential = token_hash(&exchange->arena, token);
		return true;
	}
	forward->kind = "certificate";
	if (client_certificate_sender(http_peer(exchange->http), &exchange->arena, &forward->credential, &why) ==
		CERTIFICATE_TRUSTED)
		return true;
	log_refusal(why);
	return false;
}

static void
answer_unauthorized(Exchange *exchange)
{
	reply_status(exchange, 401, "Unauthorized", "Unauthorized", NULL);
}

/* ---------- the body ---------- */

static void
store(Exchange *exchange)
{
	const Forward *forward = exchange->work;
	PgCall	   *call = pg_call_new(PG_FORWARD);

	pg_add_text(call, forward->what);
	pg_add_text(call, forward->kind);
	pg_add_text(call, forward->credential);
	pg_add_bytes(call, exchange->body.bytes, exchange->body.len);
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
		if (body.good)
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
	const Forward *forward = exchange->work;
	const char *name;

	if (!reply_call_ended(exchange, outcome, error))
		return;
	name = pg_is_null(result, 0, 0) ? NULL : arena_strdup(&exchange->arena, pg_text(result, 0, 0).bytes);
	pg_result_free(result);
	if (name == NULL)
	{
		log_refusal("its credential is unknown or has expired");
		answer_unauthorized(exchange);
		return;
	}
	if (!http_recognize(exchange->http))
	{
		reply_too_many_requests(exchange);
		return;
	}
	http_set_user(exchange->http, arena_printf(&exchange->arena, "sender:%s", name), NULL, 0);
	exchange->body.bytes = http_body(exchange->http, &exchange->body.len);
	if (forward->gzip)
		unpack_elsewhere(exchange);
	else
		store(exchange);
}

/* ---------- the request ---------- */

/* The part of the path after the prefix, as a literal; NULL: the path is not served. */
static const char *
what_of(const char *path)
{
	static const char prefix[] = "/v1/forward/";
	static const char *const whats[] = {"results", "objects", "sync"};

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
	else if (!read_credential(exchange, forward))
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
	Exchange   *exchange = exchange_open(request);
	Forward    *forward;
	PgCall	   *call;

	if (exchange == NULL)
		return;
	exchange->verb = "forward";
	if (api_shutting_down())
	{
		reply_plain(exchange, 503, "The server is shutting down, please try again later.\n", 5);
		return;
	}
	exchange_set_deadline(exchange, (uint64_t) config.request_timeout * 1000);
	forward = arena_alloc0(&exchange->arena, sizeof(Forward));
	if (!read_head(exchange, forward))
		return;
	exchange_hold(exchange, forward, let_go, NULL);
	call = pg_call_new(PG_FORWARD_SENDER);
	pg_add_text(call, forward->kind);
	pg_add_text(call, forward->credential);
	exchange->call = call;
	pg_send(call, false, exchange_time_left(exchange), known, exchange);
}
