/*-------------------------------------------------------------------------
 *
 * served_fuzz.c
 *	  Fuzz target: discovery and OpenAPI of registered definitions.
 *
 * The input is a CustomResourceDefinition in JSON, or two with a newline in
 * between.  The served documents are well-formed: a path's rows stand
 * together, JSON parses, and the same definitions give the same bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/answers/discovery.h"
#include "engine/schema/definition.h"

#define MAX_DEFINITIONS 32

static char *
as_if_hashed(Arena *arena, const char *bytes, size_t len)
{
	return arena_printf(arena, "%016zX%02X", len, len > 0 ? (unsigned char) bytes[len - 1] : 0);
}

static size_t
add_definitions(Arena *arena, const char *text, size_t len, const JsonNode **definitions, size_t count)
{
	JsonError	error;
	FieldErrorList errors;
	const JsonNode *crd = json_parse(arena, text, len, NULL, NULL, &error);
	const JsonNode *versions;

	field_errors_init(&errors, arena);
	versions = crd != NULL ? json_get(crd_definitions(arena, crd, &errors), "versions") : NULL;
	for (size_t i = 0; versions != NULL && i < versions->u.array.count && count < MAX_DEFINITIONS; i++)
		definitions[count++] = versions->u.array.items[i];
	return count;
}

static void
check_document(Arena *arena, const ServedDocument *document)
{
	JsonError	error;

	check(document->path[0] == '/' && document->len > 0 && document->hash[0] != '\0');
	if (strncmp(document->content_type, "application/json", 16) == 0)
		check(json_parse(arena, document->body, document->len, NULL, NULL, &error) != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *text = (const char *) bytes;
	const char *newline = size > 0 ? memchr(text, '\n', size) : NULL;
	size_t		len = newline != NULL ? (size_t) (newline - text) : size;
	const JsonNode *definitions[MAX_DEFINITIONS];
	const ServedDocument *documents;
	const ServedDocument *again;
	size_t		count;
	size_t		document_count;
	size_t		again_count;
	Arena		arena;

	arena_init(&arena);
	count = add_definitions(&arena, text, len, definitions, 0);
	if (newline != NULL)
		count = add_definitions(&arena, newline + 1, size - len - 1, definitions, count);
	documents = served_documents(&arena, definitions, count, as_if_hashed, &document_count);
	again = served_documents(&arena, definitions, count, as_if_hashed, &again_count);
	check(document_count == again_count);
	for (size_t i = 0; i < document_count; i++)
	{
		bool		first = i == 0 || strcmp(documents[i].path, documents[i - 1].path) != 0;

		check_document(&arena, &documents[i]);
		check(documents[i].len == again[i].len && memcmp(documents[i].body, again[i].body, again[i].len) == 0);
		for (size_t j = 0; first && j < i; j++)
			check(strcmp(documents[j].path, documents[i].path) != 0);
	}
	arena_free(&arena);
	return 0;
}
