/*-------------------------------------------------------------------------
 *
 * definition_cache.c
 *	  Compiled definitions and result mappings of this session, by id.
 *
 * Ids come from a sequence that starts at the time of CREATE EXTENSION.  No
 * two documents ever have the same id, so the cache needs no invalidation.
 * Unused entries stay until the session ends; types are registered rarely.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "access/detoast.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/*
 * Callers supply the ids, so a definition and a mapping can have the same id.  Since compile is part of the key, the
 * cache never returns one for the other.
 */
typedef struct CachedKey
{
	int64		id;
	void	   *(*compile) (Arena *, Datum);
} CachedKey;

typedef struct CachedDocument
{
	CachedKey	key;
	void	   *compiled;
} CachedDocument;

static HTAB *cached_documents = NULL;

pg_noreturn static void
damaged(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("definition of a resource type is damaged"),
			 errhint("Register the CustomResourceDefinition again.")));
	pg_unreachable();
}

JsonNode *
parse_definition(Arena *arena, Datum document)
{
	JsonNode   *definition = definition_restore(arena, parse_document(arena, datum_text(document)));

	if (definition == NULL)
		damaged();
	return definition;
}

static void *
compile_definition(Arena *arena, Datum document)
{
	Arena		scratch;
	text	   *checked;
	Definition *definition;

	arena_init_for(&scratch, toast_raw_datum_size(document));
	checked = text_value_of_json(&scratch, parse_definition(&scratch, document));
	arena_free(&scratch);
	definition = definition_compile(arena, parse_document(arena, datum_text(PointerGetDatum(checked))));
	if (definition == NULL)
		damaged();
	return definition;
}

/* The mapping's tree points into its text, so the text must live as long as the tree. */
static void *
compile_mapping(Arena *arena, Datum document)
{
	JsonText	given = datum_text(document);
	JsonText	kept = {arena_strndup(arena, given.bytes, given.len), given.len};
	FieldErrorList errors;
	ResultMapping *mapping;

	field_errors_init(&errors, arena);
	mapping = result_mapping_compile(arena, parse_document(arena, kept), &errors);
	if (mapping == NULL)
		raise_invalid(arena, "ResultsMapping", "", "", &errors);
	return mapping;
}

static void *
lookup(int64 id, Datum document, void *(*compile) (Arena *, Datum))
{
	CachedKey	key = {id, compile};
	CachedDocument *entry;
	MemoryContext context;
	MemoryContext caller;
	Arena	   *arena;
	void	   *compiled;
	bool		found;

	if (cached_documents == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(CachedKey), .entrysize = sizeof(CachedDocument),
		.hcxt = CacheMemoryContext};

		cached_documents = hash_create("kube_reports definitions", 32, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = hash_search(cached_documents, &key, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->compiled;

	context = AllocSetContextCreate(CurrentMemoryContext, "kube_reports definition", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	arena = palloc(sizeof(Arena));
	arena_init_for(arena, toast_raw_datum_size(document));
	compiled = compile(arena, document);
	MemoryContextSwitchTo(caller);
	/* The context outlives the statement only if compiling has succeeded. */
	MemoryContextSetParent(context, CacheMemoryContext);
	entry = hash_search(cached_documents, &key, HASH_ENTER, &found);
	entry->compiled = compiled;
	return compiled;
}

const Definition *
definition_lookup(int64 id, Datum document)
{
	return lookup(id, document, compile_definition);
}

const ResultMapping *
mapping_lookup(int64 id, Datum document)
{
	return lookup(id, document, compile_mapping);
}
