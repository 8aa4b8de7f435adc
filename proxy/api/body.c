/*-------------------------------------------------------------------------
 *
 * body.c
 *	  The body of a request, in the form that the extension reads.
 *
 * A body of application/yaml is YAML.  A body of application/apply-patch+yaml
 * is mostly JSON, which kubectl sends with that media type.  Such JSON is
 * passed on unchanged, unless it sets a key twice: then the YAML reader reads
 * it, because only that reader reports the duplicate.
 *
 * Reading YAML is slow: 7 KB take half a millisecond, 3 MB a fifth of a
 * second, and 3 MB made to be slow take one second.  A thread reads large
 * bodies.
 *
 * Reference: k8s-conformance REQ-02, REQ-05, PAT-02.
 *
 *-------------------------------------------------------------------------
 */
#include "api/body.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/reply.h"
#include "base/config.h"
#include "base/offload.h"
#include "codec/yaml_text.h"

/* The JSON that is made of a YAML body may be this many times larger than the largest body. */
#define GROWTH 4

/* A thread reads larger bodies.  At worst a body of this size takes some hundredths of a second. */
#define READ_AT_ONCE ((size_t) 32 * 1024)

static bool
has_type(const char *header, const char *type)
{
	size_t		len;

	header += strspn(header, " \t");
	len = strcspn(header, "; \t");
	return len == strlen(type) && strncasecmp(header, type, len) == 0;
}

static void
note_duplicate(void *state, const char *path)
{
	(void) path;
	*(bool *) state = true;
}

static bool
is_clean_json(JsonText text)
{
	Arena		arena;
	JsonError	error;
	bool		duplicate = false;
	bool		valid;

	arena_init(&arena);
	valid = json_parse(&arena, text.bytes, text.len, note_duplicate, &duplicate, &error) != NULL;
	arena_free(&arena);
	return valid && !duplicate;
}

/* ---------- the reading ---------- */

typedef struct BodyJob
{
	OffloadJob	job;
	Exchange   *exchange;		/* not used by the thread */
	bool		may_be_json;
	size_t		limit;			/* for the JSON */
	JsonText	text;			/* a copy in the arena when a thread reads the body */
	Arena		arena;			/* holds what follows */
	bool		untouched;		/* the text already is the JSON */
	StrBuf		json;
	JsonNode   *duplicates;
	const char *error;			/* NULL: none */
} BodyJob;

static void
read_body(OffloadJob *job)
{
	BodyJob    *body = (BodyJob *) job;

	if (body->may_be_json && is_clean_json(body->text))
	{
		body->untouched = true;
		return;
	}
	strbuf_init(&body->json, &body->arena);
	body->duplicates = json_new_array(&body->arena);
	yaml_to_json(&body->arena, body->text.bytes, body->text.len, body->limit, &body->json, body->duplicates,
				 &body->error);
}

static void
keep_what_was_read(Exchange *exchange, const BodyJob *body)
{
	Arena	   *arena = &exchange->arena;

	if (body->untouched)
		return;
	if (body->error == NULL)
		exchange->body = (JsonText) {arena_strndup(arena, body->json.bytes, body->json.len), body->json.len};
	else
		exchange->body_error = arena_strdup(arena, body->error);
	exchange->body_duplicates = json_new_array(arena);
	for (size_t i = 0; i < body->duplicates->u.array.count; i++)
	{
		JsonText	text = body->duplicates->u.array.items[i]->u.string;

		json_append(arena, exchange->body_duplicates,
					json_new_cstring(arena, arena_strndup(arena, text.bytes, text.len)));
	}
}

static void
body_read(OffloadJob *job, bool cancelled)
{
	BodyJob    *body = (BodyJob *) job;
	Exchange   *exchange = body->exchange;

	if (!cancelled)
	{
		exchange->job = NULL;
		keep_what_was_read(exchange, body);
	}
	arena_free(&body->arena);
	free(body);
	if (!cancelled)
		exchange_next(exchange);
}

static void
read_elsewhere(Exchange *exchange, BodyJob body)
{
	BodyJob    *job;

	if (!offload_has_room())
	{
		reply_too_many_requests(exchange);
		return;
	}
	job = malloc(sizeof(BodyJob));
	if (job == NULL)
		abort();
	*job = body;
	job->text.bytes = arena_strndup(&job->arena, body.text.bytes, body.text.len);
	exchange->job = &job->job;
	offload_submit(&job->job);
}

/* Requests with these verbs have no body: the path and the query say everything. */
static bool
takes_body(const char *verb)
{
	return strcmp(verb, "get") != 0 && strcmp(verb, "list") != 0 && strcmp(verb, "watch") != 0;
}

void
body_take(Exchange *exchange)
{
	const char *type = http_header(exchange->http, "content-type");
	BodyJob		body = {
		.job = {.run = read_body, .done = body_read},
		.exchange = exchange,
		.limit = config.max_request_body_bytes * GROWTH,
	};

	if (takes_body(exchange->route->verb))
		exchange->body.bytes = http_body(exchange->http, &exchange->body.len);
	body.text = exchange->body;
	body.may_be_json = type != NULL && has_type(type, "application/apply-patch+yaml");
	if (body.text.len == 0 || type == NULL || (!body.may_be_json && !has_type(type, "application/yaml")))
	{
		exchange_next(exchange);
		return;
	}
	arena_init(&body.arena);
	if (body.text.len > READ_AT_ONCE)
	{
		read_elsewhere(exchange, body);
		return;
	}
	read_body(&body.job);
	keep_what_was_read(exchange, &body);
	arena_free(&body.arena);
	exchange_next(exchange);
}
