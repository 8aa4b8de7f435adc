/*-------------------------------------------------------------------------
 *
 * jsonpath_fuzz.c
 *	  Printer columns: paths, cells, and the sparse reading of documents.
 *
 * Input: a path, a newline, an object as JSON.  A cell must be the same
 * whether the whole document was parsed or only the parts that the path
 * names.  Bytes that are no document must do no harm.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/schema/table.h"

#define NOW INT64_C(1767225600)

static void
compare_cells(Arena *arena, const TableColumn *column, JsonText text)
{
	JsonText	metadata = {"{}", 2};
	JsonError	error;
	JsonNode   *document = json_parse(arena, text.bytes, text.len, NULL, NULL, &error);
	StrBuf		canonical;
	StrBuf		whole;
	StrBuf		sparse;

	if (document == NULL || document->kind != JSON_KIND_OBJECT)
		return;

	/* Stored bodies are canonical and have no metadata. */
	json_remove(document, "metadata");
	strbuf_init(&canonical, arena);
	json_write(&canonical, document);
	json_set(arena, document, "metadata", json_new_object(arena));

	strbuf_init(&whole, arena);
	table_cell(&whole, column, document, NOW);
	strbuf_init(&sparse, arena);
	table_cell(&sparse, column,
			   table_document(arena, column, 1, metadata, (JsonText) {canonical.bytes, canonical.len}), NOW);
	check(strcmp(whole.bytes, sparse.bytes) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static const char *const types[] = {"string", "integer", "number", "boolean", "date"};
	const char *bytes = (const char *) input;
	const char *newline = size > 0 ? memchr(bytes, '\n', size) : NULL;
	const char *error = NULL;
	TableColumn column = {.name = "Cell"};
	Arena		arena;

	if (newline == NULL)
		return 0;
	arena_init(&arena);
	column.path = jsonpath_compile(&arena, arena_strndup(&arena, bytes, (size_t) (newline - bytes)), &error);
	check(column.path != NULL || error != NULL);
	if (column.path != NULL)
	{
		JsonText	text = {arena_strndup(&arena, newline + 1, size - (size_t) (newline + 1 - bytes)),
		size - (size_t) (newline + 1 - bytes)};

		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		{
			StrBuf		cell;

			column.type = types[i];
			compare_cells(&arena, &column, text);
			strbuf_init(&cell, &arena);
			table_cell(&cell, &column, table_document(&arena, &column, 1, text, text), NOW);
		}
	}
	arena_free(&arena);
	return 0;
}
