/*-------------------------------------------------------------------------
 *
 * reply.c
 *	  Answers: replies of the extension's functions and Status objects of the proxy.
 *
 * An SQL error is a fault of the proxy, the extension or the database, never
 * of the client: the extension answers a client's mistakes with a reply.  The
 * text of the error goes to the log; the client gets the SQLSTATE.  The
 * exception is 54000: the request takes more memory or work than it may, which
 * may show only after the first piece of the answer.
 *
 *-------------------------------------------------------------------------
 */
#include "api/reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "engine/api/request.h"
#include "engine/base/utf8.h"

#define WARNING_TOTAL 4096		/* code points; when all warnings together have more, each is cut */
#define WARNING_CUT 256
#define WARNING_LIMIT 64		/* largest number of warning headers */

typedef struct SqlStatus
{
	const char *sqlstate;		/* five characters, or a class of two */
	int			code;
	const char *reason;
	const char *message;
	int			retry_after;
} SqlStatus;

/* Answers to SQL errors.  The first entry that matches is used. */
static const SqlStatus sql_statuses[] = {
	{"KR410", 410, "Expired", "The resourceVersion for the provided list is too old.", 0},
	{"40", 503, "ServiceUnavailable", "the database could not complete the operation, please try again", 1},
	{"54000", 413, "RequestEntityTooLarge",
	"Request entity too large: it takes more memory or work than its size allows", 0},
	{"55000", 503, "ServiceUnavailable", "a dump is being restored, please try again", 1},
	{"55P03", 503, "ServiceUnavailable", "the operation waited too long for another one, please try again", 1},
	{"57014", 504, "Timeout", "Timeout: request did not complete within the allotted timeout", 1},
	{"53", 503, "ServiceUnavailable", "the database is out of resources, please try again", 1},
	{"57", 503, "ServiceUnavailable", "the database is restarting, please try again", 1},
	{"3F000", 503, "ServiceUnavailable", "the database does not have the extension kube_reports, please try again", 1},
	{"42501", 503, "ServiceUnavailable", "the database does not let the proxy serve the cluster, please try again", 1},
	{"08", 503, "ServiceUnavailable", "the connection to the database was lost, please try again", 1},
	{"25006", 503, "ServiceUnavailable", "the database is read-only, please try again", 1},
	{"25P03", 503, "ServiceUnavailable", "the connection to the database was lost, please try again", 1},
	{"", 500, "InternalError", NULL, 0},
};

static const SqlStatus *
sql_status(const PgError *error)
{
	const SqlStatus *status = sql_statuses;

	while (strncmp(error->sqlstate, status->sqlstate, strlen(status->sqlstate)) != 0)
		status++;
	return status;
}

/* Returns the entry of an error, and the message and details of the Status; new texts are in the arena. */
static const SqlStatus *
explain(Arena *arena, const PgError *error, const char **message, StatusDetails *details)
{
	const SqlStatus *status = sql_status(error);

	*details = (StatusDetails) {.retry_after_seconds = status->retry_after};
	*message = status->message;
	if (*message == NULL)
	{
		StatusCause *cause = arena_alloc0(arena, sizeof(StatusCause));

		*message = arena_printf(arena, "Internal error occurred: the database reported SQLSTATE %s", error->sqlstate);
		cause->message = *message;
		details->causes = cause;
		details->cause_count = 1;
	}
	return status;
}

bool
reply_is_transient(PgOutcome outcome, const PgError *error)
{
	const SqlStatus *status;

	/* Only PG_FAILED comes with an error. */
	if (outcome != PG_FAILED || error == NULL)
		return true;
	status = sql_status(error);
	return status->code != 500 && status->code != 413;
}

