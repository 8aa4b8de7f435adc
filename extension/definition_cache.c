/*-------------------------------------------------------------------------
 *
 * definition_cache.c
 *	  Compiled definitions of this session, by id.
 *
 * An id is drawn from a sequence whose start is the time of CREATE EXTENSION
 * and never stands for two definitions, so nothing needs to be invalidated.
 * A definition that is no longer served stays until the session ends; types
 * are registered rarely.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

typedef struct CachedDefinition
{
	int64		id;				/* hash key */
	Definition *definition;
} CachedDefinition;

static HTAB *cached_definitions = NULL;

static Definition *
compile(Datum document)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "kube_reports definition", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Arena	   *arena = palloc(sizeof(Arena));
	Definition *definition;

	arena_init(arena);
	definition = definition_compile(arena, parse_document(arena, datum_text(datumCopy(document, false, -1))));
	if (definition == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("definition of a resource type is damaged"),
				 errhint("Register the CustomResourceDefinition again.")));
	MemoryContextSwitchTo(caller);
	/* Only a definition that is whole outlives the statement. */
	MemoryContextSetParent(context, CacheMemoryContext);
	return definition;
}

const Definition *
definition_lookup(int64 id, Datum document)
{
	CachedDefinition *entry;
	bool		found;

	if (cached_definitions == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(int64), .entrysize = sizeof(CachedDefinition), .hcxt = CacheMemoryContext};

		cached_definitions = hash_create("kube_reports definitions", 32, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = hash_search(cached_definitions, &id, HASH_FIND, NULL);
	if (entry == NULL)
	{
		Definition *definition = compile(document);

		entry = hash_search(cached_definitions, &id, HASH_ENTER, &found);
		entry->definition = definition;
	}
	return entry->definition;
}
