/*-------------------------------------------------------------------------
 *
 * schema_prune.c
 *	  Drops the fields of a document that its schema does not know.
 *
 * Objects are pruned in place: the remaining members move together and keep
 * their order.  As upstream, a value without a schema keeps its scalars, but
 * its objects lose all members.  Where a schema preserves unknown fields,
 * pruning continues below the fields that the schema specifies.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/schema_private.h"

#include <stdlib.h>
#include <string.h>

typedef struct Pruning
{
	Arena	   *arena;
	bool		told;			/* whether to collect the dropped fields */
	char	  **paths;
	size_t		count;
	size_t		capacity;
	size_t		bytes;			/* of the paths */
} Pruning;

static void prune_value(Pruning *pruning, const Schema *schema, JsonNode *value, bool is_resource,
						const FieldPath *path);

static bool
is_container(const JsonNode *value)
{
	return value->kind == JSON_KIND_OBJECT || value->kind == JSON_KIND_ARRAY;
}

static void
note_dropped(Pruning *pruning, const FieldPath *path)
{
	if (!pruning->told || pruning->count >= UNKNOWN_FIELDS_MAX || pruning->bytes >= UNKNOWN_FIELDS_MAX_BYTES)
		return;
	pruning->paths = arena_grow(pruning->arena, pruning->paths, pruning->count, sizeof(char *), &pruning->capacity);
	if (path->index < 0 && path->key.len == 0)
	{
		/* For an empty key, upstream prints nothing behind the dot, where field paths have brackets. */
		char	   *parent = field_path_string(pruning->arena, path->parent);

		pruning->paths[pruning->count++] = arena_printf(pruning->arena, "%s%s", parent, parent[0] != '\0' ? "." : "");
	}
	else
		pruning->paths[pruning->count++] = field_path_string(pruning->arena, path);
	pruning->bytes += strlen(pruning->paths[pruning->count - 1]);
}

static void
prune_object(Pruning *pruning, const Schema *schema, JsonNode *object, bool is_resource, const FieldPath *path)
{
	bool		keep_unknown = schema != NULL && schema->preserve_unknown;
	size_t		next = 0;
	size_t		kept = 0;

	for (size_t i = 0; i < object->u.object.count; i++)
	{
		JsonMember	member = object->u.object.members[i];
		const SchemaProperty *property = schema != NULL ? schema_next_property(schema, member.key, &next) : NULL;
		bool		keep = true;

		if (is_resource && schema_is_meta_key(member.key))
		{
			/* metadata.c checks object metadata. */
		}
		else if (property != NULL || (schema != NULL && schema->additional != ADDITIONAL_ABSENT))
		{
			if (is_container(member.value))
			{
				FieldPath	at = {path, member.key, -1, false};
				const Schema *child = property != NULL ? property->schema : schema->additional_schema;

				prune_value(pruning, child, member.value, child != NULL && child->embedded, &at);
			}
		}
		else if (!keep_unknown)
		{
			FieldPath	at = {path, member.key, -1, false};

			keep = false;
			note_dropped(pruning, &at);
		}
		if (keep)
			object->u.object.members[kept++] = member;
	}
	object->u.object.count = kept;
}

/* Items of an array that preserves unknown fields preserve them too; only specified fields are pruned further. */
static void
skip_items(Pruning *pruning, const Schema *schema, JsonNode *value, const FieldPath *path)
{
	if (schema == NULL)
		return;
	arena_checkpoint();
	if (value->kind == JSON_KIND_OBJECT)
	{
		size_t		next = 0;

		for (size_t i = 0; i < value->u.object.count; i++)
		{
			JsonMember	member = value->u.object.members[i];
			const SchemaProperty *property = schema_next_property(schema, member.key, &next);
			const Schema *child = property != NULL ? property->schema : schema->additional_schema;
			FieldPath	at = {path, member.key, -1, false};

			if (schema->embedded && schema_is_meta_key(member.key))
				continue;
			if (property != NULL || schema->additional != ADDITIONAL_ABSENT)
				prune_value(pruning, child, member.value, child != NULL && child->embedded, &at);
		}
	}
	else if (value->kind == JSON_KIND_ARRAY)
	{
		for (size_t i = 0; i < value->u.array.count; i++)
		{
			FieldPath	at = {path, {NULL, 0}, (int64_t) i, false};

			skip_items(pruning, schema->items, value->u.array.items[i], &at);
		}
	}
}

/* is_resource: the value is a resource with its own apiVersion, kind and metadata. */
static void
prune_value(Pruning *pruning, const Schema *schema, JsonNode *value, bool is_resource, const FieldPath *path)
{
	arena_checkpoint();
	if (value->kind == JSON_KIND_OBJECT)
		prune_object(pruning, schema, value, is_resource, path);
	else if (value->kind == JSON_KIND_ARRAY)
	{
		const Schema *items = schema != NULL ? schema->items : NULL;

		for (size_t i = 0; i < value->u.array.count; i++)
		{
			JsonNode   *item = value->u.array.items[i];
			FieldPath	at = {path, {NULL, 0}, (int64_t) i, false};

			if (!is_container(item))
				continue;
			if (schema != NULL && schema->preserve_unknown)
				skip_items(pruning, items, item, &at);
			else
				prune_value(pruning, items, item, items != NULL && items->embedded, &at);
		}
	}
}

static int
compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

void
schema_prune(Arena *arena, const Schema *schema, JsonNode *document, UnknownField unknown, void *state)
{
	Pruning		pruning = {arena, unknown != NULL, NULL, 0, 0, 0};

	prune_value(&pruning, schema, document, true, NULL);
	if (pruning.count > 1)
		qsort(pruning.paths, pruning.count, sizeof(char *), compare_paths);
	for (size_t i = 0; unknown != NULL && i < pruning.count; i++)
		unknown(state, pruning.paths[i]);
}

void
schema_prune_value(Arena *arena, const Schema *schema, JsonNode *value)
{
	Pruning		pruning = {arena, false, NULL, 0, 0, 0};

	prune_value(&pruning, schema, value, schema->embedded, NULL);
}
