/*-------------------------------------------------------------------------
 *
 * schema.c
 *	  Functions that look up parts of a compiled schema.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/schema_private.h"

#include <string.h>

#include "engine/base/search.h"

static int
compare_property(const void *property, const void *key)
{
	return schema_key_order(((const SchemaProperty *) property)->key, *(const JsonText *) key);
}

const SchemaProperty *
schema_property(const Schema *schema, JsonText key)
{
	bool		found;
	size_t		place = search_sorted(schema->properties, schema->property_count, sizeof(SchemaProperty), &key,
									  compare_property, &found);

	return found ? &schema->properties[place] : NULL;
}

SchemaListType
schema_list_type(const Schema *schema)
{
	if (schema != NULL && schema->list_type != NULL)
	{
		if (strcmp(schema->list_type, "set") == 0)
			return SCHEMA_LIST_SET;
		if (strcmp(schema->list_type, "map") == 0)
			return SCHEMA_LIST_MAP;
	}
	return SCHEMA_LIST_ATOMIC;
}

bool
schema_map_is_atomic(const Schema *schema)
{
	return schema != NULL && schema->map_type != NULL && strcmp(schema->map_type, "atomic") == 0;
}
