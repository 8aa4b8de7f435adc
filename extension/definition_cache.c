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
 * Callers supply the ids.  With compile in the key, a definition is never used as a mapping, nor a mapping as a
 * definition.
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

static void
take(Arena *arena, JsonNode *to, const char *key, const JsonNode *from, const char *member)
{
	JsonNode   *value = json_get(from, member);

	if (value != NULL)
		json_set(arena, to, key, value);
}

/* Rebuilds the CustomResourceDefinition of a definition. */
static JsonNode *
definition_source(Arena *arena, const JsonNode *definition)
{
	static const char *const names[] = {"plural", "singular", "kind", "listKind", "shortNames", "categories"};
	const char *group = json_get_cstring(arena, definition, "group");
	const char *plural = json_get_cstring(arena, definition, "plural");
	const JsonNode *status = json_get(definition, "status");
	JsonNode   *crd = json_new_object(arena);
	JsonNode   *metadata = json_new_object(arena);
	JsonNode   *spec = json_new_object(arena);
	JsonNode   *spec_names = json_new_object(arena);
	JsonNode   *version = json_new_object(arena);
	JsonNode   *versions = json_new_array(arena);
	JsonNode   *schema = json_new_object(arena);

	if (group == NULL || plural == NULL)
		damaged();
	json_set(arena, metadata, "name", json_new_cstring(arena, arena_printf(arena, "%s.%s", plural, group)));
	for (size_t i = 0; i < lengthof(names); i++)
		take(arena, spec_names, names[i], definition, names[i]);
	take(arena, schema, "openAPIV3Schema", definition, "schema");
	take(arena, version, "name", definition, "version");
	take(arena, version, "additionalPrinterColumns", definition, "columns");
	json_set(arena, version, "schema", schema);
	json_set(arena, version, "served", json_new_bool(arena, true));
	json_set(arena, version, "storage", json_new_bool(arena, true));
	if (status != NULL && status->kind == JSON_KIND_BOOL && status->u.boolean)
	{
		JsonNode   *subresources = json_new_object(arena);

		json_set(arena, subresources, "status", json_new_object(arena));
		json_set(arena, version, "subresources", subresources);
	}
	json_append(arena, versions, version);
	take(arena, spec, "group", definition, "group");
	take(arena, spec, "scope", definition, "scope");
	json_set(arena, spec, "names", spec_names);
	json_set(arena, spec, "versions", versions);
	json_set(arena, crd, "apiVersion", json_new_cstring(arena, "apiextensions.k8s.io/v1"));
	json_set(arena, crd, "kind", json_new_cstring(arena, "CustomResourceDefinition"));
	json_set(arena, crd, "metadata", metadata);
	json_set(arena, crd, "spec", spec);
	return crd;
}

/*
 * The engine trusts definitions, but the owner of the registry's tables is not a superuser and can write anything into
 * them.  Therefore each definition passes the checks of a CustomResourceDefinition again, and the engine uses the
 * result of these checks.
 */
JsonNode *
parse_definition(Arena *arena, Datum document)
{
	JsonNode   *given = parse_document(arena, datum_text(document));
	JsonNode   *storage = json_get(given, "storage");
	JsonNode   *made;
	FieldErrorList errors;

	field_errors_init(&errors, arena);
	made = crd_definitions(arena, definition_source(arena, given), &errors);
	if (made == NULL)
		damaged();
	made = json_get(made, "versions")->u.array.items[0];
	json_set(arena, made, "storage", json_new_bool(arena, storage != NULL && storage->kind == JSON_KIND_BOOL &&
												   storage->u.boolean));
	return made;
}

static void *
compile_definition(Arena *arena, Datum document)
{
	Arena		scratch;
	text	   *checked;
	Definition *definition;

	arena_init_for(&scratch, toast_raw_datum_size(document));
	checked = text_of_json(&scratch, parse_definition(&scratch, document));
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
