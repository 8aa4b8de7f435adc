/*-------------------------------------------------------------------------
 *
 * schema.c
 *	  Functions that look up parts of a compiled schema.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/schema_private.h"

#include <string.h>

const SchemaProperty *
schema_property(const Schema *schema, JsonText key)
{
	size_t		low = 0;
	size_t		high = schema->property_count;

	while (low < high)
	{
		size_t		middle = low + (high - low) / 2;
		int			order = schema_key_order(schema->properties[middle].key, key);

		if (order == 0)
			return &schema->properties[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
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
