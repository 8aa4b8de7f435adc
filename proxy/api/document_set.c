/*-------------------------------------------------------------------------
 *
 * document_set.c
 *	  The discovery and OpenAPI documents of one reading of the registry.
 *
 *-------------------------------------------------------------------------
 */
#include "api/document_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "decide/documents.h"
#include "engine/base/search.h"

Documents *
documents_new(PgResult *rows, size_t count)
{
	Documents  *documents = allocate(sizeof(Documents));

	documents->references = 1;
	arena_init(&documents->arena);
	documents->rows = rows;
	documents->count = count;
	documents->entries = arena_alloc0(&documents->arena, (count + 1) * sizeof(RegistryDocument));
	return documents;
}

void
documents_release(void *state)
{
	Documents  *documents = state;

	if (documents == NULL || --documents->references > 0)
		return;
	pg_result_free(documents->rows);
	arena_free(&documents->arena);
	free(documents);
}

static const char *
keep(Arena *arena, JsonText text)
{
	return arena_strndup(arena, text.bytes, text.len);
}

static int
compare_documents(const void *left, const void *right)
{
	const RegistryDocument *a = left;
	const RegistryDocument *b = right;
	int			order = strcmp(a->path, b->path);

	return order != 0 ? order : (a->row > b->row) - (a->row < b->row);
}

static void
documents_sort(Documents *documents)
{
	qsort(documents->entries, documents->count, sizeof(RegistryDocument), compare_documents);
}

/* Fills in the members of a document that follow from its path, type, hash and body. */
static void
document_complete(Documents *documents, size_t row)
{
	RegistryDocument *document = &documents->entries[row];

	document->discovery = strncmp(document->path, "/api", 4) == 0;
	document->row = row;

	/* The header needs quotes; the stored value may lack them. */
	if (document->etag[0] != '\0' && document->etag[0] != '"')
		document->etag = arena_printf(&documents->arena, "\"%s\"", document->etag);
}

Documents *
documents_read(PgResult *rows)
{
	Documents  *documents = documents_new(rows, pg_rows(rows));

	for (size_t row = 0; row < documents->count; row++)
	{
		RegistryDocument *document = &documents->entries[row];

		document->path = keep(&documents->arena, pg_text(rows, row, 0));
		document->content_type = keep(&documents->arena, pg_text(rows, row, 1));
		document->etag = keep(&documents->arena, pg_text(rows, row, 2));
		document->forms[FORM_COMPACT] = pg_text(rows, row, 3);
		document_complete(documents, row);
	}
	documents_sort(documents);
	return documents;
}

Documents *
documents_of(const Definition *const *definitions, size_t count)
{
	Documents  *documents = documents_new(NULL, 0);
	ServedDocument *made = documents_make(&documents->arena, definitions, count, &documents->count);

	documents->entries = arena_alloc0(&documents->arena, (documents->count + 1) * sizeof(RegistryDocument));
	for (size_t row = 0; row < documents->count; row++)
	{
		RegistryDocument *document = &documents->entries[row];

		document->path = made[row].path;
		document->content_type = made[row].content_type;
		document->etag = made[row].hash;
		document->forms[FORM_COMPACT] = (JsonText) {made[row].body, made[row].len};
		document_complete(documents, row);
	}
	documents_sort(documents);
	return documents;
}

static int
compare_path(const void *document, const void *path)
{
	return strcmp(((const RegistryDocument *) document)->path, path);
}

RegistryDocument *
documents_find(const Documents *documents, const char *path, size_t *count)
{
	RegistryDocument *entries = documents->entries;
	bool		found;
	size_t		first = search_sorted(entries, documents->count, sizeof(RegistryDocument), path, compare_path, &found);

	*count = 0;
	while (found && first > 0 && compare_path(&entries[first - 1], path) == 0)
		first--;
	while (first + *count < documents->count && strcmp(entries[first + *count].path, path) == 0)
		(*count)++;
	return *count > 0 ? &entries[first] : NULL;
}
