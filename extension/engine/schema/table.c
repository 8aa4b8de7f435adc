/*-------------------------------------------------------------------------
 *
 * table.c
 *	  Cells of printer columns, and the part of a document they need.
 *
 * A cell has the same value as in apiextensions' table convertor: the first
 * value that the path selects, converted to the type of the column, or null.
 * A column always has exactly one cell.
 *
 * Reports are large and columns read only small parts of them.  Therefore a
 * row does not parse the whole stored text, but scans it and parses only the
 * members that columns name.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/table.h"
#include "engine/base/go_float.h"
#include "engine/base/json_skip.h"
#include "engine/api/metadata.h"

#include <math.h>
#include <string.h>

#define SECONDS_PER_MINUTE 60
#define SECONDS_PER_HOUR (60 * 60)
#define HOURS_PER_DAY 24
#define HOURS_PER_YEAR (24 * 365)

/* The zero time of Go, 0001-01-01T00:00:00Z, means that no time is set. */
#define GO_ZERO_TIME INT64_C(-62135596800)

static JsonPathStep name_step = {.kind = JSONPATH_FIELD, .name = {"name", 4}};
static const JsonPathStep name_path = {.kind = JSONPATH_FIELD, .name = {"metadata", 8}, .next = &name_step};

static const JsonPathStep *
column_path(const TableColumn *column)
{
	return column->path != NULL ? column->path : &name_path;
}

/* TAB-03: appends a duration in seconds as kubectl prints an age. */
static void
human_duration(StrBuf *buf, int64_t seconds)
{
	long long	minutes = seconds / SECONDS_PER_MINUTE;
	long long	hours = seconds / SECONDS_PER_HOUR;
	long long	rest;

	/* Allow clocks to differ by less than two seconds. */
	if (seconds < -1)
		strbuf_puts(buf, "<invalid>");
	else if (seconds < 0)
		strbuf_puts(buf, "0s");
	else if (seconds < 2 * SECONDS_PER_MINUTE)
		strbuf_printf(buf, "%llds", (long long) seconds);
	else if (minutes < 10)
	{
		rest = seconds % SECONDS_PER_MINUTE;
		strbuf_printf(buf, "%lldm", minutes);
		if (rest != 0)
			strbuf_printf(buf, "%llds", rest);
	}
	else if (hours < 3)
		strbuf_printf(buf, "%lldm", minutes);
	else if (hours < 8)
	{
		rest = minutes % 60;
		strbuf_printf(buf, "%lldh", hours);
		if (rest != 0)
			strbuf_printf(buf, "%lldm", rest);
	}
	else if (hours < 2 * HOURS_PER_DAY)
		strbuf_printf(buf, "%lldh", hours);
	else if (hours < 8 * HOURS_PER_DAY)
	{
		rest = hours % HOURS_PER_DAY;
		strbuf_printf(buf, "%lldd", hours / HOURS_PER_DAY);
		if (rest != 0)
			strbuf_printf(buf, "%lldh", rest);
	}
	else if (hours < 2 * HOURS_PER_YEAR)
		strbuf_printf(buf, "%lldd", hours / HOURS_PER_DAY);
	else if (hours < 8 * HOURS_PER_YEAR)
	{
		rest = hours / HOURS_PER_DAY % 365;
		strbuf_printf(buf, "%lldy", hours / HOURS_PER_YEAR);
		if (rest != 0)
			strbuf_printf(buf, "%lldd", rest);
	}
	else
		strbuf_printf(buf, "%lldy", hours / HOURS_PER_YEAR);
}

/* The cell of a string column, as client-go's jsonpath prints a value: Go's %v for scalars, JSON for all others. */
static void
string_cell(StrBuf *buf, const JsonNode *value)
{
	StrBuf		text;

	if (value->kind == JSON_KIND_STRING)
	{
		json_write_string(buf, value->u.string.bytes, value->u.string.len);
		return;
	}
	strbuf_init(&text, buf->arena);
	if (value->kind == JSON_KIND_NULL)
		strbuf_puts(&text, "<no value>");
	else if (value->kind == JSON_KIND_NUMBER)
		go_float_text(&text, value->u.number);
	else
		json_write_html(&text, value);
	json_write_string(buf, text.bytes, text.len);
}

static void
date_cell(StrBuf *buf, const JsonNode *value, int64_t now)
{
	JsonText	text = value->u.string;
	int64_t		seconds = GO_ZERO_TIME;

	strbuf_putc(buf, '"');
	if (text.len > 0 && !json_text_is(text, "null") && !parse_time(text, &seconds))
		strbuf_puts(buf, "<invalid>");
	else if (seconds == GO_ZERO_TIME)
		strbuf_puts(buf, "<unknown>");
	else
		human_duration(buf, now - seconds);
	strbuf_putc(buf, '"');
}

