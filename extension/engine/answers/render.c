/*-------------------------------------------------------------------------
 *
 * render.c
 *	  The bytes of answers: objects, partial objects, tables, lists, events.
 *
 * A stored object is two texts, its metadata and its body, which is all other
 * members.  A whole object is rendered from copies of both texts and from the
 * members that are not stored (apiVersion, kind, resourceVersion); the texts
 * are not parsed.  Pretty answers are for people: they are rendered compact,
 * then parsed and printed again.
 *
 * Stored metadata is a compact JSON object with at least one member; a stored
 * body is a compact JSON object that may be empty.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/answers/render.h"
#include "engine/base/ascii.h"
#include "engine/base/json_skip.h"
#include "engine/schema/table.h"

#include <string.h>

/* Room for the names around the copied texts: braces, apiVersion, kind, resourceVersion. */
#define ENVELOPE_SIZE 128

#define ITEM_DEPTH 2			/* indentation of an item in a pretty list */

static const char *
meta_api_version(const Transform *transform)
{
	return transform->beta ? "meta.k8s.io/v1beta1" : "meta.k8s.io/v1";
}

static JsonText
trim(JsonText text)
{
	while (text.len > 0 && ascii_is_space(text.bytes[0]))
	{
		text.bytes++;
		text.len--;
	}
	while (text.len > 0 && ascii_is_space(text.bytes[text.len - 1]))
		text.len--;
	return text;
}

/* The text between the braces of an object.  Stored objects are compact; other objects may contain spaces. */
static JsonText
members_of(JsonText text)
{
	text = trim(text);
	if (text.len < 2)
		return (JsonText) {"", 0};
	return trim((JsonText) {text.bytes + 1, text.len - 2});
}

static void
put_metadata(StrBuf *buf, JsonText metadata, int64_t version)
{
	JsonText	members = members_of(metadata);

	strbuf_puts(buf, "\"metadata\":{");
	strbuf_append(buf, members.bytes, members.len);
	if (version > 0)
		strbuf_printf(buf, "%s\"resourceVersion\":\"%lld\"", members.len > 0 ? "," : "", (long long) version);
	strbuf_putc(buf, '}');
}

static void
put_full(StrBuf *buf, const Definition *definition, JsonText metadata, JsonText body, int64_t version)
{
	JsonText	members = members_of(body);

	strbuf_reserve(buf, metadata.len + body.len + ENVELOPE_SIZE +
				   strlen(definition->api_version) + strlen(definition->kind));
	strbuf_puts(buf, "{\"apiVersion\":\"");
	strbuf_puts(buf, definition->api_version);
	strbuf_puts(buf, "\",\"kind\":\"");
	strbuf_puts(buf, definition->kind);
	strbuf_puts(buf, "\",");
	put_metadata(buf, metadata, version);
	if (members.len > 0)
	{
		strbuf_putc(buf, ',');
		strbuf_append(buf, members.bytes, members.len);
	}
	strbuf_putc(buf, '}');
}