Reply
reply_read(Arena *arena, const PgResult *result, size_t row)
{
	Reply		reply = {0};
	PgArray		warnings = pg_array(result, row, 3);
	JsonText	warning;

	reply.code = pg_int4(result, row, 0);
	reply.content_type = pg_is_null(result, row, 1) ? "application/json" : pg_text(result, row, 1).bytes;
	reply.retry_after = pg_int4(result, row, 2);
	reply.warnings = warnings.left > 0 ? arena_alloc(arena, warnings.left * sizeof(JsonText)) : NULL;
	while (pg_array_next(&warnings, &warning))
	{
		if (warning.bytes != NULL)
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): warnings.left counts the elements */
			reply.warnings[reply.warning_count++] = warning;
	}
	reply.body = pg_text(result, row, 4);
	if (reply.code < 200 || reply.code > 599)
		reply.code = 500;
	return reply;
}

/* Returns 299 - "text" (WARN-01), with at most limit code points of the text, quoted, without control characters. */
static char *
warning_value(Arena *arena, JsonText text, size_t limit)
{
	StrBuf		buf;
	size_t		runes = 0;

	strbuf_init(&buf, arena);
	strbuf_puts(&buf, "299 - \"");
	for (size_t i = 0; i < text.len; i++)
	{
		unsigned char c = (unsigned char) text.bytes[i];

		if (!utf8_continues(text.bytes[i]) && ++runes > limit)
			break;
		if (c < 0x20 || c == 0x7F)
			continue;
		if (c == '"' || c == '\\')
			strbuf_putc(&buf, '\\');
		strbuf_putc(&buf, (char) c);
	}
	strbuf_putc(&buf, '"');
	return buf.bytes;
}

static bool
warning_is_new(const Reply *reply, size_t index)
{
	for (size_t i = 0; i < index; i++)
	{
		if (json_text_compare(reply->warnings[i], reply->warnings[index]) == 0)
			return false;
	}
	return true;
}

/* Every answer about a deprecated version has this warning, errors included. */
static void
append_deprecation(Exchange *exchange, HttpHeader *headers, size_t *count)
{
	const char *deprecation = exchange->type != NULL ? exchange->type->deprecation : NULL;
	JsonText	text = {deprecation, deprecation != NULL ? strlen(deprecation) : 0};

	if (deprecation != NULL)
		headers[(*count)++] = (HttpHeader) {"warning", warning_value(&exchange->arena, text, WARNING_TOTAL)};
}

static void
append_gzip(HttpHeader *headers, size_t *count)
{
	headers[(*count)++] = (HttpHeader) {"content-encoding", "gzip"};
	headers[(*count)++] = (HttpHeader) {"vary", "Accept-Encoding"};
}

/* Returns the headers of a reply, in the exchange's arena; sets *count. */
static HttpHeader *
reply_headers(Exchange *exchange, const Reply *reply, size_t *count)
{
	Arena	   *arena = &exchange->arena;
	size_t		limit = reply->warning_count < WARNING_LIMIT ? reply->warning_count : WARNING_LIMIT;
	HttpHeader *headers = arena_alloc(arena, (limit + 6) * sizeof(HttpHeader)); /* two more are for gzip */
	size_t		left = WARNING_TOTAL;
	size_t		total = 0;

	*count = 0;
	headers[(*count)++] = (HttpHeader) {"content-type", reply->content_type};
	if (reply->retry_after > 0)
		headers[(*count)++] = (HttpHeader) {"retry-after", arena_printf(arena, "%d", reply->retry_after)};
	if (reply->allow != NULL)
		headers[(*count)++] = (HttpHeader) {"allow", reply->allow};
	if (reply->gzip)
		append_gzip(headers, count);
	append_deprecation(exchange, headers, count);
	for (size_t i = 0; i < reply->warning_count; i++)
		total += utf8_count(reply->warnings[i].bytes, reply->warnings[i].len);
	for (size_t i = 0; i < limit; i++)
	{
		size_t		runes = utf8_count(reply->warnings[i].bytes, reply->warnings[i].len);

		if (total > WARNING_TOTAL && runes > WARNING_CUT)
			runes = WARNING_CUT;
		if (!warning_is_new(reply, i) || runes > left)
			continue;
		left -= runes;
		headers[(*count)++] = (HttpHeader) {"warning", warning_value(arena, reply->warnings[i], runes)};
	}
	return headers;
}

