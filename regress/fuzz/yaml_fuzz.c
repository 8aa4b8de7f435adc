/*-------------------------------------------------------------------------
 *
 * yaml_fuzz.c
 *	  Fuzz target: YAML to JSON and back.
 *
 * The result of reading is JSON, not larger than allowed.  Written as YAML,
 * at once or as a stream cut at any place, it reads the same again without an
 * error, unless it is nested deeper than allowed for YAML of its length.
 * Reading takes at most 50 times the text's size in memory above a floor, and
 * a second of processor time.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "codec/yaml_scalar.c"
#include "codec/yaml_parse.c"
#include "codec/yaml_read.c"
#include "codec/yaml_write.c"

#define LIMIT ((size_t) 1 << 20)

#define MEMORY_FLOOR ((size_t) 32 << 20)
#define MEMORY_PER_BYTE 50
#define SECONDS_MOST 1

static bool
read_within_limits(Arena *arena, const char *text, size_t size, StrBuf *json, JsonNode *duplicates, const char **error)
{
	size_t		before = fuzz_bytes_taken;
	double		begun = fuzz_processor_seconds();
	bool		read = yaml_to_json(arena, text, size, LIMIT, json, duplicates, error);

	check(fuzz_bytes_taken - before <= MEMORY_FLOOR + size * MEMORY_PER_BYTE);
	check(fuzz_processor_seconds() - begun <= SECONDS_MOST);
	return read;
}

static void
check_reads_as(Arena *arena, const StrBuf *text, const JsonNode *tree)
{
	JsonNode   *duplicates = json_new_array(arena);
	JsonNode   *again;
	const char *error;
	JsonError	json_error;
	StrBuf		json;

	strbuf_init(&json, arena);
	if (!yaml_to_json(arena, text->bytes, text->len, 16 * LIMIT, &json, duplicates, &error))
	{
		/* A document this deep and this long can only be read as JSON. */
		check(strcmp(error, "yaml: document contains excessive nesting") == 0);
		return;
	}
	again = json_parse(arena, json.bytes, json.len, NULL, NULL, &json_error);
	check(again != NULL && json_same(tree, again) && duplicates->u.array.count == 0);
}

static void
check_writing(Arena *arena, const JsonNode *tree, size_t cut)
{
	YamlStream	stream;
	StrBuf		text;
	StrBuf		json;

	strbuf_init(&text, arena);
	yaml_write(&text, tree);
	check_reads_as(arena, &text, tree);
	if (tree->kind != JSON_KIND_OBJECT || tree->u.object.count == 0)
		return;
	for (size_t i = 0; i < tree->u.object.count; i++)
		if (tree->u.object.members[i].key.len > SIMPLE_KEY)
			return;

	strbuf_init(&json, arena);
	json_write(&json, tree);
	cut %= json.len + 1;
	text.len = 0;
	yaml_stream_begin(&stream, arena);
	check(yaml_stream_next(&stream, json.bytes, cut, &text));
	check(yaml_stream_next(&stream, json.bytes + cut, json.len - cut, &text));
	check_reads_as(arena, &text, tree);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *text = (const char *) bytes;
	Arena		arena;
	StrBuf		json;
	StrBuf		ignored;
	YamlStream	stream;
	JsonNode   *duplicates;
	JsonNode   *tree;
	const char *error = NULL;
	JsonError	json_error;

	/* One input is read several times, and each reading has its own limits. */
	fuzz_bytes_floor = 8 * MEMORY_FLOOR;
	fuzz_seconds_most = 8 * SECONDS_MOST;
	arena_init(&arena);
	duplicates = json_new_array(&arena);
	strbuf_init(&json, &arena);
	if (read_within_limits(&arena, text, size, &json, duplicates, &error))
	{
		tree = json_parse(&arena, json.bytes, json.len, NULL, NULL, &json_error);
		check(tree != NULL && error == NULL);
		check_writing(&arena, tree, size * 7);
	}
	else
		check(error != NULL);

	tree = json_parse(&arena, text, size, NULL, NULL, &json_error);
	if (tree != NULL)
		check_writing(&arena, tree, size / 2);

	/* Bytes that are not a JSON object. */
	strbuf_init(&ignored, &arena);
	yaml_stream_begin(&stream, &arena);
	if (yaml_stream_next(&stream, text, size / 3, &ignored))
		yaml_stream_next(&stream, text + size / 3, size - size / 3, &ignored);
	arena_free(&arena);
	return 0;
}
