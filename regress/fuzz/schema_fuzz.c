/*-------------------------------------------------------------------------
 *
 * schema_fuzz.c
 *	  Fuzz target: schemas, and documents under them.
 *
 * The input is a schema in JSON, a NUL byte and a document in JSON.  The
 * schema is also tried as a CustomResourceDefinition: every definition made
 * from one must compile.  A second pruning removes nothing, a second
 * defaulting adds nothing, and a second validation gives the same errors.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/schema/definition.h"

static void
count_dropped(void *state, const char *path)
{
	check(path != NULL);
	(*(size_t *) state)++;
}

static void
check_errors(const FieldErrorList *errors, const FieldErrorList *again)
{
	check(errors->count == again->count);
	for (size_t i = 0; i < errors->count; i++)
	{
		check(strcmp(errors->errors[i].field, again->errors[i].field) == 0);
		check(strcmp(errors->errors[i].message, again->errors[i].message) == 0);
	}
}

static void
try_document(Arena *arena, const Schema *schema, JsonNode *document)
{
	FieldErrorList errors;
	FieldErrorList again;
	JsonNode   *before;
	size_t		dropped = 0;

	schema_prune(arena, schema, document, count_dropped, &dropped);
	dropped = 0;
	schema_prune(arena, schema, document, count_dropped, &dropped);
	check(dropped == 0);

	schema_default(arena, schema, document);
	before = json_clone(arena, document);
	schema_default(arena, schema, document);
	check(json_same(before, document));

	field_errors_init(&errors, arena);
	schema_validate(schema, document, &errors);
	field_errors_init(&again, arena);
	schema_validate(schema, before, &again);
	check_errors(&errors, &again);
}

static void
try_definitions(Arena *arena, const JsonNode *crd)
{
	FieldErrorList errors;
	JsonNode   *definitions;
	JsonNode   *versions;

	field_errors_init(&errors, arena);
	definitions = crd_definitions(arena, crd, &errors);
	check((definitions == NULL) == (errors.count > 0));
	if (definitions == NULL)
		return;
	versions = json_get(definitions, "versions");
	check(versions != NULL && versions->u.array.count > 0);
	for (size_t i = 0; i < versions->u.array.count; i++)
		check(definition_compile(arena, versions->u.array.items[i]) != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *text = (const char *) bytes;
	const char *end = size > 0 ? memchr(text, '\0', size) : NULL;
	size_t		schema_len = end != NULL ? (size_t) (end - text) : size;
	Arena		arena;
	JsonError	error;
	JsonNode   *node;

	arena_init(&arena);
	node = json_parse(&arena, text, schema_len, NULL, NULL, &error);
	if (node != NULL)
	{
		FieldErrorList errors;
		Schema	   *schema;

		try_definitions(&arena, node);
		field_errors_init(&errors, &arena);
		schema = schema_compile(&arena, node, "schema", &errors);
		check((schema == NULL) == (errors.count > 0));
		if (schema != NULL && end != NULL)
		{
			JsonNode   *document = json_parse(&arena, end + 1, size - schema_len - 1, NULL, NULL, &error);

			if (document != NULL)
				try_document(&arena, schema, document);
		}
	}
	arena_free(&arena);
	return 0;
}
