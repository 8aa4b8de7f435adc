/*-------------------------------------------------------------------------
 *
 * body.c
 *	  The body of a request, as the extension takes it.
 *
 * A body of application/yaml is YAML.  One of application/apply-patch+yaml is
 * mostly JSON, which kubectl sends under that name: it goes through untouched
 * unless it sets a key twice, which has to be complained about in YAML's way.
 *
 * Reading YAML takes its time here, in the loop: 7 KB a quarter of a
 * millisecond, the largest body that is allowed about a tenth of a second.
 *
 * Reference: k8s-conformance REQ-02, REQ-05, PAT-02.
 *
 *-------------------------------------------------------------------------
 */
#include "api/body.h"

#include <string.h>
#include <strings.h>

#include "base/config.h"
#include "codec/yaml_text.h"

/* How much larger than the largest body the JSON may be that a body of YAML stands for. */
#define GROWTH 4

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

static void
read_yaml(Exchange *exchange)
{
	Arena		arena;
	StrBuf		json;
	JsonNode   *duplicates;
	const char *error;

	arena_init(&arena);
	strbuf_init(&json, &arena);
	duplicates = json_new_array(&arena);
	if (yaml_to_json(&arena, exchange->body.bytes, exchange->body.len, config.max_request_body_bytes * GROWTH, &json,
					 duplicates, &error))
		exchange->body = (JsonText) {arena_strndup(&exchange->arena, json.bytes, json.len), json.len};
	else
		exchange->body_error = arena_strdup(&exchange->arena, error);
	exchange->body_duplicates = json_new_array(&exchange->arena);
	for (size_t i = 0; i < duplicates->u.array.count; i++)
	{
		JsonText	text = duplicates->u.array.items[i]->u.string;

		json_append(&exchange->arena, exchange->body_duplicates,
					json_new_cstring(&exchange->arena, arena_strndup(&exchange->arena, text.bytes, text.len)));
	}
	arena_free(&arena);
}

void
body_take(Exchange *exchange)
{
	const char *type = http_header(exchange->http, "content-type");

	exchange->body.bytes = http_body(exchange->http, &exchange->body.len);
	if (type == NULL || exchange->body.len == 0)
		return;
	if (has_type(type, "application/yaml") ||
		(has_type(type, "application/apply-patch+yaml") && !is_clean_json(exchange->body)))
		read_yaml(exchange);
}