/* Ends the database call and the deadline of the request; the answer may still be on its way. */
static void
exchange_answered(Exchange *exchange, int code)
{
	exchange->code = code;
	loop_timer_stop(&exchange->deadline);
	if (exchange->call != NULL)
		pg_cancel(exchange->call);
	exchange->call = NULL;
	exchange_cancel_job(exchange);
}

static void
release_result(void *state)
{
	pg_result_free(state);
}

/* Whether the client wants this JSON answer as YAML. */
static bool
wants_yaml(const Exchange *exchange, const char *content_type, int code)
{
	const char *accept = http_header(exchange->http, "accept");
	const char *verb = exchange->route->verb;
	bool		list = strcmp(verb, "list") == 0 || strcmp(verb, "deletecollection") == 0;

	return accept != NULL && strcmp(content_type, "application/json") == 0 &&
		request_media_type(accept, list, code >= 400) == MEDIA_YAML;
}

bool
reply_is_pretty(Exchange *exchange, int code)
{
	const Route *route = exchange->route;
	const char *verb = route->verb;
	const JsonText *given = route_parameter(route, "pretty");
	const char *parameter = given != NULL ? arena_strndup(&exchange->arena, given->bytes, given->len) : NULL;
	bool		list = strcmp(verb, "list") == 0 || strcmp(verb, "deletecollection") == 0;

	return request_is_pretty(http_header(exchange->http, "accept"), list, code >= 400, parameter,
							 http_header(exchange->http, "user-agent"));
}

/* Whether the proxy must indent an answer.  The extension indents objects, lists and the Status of one deletion. */
static bool
wants_indent(Exchange *exchange, const char *content_type, int code)
{
	return (code >= 400 || strcmp(exchange->route->verb, "deletecollection") == 0) &&
		strcmp(content_type, "application/json") == 0 &&
		reply_is_pretty(exchange, code);
}

JsonText
reply_indented(Arena *arena, JsonText body)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	json_indent(&buf, body, 0);
	strbuf_putc(&buf, '\n');
	return (JsonText) {buf.bytes, buf.len};
}

/*
 * Whether the answer may be compressed (REQ-11): only answers to reads and to exports, which have no verb of the API.
 */
static bool
wants_gzip(const Exchange *exchange, int code)
{
	const char *verb = exchange->route->verb;

	return code == 200 && !exchange->head &&
		(strcmp(verb, "get") == 0 || strcmp(verb, "list") == 0 || strcmp(exchange->verb, "export") == 0) &&
		encoding_accepts_gzip(http_header(exchange->http, "accept-encoding"));
}

/* ---------- an answer in another form ---------- */

typedef struct ReplyJob
{
	OffloadJob	job;
	Exchange   *exchange;		/* these four are not used by the thread */
	int			code;
	HttpHeader *headers;		/* with room for the headers of gzip */
	size_t		header_count;
	bool		yaml;
	bool		indent;
	bool		gzip;			/* afterwards: whether it was compressed */
	JsonText	body;
	Arena		input;			/* the original body, until it is converted */
	Arena		arena;			/* the converted body */
} ReplyJob;

static void
encode_reply(OffloadJob *job)
{
	ReplyJob   *reply = (ReplyJob *) job;
	const char *given = reply->body.bytes;

	if (reply->yaml)
		reply->body = encode_yaml(&reply->arena, reply->body);
	else if (reply->indent)
		reply->body = reply_indented(&reply->arena, reply->body);
	reply->gzip &= reply->body.len >= GZIP_FROM;
	if (reply->gzip)
	{
		/* Free the uncompressed body at once: the client may read slowly. */
		Arena		whole = reply->arena;

		arena_init(&reply->arena);
		reply->body = encode_gzip(&reply->arena, reply->body);
		arena_free(&whole);
	}
	if (reply->body.bytes != given)
	{
		arena_free(&reply->input);
		arena_init(&reply->input);
	}
}

static void
free_reply(void *state)
{
	ReplyJob   *reply = state;

	arena_free(&reply->input);
	arena_free(&reply->arena);
	free(reply);
}

