/*-------------------------------------------------------------------------
 *
 * field_fuzz.c
 *	  Fuzz target: field sets, and documents merged by them.
 *
 * The input is FieldsV1 as a client might send it, a stored object, and an
 * applied object, each but the last ended by a newline.  Operations on sets
 * obey the laws of sets; a repeated apply changes nothing, and an update
 * without a change moves no field.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/fields/field_owner.h"

static const char schema_text[] =
"{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"properties\":{"
"\"set\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"x-kubernetes-list-type\":\"set\"},"
"\"list\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},"
"\"map\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\","
"\"x-kubernetes-list-map-keys\":[\"a\",\"b\"],\"items\":{"
"\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\"},"
"\"b\":{\"type\":\"integer\",\"default\":1},\"c\":{\"type\":\"boolean\"}}}},"
"\"unit\":{\"type\":\"object\",\"x-kubernetes-map-type\":\"atomic\",\"properties\":{\"x\":{\"type\":\"string\"}}},"
"\"any\":{\"x-kubernetes-preserve-unknown-fields\":true},\"size\":{\"x-kubernetes-int-or-string\":true}}},"
"\"status\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}}}";

/* Compiles the schema once for all inputs. */
static const Schema *
schema(void)
{
	static Schema *made;
	static Arena arena;
	FieldErrorList errors;
	JsonError	error;

	if (made == NULL)
	{
		arena_init(&arena);
		field_errors_init(&errors, &arena);
		made = schema_compile(&arena, json_parse(&arena, schema_text, strlen(schema_text), NULL, NULL, &error),
							  "schema", &errors);
		check(made != NULL);
	}
	return made;
}

static bool
is_same(Arena *arena, const FieldSet *a, const FieldSet *b)
{
	return json_same(field_set_print(arena, a), field_set_print(arena, b));
}

static void
check_laws(Arena *arena, const FieldSet *a, const FieldSet *b)
{
	const FieldSet *both = field_set_intersection(arena, a, b);
	const FieldSet *left = field_set_difference(arena, a, b);

	check(is_same(arena, field_set_union(arena, a, b), field_set_union(arena, b, a)));
	check(is_same(arena, both, field_set_intersection(arena, b, a)));
	check(is_same(arena, field_set_union(arena, left, both), a));
	check(field_set_intersection(arena, left, b) == NULL);
	check(field_set_difference(arena, a, a) == NULL);
}

static bool
count_path(void *state, const char *path)
{
	check(path[0] == '.' || path[0] == '[');
	return ++* (int *) state < 1000;
}

/* Checks that reading a set's text returns the set. */
static const FieldSet *
check_text(Arena *arena, const JsonNode *fields)
{
	const char *error;
	const FieldSet *set = field_set_parse(arena, fields, &error);
	const FieldSet *again;
	int			paths = 0;

	if (error != NULL)
		return NULL;
	again = field_set_parse(arena, field_set_print(arena, set), &error);
	check(error == NULL && is_same(arena, set, again));
	field_set_visit(arena, set, count_path, &paths);
	check((paths > 0) == (set != NULL));
	return set;
}

static const JsonNode *
owners_of(const JsonNode *document)
{
	return json_path(document, "metadata", "managedFields", NULL);
}

static JsonNode *
without_owners(Arena *arena, const JsonNode *document)
{
	JsonNode   *copy = json_clone(arena, document);

	json_remove(json_get(copy, "metadata"), "managedFields");
	return copy;
}

static void
check_writes(Arena *arena, const JsonNode *live, const JsonNode *config)
{
	FieldWrite	write = {
		.arena = arena, .type = field_type_of_object(schema()), .api_version = "example.com/v1", .owner = "kubectl",
		.subresource = "", .status_subresource = true, .now = 1
	};
	FieldApply	first = {0};
	FieldApply	second = {0};
	JsonNode   *document;

	if (field_owner_apply(&write, live, config, true, &first) != FIELD_APPLY_OK)
	{
		check(first.error != NULL);
		return;
	}
	write.now = 2;
	check(field_owner_apply(&write, first.document, config, false, &second) == FIELD_APPLY_OK);
	check(json_same(without_owners(arena, first.document), without_owners(arena, second.document)));

	document = json_clone(arena, second.document);
	write.owner = "other";
	field_owner_update(&write, document, second.document);
	check(field_owners_equal_but_times(owners_of(document), owners_of(second.document)));
}

/* Returns the document in the text up to the next newline. */
static JsonNode *
next_document(Arena *arena, const char **at, const char *end)
{
	const char *newline = *at < end ? memchr(*at, '\n', (size_t) (end - *at)) : NULL;
	size_t		len = (size_t) ((newline != NULL ? newline : end) - *at);
	JsonError	error;
	JsonNode   *node = json_parse(arena, *at, len, NULL, NULL, &error);

	*at = newline != NULL ? newline + 1 : end;
	return node;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *at = (const char *) bytes;
	const char *end = at + size;
	const FieldSet *given = NULL;
	const FieldSet *made = NULL;
	FieldType	type = field_type_of_object(schema());
	JsonNode   *fields;
	JsonNode   *live;
	JsonNode   *config;
	const char *error;
	Arena		arena;

	arena_init(&arena);
	fields = next_document(&arena, &at, end);
	live = next_document(&arena, &at, end);
	config = next_document(&arena, &at, end);
	if (fields != NULL)
		given = check_text(&arena, fields);
	if (live != NULL && live->kind == JSON_KIND_OBJECT && field_set_of_document(&arena, type, live, &made, &error))
	{
		check_laws(&arena, given, made);
		check_laws(&arena, made, given);
		if (given != NULL)
		{
			check_laws(&arena, field_reconcile(&arena, type, given), field_ensure_named(&arena, type, given));
			field_remove(&arena, type, live, given);
		}
		if (config != NULL && config->kind == JSON_KIND_OBJECT && field_check_document(&arena, type, live) == NULL)
			check_writes(&arena, live, config);
	}
	arena_free(&arena);
	return 0;
}