static void
put_partial(StrBuf *buf, const Transform *transform, JsonText metadata, int64_t version)
{
	strbuf_reserve(buf, metadata.len + ENVELOPE_SIZE);
	strbuf_puts(buf, "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
	strbuf_puts(buf, meta_api_version(transform));
	strbuf_puts(buf, "\",");
	put_metadata(buf, metadata, version);
	strbuf_putc(buf, '}');
}

/* NULL if there is no such member, or no string. */
static const char *
string_member(Arena *arena, JsonText object, const char *key)
{
	const JsonNode *member = json_parse_member(arena, object, key);

	return member != NULL && member->kind == JSON_KIND_STRING ? json_text_cstring(arena, member->u.string) : NULL;
}

static void
put_deleted(StrBuf *buf, const Definition *definition, JsonText metadata, int64_t version)
{
	status_deleted(buf, string_member(buf->arena, metadata, "name"), definition->group, definition->plural,
				   string_member(buf->arena, metadata, "uid"), version);
}

static void
put_columns(StrBuf *buf, const Definition *definition)
{
	strbuf_putc(buf, '[');
	for (size_t i = 0; i < definition->column_count; i++)
	{
		const TableColumn *column = &definition->columns[i];
		const char *format = column->format != NULL ? column->format : "";
		const char *description = column->description != NULL ? column->description : "";

		strbuf_puts(buf, i == 0 ? "{\"name\":" : ",{\"name\":");
		json_write_string(buf, column->name, strlen(column->name));
		strbuf_puts(buf, ",\"type\":");
		json_write_string(buf, column->type, strlen(column->type));
		strbuf_puts(buf, ",\"format\":");
		json_write_string(buf, format, strlen(format));
		strbuf_puts(buf, ",\"description\":");
		json_write_string(buf, description, strlen(description));
		strbuf_printf(buf, ",\"priority\":%lld}", (long long) column->priority);
	}
	strbuf_putc(buf, ']');
}

static void
put_row(StrBuf *buf, const Definition *definition, const Transform *transform,
		JsonText metadata, JsonText body, int64_t version, int64_t now)
{
	Arena	   *arena = buf->arena;
	JsonNode   *document = table_document(arena, definition->columns, definition->column_count, metadata, body);

	/* These members are not stored, but a column may show them. */
	json_set(arena, document, "apiVersion", json_new_cstring(arena, definition->api_version));
	json_set(arena, document, "kind", json_new_cstring(arena, definition->kind));
	if (version > 0)
		json_set(arena, json_get(document, "metadata"), "resourceVersion",
				 json_new_cstring(arena, arena_printf(arena, "%lld", (long long) version)));

	strbuf_puts(buf, "{\"cells\":[");
	for (size_t i = 0; i < definition->column_count; i++)
	{
		if (i > 0)
			strbuf_putc(buf, ',');
		table_cell(buf, &definition->columns[i], document, now);
	}
	strbuf_putc(buf, ']');
	if (transform->include == INCLUDE_METADATA)
	{
		strbuf_puts(buf, ",\"object\":");
		put_partial(buf, transform, metadata, version);
	}
	else if (transform->include == INCLUDE_OBJECT)
	{
		strbuf_puts(buf, ",\"object\":");
		put_full(buf, definition, metadata, body, version);
	}
	else
		strbuf_puts(buf, ",\"object\":null");
	strbuf_putc(buf, '}');
}

/* Puts a Table that is not a list, up to its first row. */
static void
put_table_head(StrBuf *buf, const Definition *definition, const Transform *transform, bool columns, int64_t version)
{
	strbuf_printf(buf, "{\"kind\":\"Table\",\"apiVersion\":\"%s\",", meta_api_version(transform));
	put_metadata(buf, (JsonText) {"{}", 2}, version);
	strbuf_puts(buf, ",\"columnDefinitions\":");
	if (columns)
		put_columns(buf, definition);
	else
		strbuf_puts(buf, "null");
	strbuf_puts(buf, ",\"rows\":[");
}

/* Prints a compact text again, indented. */
static void
put_pretty(StrBuf *buf, const StrBuf *compact, int depth)
{
	JsonError	error;
	JsonNode   *node = json_parse(buf->arena, compact->bytes, compact->len, NULL, NULL, &error);

	if (node != NULL)
		json_write_pretty(buf, node, depth);
	else
		strbuf_append(buf, compact->bytes, compact->len);
}

static void
put_object(StrBuf *buf, const Definition *definition, const Transform *transform, bool columns,
		   JsonText metadata, JsonText body, int64_t version, int64_t now)
{
	switch (transform->kind)
	{
		case TRANSFORM_OBJECT:
			put_full(buf, definition, metadata, body, version);
			break;
		case TRANSFORM_PARTIAL:
			put_partial(buf, transform, metadata, version);
			break;
		case TRANSFORM_TABLE:
			put_table_head(buf, definition, transform, columns, version);
			put_row(buf, definition, transform, metadata, body, version, now);
			strbuf_puts(buf, "]}");
			break;
		case TRANSFORM_DELETED:
			put_deleted(buf, definition, metadata, version);
			break;
	}
}

void
render_object(StrBuf *buf, const Definition *definition, const Transform *transform, bool event,
			  JsonText metadata, JsonText body, int64_t version, int64_t now)
{
	StrBuf		compact;
	bool		columns = !event || transform->columns;

	if (event || !transform->pretty)
	{
		put_object(buf, definition, transform, columns, metadata, body, version, now);
		return;
	}
	strbuf_init(&compact, buf->arena);
	put_object(&compact, definition, transform, columns, metadata, body, version, now);
	/* Keep the order of members: a Status begins with its kind. */
	if (transform->kind == TRANSFORM_DELETED)
		json_indent(buf, (JsonText) {compact.bytes, compact.len}, 0);
	else
		put_pretty(buf, &compact, 0);
}

static void
put_item(StrBuf *buf, const Definition *definition, const Transform *transform,
		 JsonText metadata, JsonText body, int64_t version, int64_t now)
{
	if (transform->kind == TRANSFORM_TABLE)
		put_row(buf, definition, transform, metadata, body, version, now);
	else
		put_object(buf, definition, transform, false, metadata, body, version, now);
}

void
render_item(StrBuf *buf, const Definition *definition, const Transform *transform,
			JsonText metadata, JsonText body, int64_t version, int64_t now)
{
	StrBuf		compact;

	if (!transform->pretty)
	{
		put_item(buf, definition, transform, metadata, body, version, now);
		return;
	}
	strbuf_init(&compact, buf->arena);
	put_item(&compact, definition, transform, metadata, body, version, now);
	strbuf_puts(buf, "\n    ");
	put_pretty(buf, &compact, ITEM_DEPTH);
}

bool
render_splices(const Transform *transform)
{
	return !transform->pretty && (transform->kind == TRANSFORM_OBJECT || transform->kind == TRANSFORM_PARTIAL);
}

bool
render_needs_body(const Definition *definition, const Transform *transform)
{
	if (transform->kind == TRANSFORM_OBJECT)
		return true;
	if (transform->kind == TRANSFORM_PARTIAL)
		return false;
	if (transform->include == INCLUDE_OBJECT)
		return true;
	for (size_t i = 0; i < definition->column_count; i++)
	{
		if (definition->columns[i].path != NULL && !definition->columns[i].metadata_only)
			return true;
	}
	return false;
}

void
render_list_head(StrBuf *buf, const Definition *definition, const Transform *transform)
{
	bool		pretty = transform->pretty;
	StrBuf		columns;

	switch (transform->kind)
	{
		case TRANSFORM_DELETED:
		case TRANSFORM_OBJECT:
			strbuf_printf(buf, pretty ? "{\n  \"apiVersion\": \"%s\",\n  \"items\": [" :
						  "{\"apiVersion\":\"%s\",\"items\":[",
						  definition->api_version);
			break;
		case TRANSFORM_PARTIAL:
			strbuf_printf(buf, pretty ? "{\n  \"kind\": \"PartialObjectMetadataList\",\n  \"apiVersion\": \"%s\",\n  "
						  "\"items\": [" :
						  "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"%s\",\"items\":[",
						  meta_api_version(transform));
			break;
		case TRANSFORM_TABLE:
			strbuf_init(&columns, buf->arena);
			put_columns(&columns, definition);
			strbuf_printf(buf,
						  pretty ? "{\n  \"kind\": \"Table\",\n  \"apiVersion\": \"%s\",\n  \"columnDefinitions\": " :
						  "{\"kind\":\"Table\",\"apiVersion\":\"%s\",\"columnDefinitions\":",
						  meta_api_version(transform));
			if (pretty)
				put_pretty(buf, &columns, 1);
			else
				strbuf_append(buf, columns.bytes, columns.len);
			strbuf_puts(buf, pretty ? ",\n  \"rows\": [" : ",\"rows\":[");
			break;
	}
}

const char *
render_list_separator(const Transform *transform)
{
	return ",";
}

void
render_list_tail(StrBuf *buf, const Definition *definition, const Transform *transform, int64_t version,
				 const char *continue_token, int64_t remaining)
{
	Arena	   *arena = buf->arena;
	JsonNode   *metadata = json_new_object(arena);
	bool		pretty = transform->pretty;

	/* Typed lists omit an empty token; lists of custom resources do not. */
	if (transform->kind == TRANSFORM_OBJECT || continue_token[0] != '\0')
		json_set(arena, metadata, "continue", json_new_cstring(arena, continue_token));
	if (remaining >= 0)
		json_set(arena, metadata, "remainingItemCount", json_new_integer(arena, remaining));
	if (version > 0)
		json_set(arena, metadata, "resourceVersion",
				 json_new_cstring(arena, arena_printf(arena, "%lld", (long long) version)));

	strbuf_puts(buf, pretty ? "\n  ]," : "],");
	if (transform->kind == TRANSFORM_OBJECT)
		strbuf_printf(buf, pretty ? "\n  \"kind\": \"%s\"," : "\"kind\":\"%s\",", definition->list_kind);
	strbuf_puts(buf, pretty ? "\n  \"metadata\": " : "\"metadata\":");
	if (pretty)
		json_write_pretty(buf, metadata, 1);
	else
		json_write(buf, metadata);
	strbuf_puts(buf, pretty ? "\n}\n" : "}\n");
}

void
render_event(StrBuf *buf, const char *type, const Definition *definition, const Transform *transform,
			 JsonText metadata, JsonText body, int64_t version, int64_t now)
{
	strbuf_puts(buf, "{\"type\":\"");
	strbuf_puts(buf, type);
	strbuf_puts(buf, "\",\"object\":");
	render_object(buf, definition, transform, true, metadata, body, version, now);
	strbuf_puts(buf, "}\n");
}

void
render_bookmark(StrBuf *buf, const Definition *definition, const Transform *transform,
				int64_t version, bool initial_end)
{
	static const char *const end_metadata = "{\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}";
	const char *text = initial_end ? end_metadata : "{}";
	JsonText	metadata = {text, strlen(text)};
	JsonText	body = {"{}", 2};

	strbuf_puts(buf, "{\"type\":\"BOOKMARK\",\"object\":");
	if (transform->kind == TRANSFORM_TABLE)
	{
		/* A row for an object without a name and without values. */
		put_table_head(buf, definition, transform, transform->columns, version);
		strbuf_puts(buf, "{\"cells\":[");
		for (size_t i = 0; i < definition->column_count; i++)
			strbuf_puts(buf, i == 0 ? "\"\"" : ",null");
		strbuf_puts(buf, "],\"object\":");
		if (transform->include == INCLUDE_OBJECT)
			put_full(buf, definition, metadata, body, version);
		else
			put_partial(buf, transform, metadata, version);
		strbuf_puts(buf, "}]}");
	}
	else
		put_object(buf, definition, transform, false, metadata, body, version, 0);
	strbuf_puts(buf, "}\n");
}
