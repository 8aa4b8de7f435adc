/*-------------------------------------------------------------------------
 *
 * http_message.c
 *	  The texts of a request and the head of its answer.
 *
 * Every answer has an audit id (the client's own when it is valid), the
 * client's X-Request-Id when it is valid, and a Cache-Control that forbids
 * caching unless the handler sets another one.  The ids of a traceparent (W3C
 * Trace Context) are for the log.  Header values may contain client text:
 * control characters become blanks, so that no value ends its line.
 *
 *-------------------------------------------------------------------------
 */
#include "http/http_message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#include "base/answer_room.h"
#include "base/config.h"
#include "http/http_head.h"
#include "base/log.h"

#define MAX_ID 64

/* First memory of the arena: enough for most requests, and less than the arena would allocate itself. */
#define FIRST_ROOM 2048

static const char id_bytes[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._";

static uint64_t
microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

/* http_server.c defines HttpRequest; it begins with an HttpMessage. */
static HttpMessage *
http_message_of(HttpRequest *request)
{
	return (HttpMessage *) request;
}

/* Starts the exchange's arena with so much room. */
static void
begin_arena(HttpMessage *exchange, size_t room)
{
	exchange->room = malloc(room);
	if (exchange->room == NULL)
		abort();
	arena_init(&exchange->arena);
	exchange->arena.next = exchange->room;
	exchange->arena.end = exchange->room + room;
}

void
http_message_init(HttpMessage *exchange, const char *method, size_t method_len, const char *target, size_t target_len,
				  size_t header_capacity)
{
	const char *question;

	memset(exchange, 0, sizeof(*exchange));
	begin_arena(exchange, FIRST_ROOM);
	exchange->begun_at = microseconds();
	exchange->method = arena_strndup(&exchange->arena, method, method_len);
	exchange->is_head = strcmp(exchange->method, "HEAD") == 0;
	exchange->uri = arena_strndup(&exchange->arena, target, target_len);
	question = strchr(exchange->uri, '?');
	if (question != NULL)
	{
		exchange->path = arena_strndup(&exchange->arena, exchange->uri, (size_t) (question - exchange->uri));
		exchange->query = question + 1;
	}
	else
	{
		exchange->path = exchange->uri;
		exchange->query = "";
	}
	exchange->headers = arena_alloc(&exchange->arena, sizeof(HttpHeader) * (header_capacity + 1));
}

void
http_message_add_header(HttpMessage *exchange, const char *name, size_t name_len, const char *value, size_t value_len)
{
	HttpHeader *header = &exchange->headers[exchange->header_count++];
	char	   *lower = arena_strndup(&exchange->arena, name, name_len);

	for (char *byte = lower; *byte != '\0'; byte++)
		if (*byte >= 'A' && *byte <= 'Z')
			*byte += 'a' - 'A';
	header->name = lower;
	header->value = arena_strndup(&exchange->arena, value, value_len);
}

/* Returns the client's id from a header; NULL when the id is missing or not safe to repeat. */
static const char *
given_id(HttpMessage *exchange, const char *header)
{
	const char *given = http_header((HttpRequest *) exchange, header);

	if (given == NULL || given[0] == '\0' || strlen(given) > MAX_ID || given[strspn(given, id_bytes)] != '\0')
		return NULL;
	return given;
}

/* Whether text begins with so many lower-case hexadecimal digits, not all of them 0. */
static bool
is_hex_id(const char *text, size_t len)
{
	return strspn(text, "0123456789abcdef") >= len && strspn(text, "0") < len;
}

/* 00-<32 digits>-<16 digits>-<2 digits>; a later version may continue after another hyphen. */
static void
read_trace_parent(HttpMessage *exchange)
{
	static const char form[] = "00-00000000000000000000000000000000-0000000000000000-00";
	const char *given = http_header((HttpRequest *) exchange, "traceparent");
	size_t		len = given != NULL ? strlen(given) : 0;

	if (len < sizeof(form) - 1 || given[2] != '-' || given[35] != '-' || given[52] != '-' ||
		strspn(given, "0123456789abcdef") != 2 || strncmp(given, "ff", 2) == 0 ||
		!is_hex_id(given + 3, 32) || !is_hex_id(given + 36, 16) || strspn(given + 53, "0123456789abcdef") != 2 ||
		(len > sizeof(form) - 1 && (strncmp(given, "00", 2) == 0 || given[55] != '-')))
		return;
	exchange->trace_id = arena_strndup(&exchange->arena, given + 3, 32);
	exchange->parent_id = arena_strndup(&exchange->arena, given + 36, 16);
}

void
http_message_ready(HttpMessage *exchange)
{
	unsigned char bytes[16];

	exchange->request_id = given_id(exchange, "x-request-id");
	read_trace_parent(exchange);
	exchange->audit_id = given_id(exchange, "audit-id");
	if (exchange->audit_id != NULL)
		return;
	while (getrandom(bytes, sizeof(bytes), 0) < 0 && errno == EINTR)
		;
	/* A random UUID, version 4. */
	bytes[6] = (bytes[6] & 0x0f) | 0x40;
	bytes[8] = (bytes[8] & 0x3f) | 0x80;
	exchange->audit_id = arena_printf(&exchange->arena,
									  "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
									  bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
									  bytes[8], bytes[9], bytes[10], bytes[11], bytes[12], bytes[13],
									  bytes[14], bytes[15]);
}

double
http_message_seconds(const HttpMessage *exchange)
{
	return (double) (microseconds() - exchange->begun_at) / 1e6;
}

void
http_message_end(HttpMessage *exchange, size_t bytes_sent, bool complete)
{
	const HttpTarget *target = &exchange->target;
	LogAccess	access = {
		.audit_id = exchange->audit_id,
		.request_id = exchange->request_id,
		.trace_id = exchange->trace_id,
		.parent_id = exchange->parent_id,
		.method = exchange->method,
		.uri = exchange->uri,
		.verb = target->verb,
		.group = target->group,
		.version = target->version,
		.resource = target->resource,
		.subresource = target->subresource,
		.namespace_name = target->namespace_name,
		.name = target->name,
		.user = exchange->user,
		.groups = exchange->groups,
		.group_count = exchange->group_count,
		.user_agent = http_header((HttpRequest *) exchange, "user-agent"),
		.status = exchange->status,
		.latency = http_message_seconds(exchange),
		.database_wait = exchange->database_wait,
		.database = exchange->database,
		.bytes = bytes_sent,
		.complete = complete,
		.lasting = target->verb != NULL && strcmp(target->verb, "watch") == 0,
	};

	log_access(&access);
	arena_free(&exchange->arena);
	free(exchange->room);
}

/* --- The request, as http.h shows it --- */

const char *
http_method(HttpRequest *request)
{
	return http_message_of(request)->method;
}

const char *
http_path(HttpRequest *request)
{
	return http_message_of(request)->path;
}

const char *
http_query(HttpRequest *request)
{
	return http_message_of(request)->query;
}

const char *
http_header(HttpRequest *request, const char *lower_case_name)
{
	const HttpMessage *exchange = http_message_of(request);

	for (size_t i = 0; i < exchange->header_count; i++)
		if (strcmp(exchange->headers[i].name, lower_case_name) == 0)
			return exchange->headers[i].value;
	return NULL;
}

const HttpHeader *
http_headers(HttpRequest *request, size_t *count)
{
	const HttpMessage *exchange = http_message_of(request);

	*count = exchange->header_count;
	return exchange->headers;
}

Arena *
http_arena(HttpRequest *request)
{
	return &http_message_of(request)->arena;
}

void
http_set_warning(HttpRequest *request, const char *text)
{
	http_message_of(request)->warning = text;
}

/* The number of members of a target, which are all strings. */
#define TARGET_MEMBERS (sizeof(HttpTarget) / sizeof(const char *))

void
http_set_target(HttpRequest *request, const HttpTarget *target)
{
	HttpMessage *exchange = http_message_of(request);
	const char *const *from = (const char *const *) target;
	const char **to = (const char **) &exchange->target;

	for (size_t i = 0; i < TARGET_MEMBERS; i++)
		to[i] = from[i] != NULL && from[i][0] != '\0' ? arena_strdup(&exchange->arena, from[i]) : NULL;
}

void
http_add_database_time(HttpRequest *request, double waited, double taken)
{
	HttpMessage *exchange = http_message_of(request);

	exchange->database_wait += waited;
	exchange->database += taken;
}

void
http_set_user(HttpRequest *request, const char *user, const char *const *groups, size_t group_count)
{
	HttpMessage *exchange = http_message_of(request);

	exchange->user = arena_strdup(&exchange->arena, user);
	exchange->user_number = answer_room_user(user);
	exchange->groups = arena_alloc(&exchange->arena, (group_count + 1) * sizeof(char *));
	for (size_t i = 0; i < group_count; i++)
		exchange->groups[i] = arena_strdup(&exchange->arena, groups[i]);
	exchange->group_count = group_count;
}

uint64_t
http_user_number(HttpRequest *request)
{
	return http_message_of(request)->user_number;
}

/* --- The request during a long stream --- */

/* Bytes that the arena uses for a copy. */
static size_t
size_of_copy(const char *text)
{
	return text != NULL ? strlen(text) / 8 * 8 + 8 : 0;
}

static const char *
copy(HttpMessage *exchange, const char *text)
{
	return text != NULL ? arena_strdup(&exchange->arena, text) : NULL;
}

void
http_forget_request(HttpRequest *request)
{
	static const char user_agent[] = "user-agent";
	HttpMessage *exchange = http_message_of(request);
	HttpMessage whole = *exchange;
	const char *agent = http_header(request, user_agent);
	size_t		room = sizeof(HttpHeader) + (whole.group_count + 1) * sizeof(char *) + size_of_copy(whole.method) +
	size_of_copy(whole.uri) + size_of_copy(whole.audit_id) + size_of_copy(whole.request_id) +
	size_of_copy(whole.trace_id) + size_of_copy(whole.parent_id) + size_of_copy(whole.user) + size_of_copy(agent);

	for (size_t i = 0; i < TARGET_MEMBERS; i++)
		room += size_of_copy(((const char *const *) &whole.target)[i]);
	for (size_t i = 0; i < whole.group_count; i++)
		room += size_of_copy(whole.groups[i]);
	begin_arena(exchange, room);
	exchange->method = copy(exchange, whole.method);
	exchange->uri = copy(exchange, whole.uri);
	exchange->audit_id = copy(exchange, whole.audit_id);
	exchange->request_id = copy(exchange, whole.request_id);
	exchange->trace_id = copy(exchange, whole.trace_id);
	exchange->parent_id = copy(exchange, whole.parent_id);
	http_set_target(request, &whole.target);
	exchange->path = exchange->query = "";
	exchange->warning = NULL;
	if (whole.user != NULL)
		http_set_user(request, whole.user, whole.groups, whole.group_count);
	exchange->headers = arena_alloc(&exchange->arena, sizeof(HttpHeader));
	exchange->headers->name = user_agent;
	exchange->headers->value = copy(exchange, agent);
	exchange->header_count = agent != NULL;
	arena_free(&whole.arena);
	free(whole.room);
}

/* --- The answer --- */

static const char *
status_reason(int status)
{
	static const struct
	{
		int			status;
		const char *reason;
	}			reasons[] =
	{
		{200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"}, {304, "Not Modified"},
		{400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"},
		{405, "Method Not Allowed"},
		{406, "Not Acceptable"}, {409, "Conflict"}, {410, "Gone"}, {413, "Request Entity Too Large"},
		{415, "Unsupported Media Type"}, {417, "Expectation Failed"}, {422, "Unprocessable Entity"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"}, {501, "Not Implemented"}, {502, "Bad Gateway"}, {503, "Service Unavailable"},
		{504, "Gateway Timeout"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}

static void
append_header(HttpMessage *exchange, AnswerHead *head, const char *name, const char *value)
{
	HttpHeader *header = &head->headers[head->header_count++];
	char	   *copy = arena_strdup(&exchange->arena, value);

	for (char *byte = copy; *byte != '\0'; byte++)
		if ((unsigned char) *byte < 0x20 || *byte == 0x7f)
			*byte = ' ';
	header->name = arena_strdup(&exchange->arena, name);
	header->value = copy;
}

void
http_message_answer(HttpMessage *exchange, int status, const HttpHeader *headers, size_t header_count, size_t length,
					AnswerHead *head)
{
	bool		has_audit_id = false;
	bool		has_cache_control = false;
	bool		has_type_options = false;
	bool		is_text = false;

	memset(head, 0, sizeof(*head));
	exchange->status = status;
	head->reason = status_reason(status);
	head->headers = arena_alloc(&exchange->arena, sizeof(HttpHeader) * (header_count + 5));
	head->length = length;
	for (size_t i = 0; i < header_count; i++)
	{
		const char *name = headers[i].name;
		const char *value = headers[i].value;

		if (strcmp(name, "date") == 0 || strcmp(name, "transfer-encoding") == 0)
			continue;
		if (strcmp(name, "content-length") == 0)
		{
			if (length == SIZE_MAX)
				head->length = strtoull(value, NULL, 10);
			continue;
		}
		if (strcmp(name, "connection") == 0)
		{
			head->close |= strcasecmp(value, "close") == 0;
			continue;
		}
		has_audit_id |= strcmp(name, "audit-id") == 0;
		has_cache_control |= strcmp(name, "cache-control") == 0;
		has_type_options |= strcmp(name, "x-content-type-options") == 0;
		is_text |= strcmp(name, "content-type") == 0 && strncmp(value, "text/", 5) == 0;
		append_header(exchange, head, name, value);
	}
	if (!has_audit_id)
		append_header(exchange, head, "audit-id", exchange->audit_id);
	if (exchange->request_id != NULL)
		append_header(exchange, head, "x-request-id", exchange->request_id);
	if (!has_cache_control)
		append_header(exchange, head, "cache-control", "no-cache, private");
	if (exchange->warning != NULL)
		append_header(exchange, head, "warning", arena_printf(&exchange->arena, "299 - \"%s\"", exchange->warning));
	if (is_text && !has_type_options)
		append_header(exchange, head, "x-content-type-options", "nosniff");
	/* These two statuses have no body. */
	if (status == 204 || status == 304)
		head->length = SIZE_MAX;
}

/* --- Refusals --- */

static const struct
{
	int			status;
	int			retry_after;	/* seconds */
	const char *reason;
	const char *message;
}			refusals[] =

{
	[REFUSAL_NONE] = {500, 0, "InternalError", "the request was refused without a reason"},
	[REFUSAL_BAD_REQUEST] = {400, 0, "BadRequest", "the request could not be understood"},
	[REFUSAL_NOT_FOUND] = {404, 0, "NotFound", "the server could not find the requested resource"},
	[REFUSAL_LARGE_BODY] = {413, 0, "RequestEntityTooLarge", NULL},
	[REFUSAL_BODY] = {413, 0, "RequestEntityTooLarge", "Request entity too large: no request to this port has a body"},
	[REFUSAL_LARGE_HEAD] = {431, 0, "RequestHeaderFieldsTooLarge", NULL},
	[REFUSAL_BODIES] = {429, 1, "TooManyRequests", "Too many request bodies are under way, please try again later."},
	[REFUSAL_CLIENTS] = {429, 5, "TooManyRequests", "Too many clients are connected, please try again later."},
	[REFUSAL_UNAUTHORIZED] = {401, 0, "Unauthorized", "Unauthorized"},
	[REFUSAL_REVIEWS] = {429, 1, "TooManyRequests", "Too many requests, please try again later."},
};

HttpRefusal
http_refusal_of_status(int status)
{
	return status == 404 ? REFUSAL_NOT_FOUND : status == 413 ? REFUSAL_LARGE_BODY : REFUSAL_BAD_REQUEST;
}

int
http_refusal_status(HttpRefusal refusal)
{
	return refusals[refusal].status;
}

int
http_refusal_retry(HttpRefusal refusal)
{
	return refusals[refusal].retry_after;
}

const char *
http_message_refusal(HttpMessage *exchange, HttpRefusal refusal, int status, size_t *len)
{
	Arena	   *arena = &exchange->arena;
	const char *message = refusals[refusal].message;
	const char *details = "";
	const char *text;

	if (refusal == REFUSAL_LARGE_BODY)
		message = arena_printf(arena, "Request entity too large: limit is %zu", config.max_request_body_bytes);
	else if (refusal == REFUSAL_LARGE_HEAD)
		message = arena_printf(arena, "Request header fields too large: limits are %zu bytes and %zu lines",
							   HTTP_HEAD_BYTES, HTTP_HEAD_LINES);
	if (refusals[refusal].retry_after > 0)
		details = arena_printf(arena, "\"details\":{\"retryAfterSeconds\":%d},", refusals[refusal].retry_after);
	text = arena_printf(arena,
						"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
						"\"message\":\"%s\",\"reason\":\"%s\",%s\"code\":%d}\n",
						message, refusals[refusal].reason, details, status);
	*len = strlen(text);
	return text;
}

/* The copy is in the arena and needs no release(). */
void
http_reply(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
		   const char *body, size_t len)
{
	const char *copy = arena_strndup(http_arena(request), body, http_message_of(request)->is_head ? 0 : len);

	http_reply_borrowed(request, status, headers, header_count, copy, len, NULL, NULL);
}