static void
reply_encoded(OffloadJob *job, bool cancelled)
{
	ReplyJob   *reply = (ReplyJob *) job;

	if (cancelled)
	{
		free_reply(reply);
		return;
	}
	reply->exchange->job = NULL;
	if (reply->gzip)
		append_gzip(reply->headers, &reply->header_count);
	http_reply_borrowed(reply->exchange->http, reply->code, reply->headers, reply->header_count, reply->body.bytes,
						reply->body.len, free_reply, reply);
}

/* Encodes a small answer at once, a larger one in a thread. */
static void
send_encoded(Exchange *exchange, const Reply *given, bool yaml, bool indent, bool gzip, PgResult *result)
{
	bool		at_once = given->body.len < ENCODE_AT_ONCE;
	Reply		reply = *given;
	ReplyJob   *job;

	/* Only reads get 429 here: a write was executed, and the client must not send it again. */
	if (!at_once && !offload_has_room() && strcmp(exchange->route->method, "GET") == 0)
	{
		reply_too_many_requests(exchange);
		pg_result_free(result);
		return;
	}
	job = allocate(sizeof(ReplyJob));
	/* The result is freed as soon as the body is copied. */
	reply.content_type = arena_strdup(&exchange->arena, given->content_type);
	job->job = (OffloadJob) {.run = encode_reply, .done = reply_encoded};
	job->exchange = exchange;
	job->code = given->code;
	job->headers = reply_headers(exchange, &reply, &job->header_count);
	job->yaml = yaml;
	job->indent = indent;
	job->gzip = gzip;
	arena_init(&job->input);
	arena_init(&job->arena);
	job->body = (JsonText) {arena_strndup(&job->input, given->body.bytes, given->body.len), given->body.len};
	pg_result_free(result);
	exchange_answered(exchange, given->code);
	if (at_once)
	{
		encode_reply(&job->job);
		reply_encoded(&job->job, false);
		return;
	}
	exchange->job = &job->job;
	offload_submit(&job->job);
}

void
reply_send(Exchange *exchange, const Reply *given, PgResult *result)
{
	Reply		reply = *given;
	bool		yaml = wants_yaml(exchange, reply.content_type, reply.code);
	bool		indent = wants_indent(exchange, reply.content_type, reply.code);
	bool		gzip = wants_gzip(exchange, reply.code);
	size_t		count;
	HttpHeader *headers;

	if (yaml)
		reply.content_type = "application/yaml";
	if (yaml || indent || (gzip && reply.body.len >= GZIP_FROM))
	{
		send_encoded(exchange, &reply, yaml, indent, gzip, result);
		return;
	}
	headers = reply_headers(exchange, &reply, &count);
	exchange_answered(exchange, reply.code);
	if (result != NULL)
		http_reply_borrowed(exchange->http, reply.code, headers, count, reply.body.bytes, reply.body.len,
							release_result, result);
	else
		http_reply(exchange->http, reply.code, headers, count, reply.body.bytes, reply.body.len);
}

Encoding *
reply_encoding(Exchange *exchange, Reply *reply)
{
	bool		yaml = wants_yaml(exchange, reply->content_type, reply->code);

	reply->gzip = wants_gzip(exchange, reply->code);
	if (yaml)
		reply->content_type = "application/yaml";
	return yaml || reply->gzip ? encoding_new(yaml, reply->gzip) : NULL;
}

void
reply_stream_begin(Exchange *exchange, const Reply *reply, void (*writable) (void *state), void *state)
{
	size_t		count;
	HttpHeader *headers = reply_headers(exchange, reply, &count);

	exchange->code = reply->code;
	http_stream_begin(exchange->http, reply->code, headers, count, writable, state);
}