void
table_cell(StrBuf *buf, const TableColumn *column, const JsonNode *document, int64_t now)
{
	const JsonNode *value = jsonpath_first(buf->arena, column_path(column), document);
	size_t		before = buf->len;

	if (value != NULL)
	{
		if (strcmp(column->type, "string") == 0)
			string_cell(buf, value);
		else if (strcmp(column->type, "date") == 0 && value->kind == JSON_KIND_STRING)
			date_cell(buf, value, now);
		else if (strcmp(column->type, "boolean") == 0 && value->kind == JSON_KIND_BOOL)
			json_write(buf, value);
		else if (strcmp(column->type, "integer") == 0 && value->kind == JSON_KIND_INTEGER)
			json_write(buf, value);
		else if (strcmp(column->type, "integer") == 0 && value->kind == JSON_KIND_NUMBER &&
				 fabs(value->u.number) < 9.2e18)
			strbuf_printf(buf, "%lld", (long long) value->u.number);
		else if (strcmp(column->type, "number") == 0 && value->kind == JSON_KIND_NUMBER)
			json_write(buf, value);
		else if (strcmp(column->type, "number") == 0 && value->kind == JSON_KIND_INTEGER)
			json_write(buf, json_new_number(buf->arena, (double) value->u.integer));
	}
	if (buf->len == before)
		strbuf_puts(buf, "null");
}

/*
 * Reading a part of a stored text
 */

static JsonNode *
parse_whole(Arena *arena, const char *text, size_t len)
{
	JsonError	error;

	return json_parse(arena, text, len, NULL, NULL, &error);
}

/*
 * Parses the members of an object that the paths go through.  All paths begin with a field here.  The text must be
 * compact JSON as json_write() writes it; NULL for any other text.
 */
static JsonNode *
parse_members(Arena *arena, const char *text, size_t len, const JsonPathStep *const *paths, size_t count)
{
	JsonSkip	scan = {text, text + len};
	JsonNode   *object = json_new_object(arena);
	const JsonPathStep **inner = arena_alloc(arena, (count + 1) * sizeof(JsonPathStep *));

	arena_checkpoint();
	if (len < 2 || text[0] != '{' || text[len - 1] != '}')
		return NULL;
	if (len == 2)
		return object;
	while (*scan.next != '}')
	{
		JsonText	key;
		JsonText	value;
		JsonNode   *node;
		size_t		inner_count = 0;
		bool		wanted = false;
		bool		whole = false;

		if (!json_skip_member(&scan, &key, &value))
			return NULL;

		for (size_t i = 0; i < count; i++)
		{
			if (json_text_compare(paths[i]->name, key) != 0)
				continue;
			wanted = true;
			if (paths[i]->next == NULL || paths[i]->next->kind != JSONPATH_FIELD)
				whole = true;
			else
				inner[inner_count++] = paths[i]->next;
		}
		if (!wanted)
			continue;
		if (whole || value.bytes[0] != '{')
			node = parse_whole(arena, value.bytes, value.len);
		else
			node = parse_members(arena, value.bytes, value.len, inner, inner_count);
		if (node == NULL)
			return NULL;
		json_set_text(arena, object, key, node);
	}
	return scan.next + 1 == scan.end ? object : NULL;
}

static JsonNode *
parse_part(Arena *arena, JsonText text, const JsonPathStep *const *paths, size_t count)
{
	JsonNode   *object = NULL;
	bool		fields = true;

	if (text.len == 0)
		return json_new_object(arena);
	for (size_t i = 0; i < count; i++)
		fields = fields && paths[i]->kind == JSONPATH_FIELD;
	if (fields)
		object = parse_members(arena, text.bytes, text.len, paths, count);
	if (object == NULL)
		object = parse_whole(arena, text.bytes, text.len);
	if (object == NULL || object->kind != JSON_KIND_OBJECT)
		object = json_new_object(arena);
	return object;
}

JsonNode *
table_document(Arena *arena, const TableColumn *columns, size_t count, JsonText metadata, JsonText body)
{
	const JsonPathStep **body_paths = arena_alloc(arena, (count + 1) * sizeof(JsonPathStep *));
	const JsonPathStep **metadata_paths = arena_alloc(arena, (count + 2) * sizeof(JsonPathStep *));
	size_t		body_count = 0;
	size_t		metadata_count = 0;
	bool		whole_metadata = false;
	JsonNode   *document;
	JsonNode   *node;

	for (size_t i = 0; i < count; i++)
	{
		const JsonPathStep *path = column_path(&columns[i]);

		if (path->kind == JSONPATH_FIELD && !json_text_is(path->name, "metadata"))
			body_paths[body_count++] = path;
		else if (path->kind == JSONPATH_FIELD && path->next != NULL)
			metadata_paths[metadata_count++] = path->next;
		else
		{
			/* The path is .metadata itself, or goes through all members. */
			whole_metadata = true;
			if (path->kind != JSONPATH_FIELD)
				body_paths[body_count++] = path;
		}
	}
	document = parse_part(arena, body, body_paths, body_count);
	if (whole_metadata)
		node = parse_whole(arena, metadata.bytes, metadata.len);
	else
		node = parse_part(arena, metadata, metadata_paths, metadata_count);
	if (node == NULL || node->kind != JSON_KIND_OBJECT)
		node = json_new_object(arena);
	json_set(arena, document, "metadata", node);
	return document;
}
