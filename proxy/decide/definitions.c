/*-------------------------------------------------------------------------
 *
 * definitions.c
 *	  A served type as the engine uses it: definition and mapping, compiled.
 *
 *-------------------------------------------------------------------------
 */
#include "decide/definitions.h"

/* The input and output of compilation; results go to the arena. */
typedef struct Reading
{
	Arena	   *arena;
	Arena	   *scratch;
	JsonText	document;
	const Definition *definition;
	const ResultMapping *mapping;
} Reading;

static JsonNode *
parse_object(Arena *arena, JsonText text)
{
	JsonError	error;
	JsonNode   *node = json_parse(arena, text.bytes, text.len, NULL, NULL, &error);

	return node != NULL && node->kind == JSON_KIND_OBJECT ? node : NULL;
}

/* Checks a definition in a scratch arena: the checks need much more memory than their result. */
static void
check_definition(void *state)
{
	Reading    *reading = state;
	JsonNode   *stored = parse_object(reading->scratch, reading->document);
	JsonNode   *checked = stored != NULL ? definition_restore(reading->scratch, stored) : NULL;
	StrBuf		text;

	reading->document = (JsonText) {NULL, 0};
	if (checked == NULL)
		return;
	strbuf_init(&text, reading->scratch);
	json_write(&text, checked);
	reading->document = (JsonText) {text.bytes, text.len};
}

static void
compile_definition(void *state)
{
	Reading    *reading = state;

	/* The tree points into its text. */
	JsonText	kept = {arena_strndup(reading->arena, reading->document.bytes, reading->document.len),
	reading->document.len};

	reading->definition = definition_compile(reading->arena, parse_object(reading->arena, kept));
}

static void
compile_mapping(void *state)
{
	Reading    *reading = state;
	JsonText	kept = {arena_strndup(reading->arena, reading->document.bytes, reading->document.len),
	reading->document.len};
	JsonNode   *stored = parse_object(reading->arena, kept);
	FieldErrorList errors;

	if (stored == NULL)
		return;
	field_errors_init(&errors, reading->arena);
	reading->mapping = result_mapping_compile(reading->arena, stored, &errors);
}

const Definition *
definition_read(Arena *arena, JsonText document, const char **why)
{
	Arena		scratch;
	Reading		reading = {.arena = arena, .scratch = &scratch, .document = document};
	ArenaLimit	limit;

	arena_init(&scratch);
	limit = arena_run(&scratch, document.len, check_definition, &reading);
	if (limit == ARENA_WITHIN && reading.document.bytes != NULL)
		limit = arena_run(arena, reading.document.len, compile_definition, &reading);
	arena_free(&scratch);
	if (limit != ARENA_WITHIN)
		reading.definition = NULL;
	if (reading.definition == NULL)
		*why = limit == ARENA_WITHIN ? "its definition is damaged" : "its definition costs too much";
	return reading.definition;
}

const ResultMapping *
mapping_read(Arena *arena, JsonText document, const char **why)
{
	Reading		reading = {.arena = arena, .document = document};
	ArenaLimit	limit = arena_run(arena, document.len, compile_mapping, &reading);

	if (limit != ARENA_WITHIN)
		reading.mapping = NULL;
	if (reading.mapping == NULL)
		*why = limit == ARENA_WITHIN ? "its mapping of results is damaged" : "its mapping of results costs too much";
	return reading.mapping;
}