/* Answers with a Status.  allow: the allowed methods, or NULL. */
static void
send_status(Exchange *exchange, int code, const char *reason, const char *message, const StatusDetails *details,
			const char *allow)
{
	HttpHeader	headers[5] = {{"content-type", "application/json"}};
	size_t		count = 1;
	JsonText	body;
	StrBuf		buf;

	strbuf_init(&buf, &exchange->arena);
	status_failure(&buf, code, reason, message, details);
	body = (JsonText) {buf.bytes, buf.len};
	if (wants_yaml(exchange, headers[0].value, code))
	{
		headers[0].value = "application/yaml";
		body = encode_yaml(&exchange->arena, body);
	}
	else if (wants_indent(exchange, headers[0].value, code))
		body = reply_indented(&exchange->arena, body);
	/* Of all Status documents, kube-apiserver sets this header only on 403. */
	if (code == 403)
		headers[count++] = (HttpHeader) {"x-content-type-options", "nosniff"};
	append_deprecation(exchange, headers, &count);
	if (details != NULL && details->retry_after_seconds > 0)
		headers[count++] = (HttpHeader) {"retry-after",
			arena_printf(&exchange->arena, "%d", details->retry_after_seconds)};
	if (allow != NULL)
		headers[count++] = (HttpHeader) {"allow", allow};
	exchange_answered(exchange, code);
	http_reply(exchange->http, code, headers, count, body.bytes, body.len);
}

void
reply_status(Exchange *exchange, int code, const char *reason, const char *message, const StatusDetails *details)
{
	send_status(exchange, code, reason, message, details, NULL);
}

/* ERR-21 */
void
reply_method_not_allowed(Exchange *exchange, const char *allow)
{
	StatusDetails details = {0};

	send_status(exchange, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource",
				&details, allow);
}

void
reply_plain(Exchange *exchange, int code, const char *text, int retry_after)
{
	HttpHeader	headers[3] = {{"content-type", "text/plain; charset=utf-8"}, {"x-content-type-options", "nosniff"}};
	size_t		count = 2;

	if (retry_after > 0)
		headers[count++] = (HttpHeader) {"retry-after", arena_printf(&exchange->arena, "%d", retry_after)};
	exchange_answered(exchange, code);
	http_reply(exchange->http, code, headers, count, text, strlen(text));
}

void
reply_bad_request(Exchange *exchange, const char *why)
{
	reply_status(exchange, 400, "BadRequest", why, NULL);
}

void
reply_too_many_requests(Exchange *exchange)
{
	StatusDetails details = {.retry_after_seconds = 1};

	reply_status(exchange, 429, "TooManyRequests", "Too many requests, please try again later.", &details);
}

void
reply_timeout(Exchange *exchange)
{
	reply_status(exchange, 504, "Timeout", "Timeout: request did not complete within the allotted timeout", NULL);
}

void
reply_outcome(Exchange *exchange, PgOutcome outcome, const PgError *error)
{
	StatusDetails details = {.retry_after_seconds = 1};
	const SqlStatus *failed;
	const char *message;

	switch (outcome)
	{
		case PG_FAILED:
			failed = explain(&exchange->arena, error, &message, &details);
			reply_status(exchange, failed->code, failed->reason, message, &details);
			break;
		case PG_EXPIRED:
			reply_timeout(exchange);
			break;
		case PG_BUSY:
			reply_too_many_requests(exchange);
			break;
		case PG_LOST:
			reply_status(exchange, 503, "ServiceUnavailable",
						 "the connection to the database was lost; whether the operation took effect is not known",
						 &details);
			break;
		default:
			reply_status(exchange, 503, "ServiceUnavailable",
						 "the database is not available, please try again", &details);
	}
}

bool
reply_call_ended(Exchange *exchange, PgOutcome outcome, const PgError *error)
{
	exchange->call = NULL;
	exchange_note_database(exchange);
	if (outcome == PG_OK)
		return true;
	reply_outcome(exchange, outcome, error);
	return false;
}

void
reply_with_result(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Exchange   *exchange = state;
	Reply		reply;

	if (!reply_call_ended(exchange, outcome, error))
		return;
	reply = reply_read(&exchange->arena, result, 0);
	reply_send(exchange, &reply, result);
}

JsonText
reply_failure(Arena *arena, const PgError *error)
{
	StatusDetails details;
	const char *message;
	const SqlStatus *status = explain(arena, error, &message, &details);
	StrBuf		buf;

	strbuf_init(&buf, arena);
	status_failure(&buf, status->code, status->reason, message, &details);
	return (JsonText) {buf.bytes, buf.len};
}
