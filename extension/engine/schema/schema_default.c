/*-------------------------------------------------------------------------
 *
 * schema_default.c
 *	  Fills in the defaults of a schema.
 *
 * A null in a field that is not nullable counts as absent: the default
 * replaces the null, or without a default the null is dropped.  In a list, a
 * null without a default stays, because items cannot be dropped, and validation
 * refuses it.  In an applied configuration every null without a default stays.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/schema_private.h"

typedef struct Defaulting
{
	Arena	   *arena;
	bool		keeps_nulls;
} Defaulting;

static void default_value(const Defaulting *defaulting, const Schema *schema, JsonNode *value);

static bool
is_unwanted_null(const Schema *schema, const JsonNode *value)
{
	return value->kind == JSON_KIND_NULL && schema != NULL && !schema->nullable;
}

/* Whether a walk below the value could change anything. */
static bool
is_walked(const Schema *schema, const JsonNode *value)
{
	return schema != NULL && (value->kind == JSON_KIND_OBJECT || value->kind == JSON_KIND_ARRAY);
}

/* Adds the absent members that have a default. */
static void
add_defaults(Arena *arena, const Schema *schema, JsonNode *object)
{
	for (size_t i = 0; i < schema->property_count; i++)
	{
		const SchemaProperty *property = &schema->properties[i];

		if (property->schema->default_value != NULL && json_get_text(object, property->key) == NULL)
			json_set_text(arena, object, property->key, json_clone(arena, property->schema->default_value));
	}
}

static void
default_object(const Defaulting *defaulting, const Schema *schema, JsonNode *object)
{
	Arena	   *arena = defaulting->arena;
	size_t		next = 0;
	size_t		kept = 0;

	if (schema->has_defaults)
		add_defaults(arena, schema, object);
	for (size_t i = 0; i < object->u.object.count; i++)
	{
		JsonMember	member = object->u.object.members[i];

		if (member.value->kind == JSON_KIND_NULL || member.value->kind == JSON_KIND_OBJECT ||
			member.value->kind == JSON_KIND_ARRAY)
		{
			const SchemaProperty *property = schema_next_property(schema, member.key, &next);
			const Schema *child = property != NULL ? property->schema : schema->additional_schema;

			if (is_unwanted_null(child, member.value))
			{
				if (child->default_value != NULL)
					member.value = json_clone(arena, child->default_value);
				else if (!defaulting->keeps_nulls)
					continue;
			}
			if (is_walked(child, member.value))
				default_value(defaulting, child, member.value);
		}
		object->u.object.members[kept++] = member;
	}
	object->u.object.count = kept;
}

static void
default_value(const Defaulting *defaulting, const Schema *schema, JsonNode *value)
{
	arena_checkpoint();
	if (value->kind == JSON_KIND_OBJECT)
		default_object(defaulting, schema, value);
	else if (schema->items != NULL)
	{
		for (size_t i = 0; i < value->u.array.count; i++)
		{
			JsonNode  **item = &value->u.array.items[i];

			if (is_unwanted_null(schema->items, *item) && schema->items->default_value != NULL)
				*item = json_clone(defaulting->arena, schema->items->default_value);
			if (is_walked(schema->items, *item))
				default_value(defaulting, schema->items, *item);
		}
	}
}

void
schema_default(Arena *arena, const Schema *schema, JsonNode *document)
{
	Defaulting	defaulting = {.arena = arena};

	if (is_walked(schema, document))
		default_value(&defaulting, schema, document);
}

void
schema_default_applied(Arena *arena, const Schema *schema, JsonNode *document)
{
	Defaulting	defaulting = {.arena = arena, .keeps_nulls = true};

	if (is_walked(schema, document))
		default_value(&defaulting, schema, document);
}
