/*-------------------------------------------------------------------------
 *
 * schema_structural.c
 *	  The rules of structural schemas.
 *
 * kube-apiserver applies three sets of rules to every new
 * CustomResourceDefinition: structure (every field has a type and is specified
 * outside of allOf, anyOf, oneOf and not; metadata is not specified further),
 * defaults (without unknown fields, and valid), and combinations of keywords.
 *
 * schema_compile() has checked the keywords and the kinds of their values
 * before.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/schema_private.h"

#include <stdlib.h>

typedef enum SchemaLevel
{
	LEVEL_ROOT,
	LEVEL_ITEM,
	LEVEL_FIELD
} SchemaLevel;

typedef struct Rules
{
	Arena	   *arena;
	FieldErrorList *errors;
} Rules;

static void check_nested(Rules *rules, const Schema *nested, bool skip_any_of, const FieldPath *path);
static void check_nested_completeness(Rules *rules, const Schema *nested, const Schema *schema,
									  const FieldPath *schema_path, const FieldPath *nested_path);

static FieldPath
child_path(const FieldPath *parent, const char *name)
{
	FieldPath	path = {parent, {name, strlen(name)}, -1, false};

	return path;
}

static FieldPath
key_path(const FieldPath *parent, JsonText key)
{
	FieldPath	path = {parent, key, -1, true};

	return path;
}

static FieldPath
index_path(const FieldPath *parent, size_t index)
{
	FieldPath	path = {parent, {NULL, 0}, (int64_t) index, false};

	return path;
}

/* An error at a keyword of the schema at path; value is NULL for error types that show no value. */
static void
rule_error(Rules *rules, FieldErrorType type, const FieldPath *path, const char *keyword,
		   const JsonNode *value, const char *detail)
{
	FieldPath	at = child_path(path, keyword);

	field_error(rules->errors, type, &at, value, detail);
}

static const JsonNode *
string_node(Rules *rules, const char *string)
{
	return string != NULL ? json_new_cstring(rules->arena, string) : json_new_null(rules->arena);
}

static bool
is_string_keyword(const Schema *schema, const char *keyword)
{
	const JsonNode *value = json_get(schema->node, keyword);

	return value != NULL && value->kind == JSON_KIND_STRING && value->u.string.len > 0;
}

/* Compares the type keyword itself, which x-kubernetes-int-or-string does not change. */
static bool
is_type(const Schema *schema, const char *type)
{
	return schema->type != NULL && strcmp(schema->type, type) == 0;
}

static bool
is_only_type(const Schema *schema, const char *type)
{
	return schema->node->u.object.count == 1 && json_string_is(json_get(schema->node, "type"), type);
}

/* Whether this is anyOf: [{type: integer}, {type: string}], which x-kubernetes-int-or-string allows beside itself. */
static bool
is_int_or_string_pattern(const SchemaArray *any_of)
{
	return any_of->count == 2 && is_only_type(any_of->schemas[0], "integer") &&
		is_only_type(any_of->schemas[1], "string");
}

/* Checks the value validations of a schema: the schemas under allOf, anyOf, oneOf and not. */
static void
check_value_validations(Rules *rules, const Schema *schema, bool skip_any_of, bool skip_first_all_of,
						const FieldPath *path)
{
	FieldPath	any_of = child_path(path, "anyOf");
	FieldPath	all_of = child_path(path, "allOf");
	FieldPath	one_of = child_path(path, "oneOf");
	FieldPath	not = child_path(path, "not");

	for (size_t i = 0; i < schema->any_of.count && !skip_any_of; i++)
	{
		FieldPath	at = index_path(&any_of, i);

		check_nested(rules, schema->any_of.schemas[i], false, &at);
	}
	for (size_t i = 0; i < schema->all_of.count; i++)
	{
		FieldPath	at = index_path(&all_of, i);

		check_nested(rules, schema->all_of.schemas[i], i == 0 && skip_first_all_of, &at);
	}
	for (size_t i = 0; i < schema->one_of.count; i++)
	{
		FieldPath	at = index_path(&one_of, i);

		check_nested(rules, schema->one_of.schemas[i], false, &at);
	}
	if (schema->not_schema != NULL)
		check_nested(rules, schema->not_schema, false, &not);
}

/* A schema under allOf, anyOf, oneOf or not may restrict values, but must not add structure. */
static void
check_nested(Rules *rules, const Schema *nested, bool skip_any_of, const FieldPath *path)
{
	static const struct
	{
		const char *keyword;
		const char *detail;
	}			texts[] = {
		{"type", "must be empty to be structural"},
		{"title", "must be empty to be structural"},
		{"description", "must be empty to be structural"},
	};
	FieldPath	properties = child_path(path, "properties");
	FieldPath	items = child_path(path, "items");

	arena_checkpoint();
	check_value_validations(rules, nested, skip_any_of, false, path);
	if (nested->items != NULL)
		check_nested(rules, nested->items, false, &items);
	for (size_t i = 0; i < nested->property_count; i++)
	{
		FieldPath	at = key_path(&properties, nested->properties[i].key);

		check_nested(rules, nested->properties[i].schema, false, &at);
		if (json_text_is(nested->properties[i].key, "metadata"))
			field_error(rules->errors, FIELD_FORBIDDEN, &at, NULL, "must not be specified in a nested context");
	}

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		if (is_string_keyword(nested, texts[i].keyword))
			rule_error(rules, FIELD_FORBIDDEN, path, texts[i].keyword, NULL, texts[i].detail);
	}
	if (nested->additional == ADDITIONAL_TRUE || nested->additional == ADDITIONAL_SCHEMA)
		rule_error(rules, FIELD_FORBIDDEN, path, "additionalProperties", NULL, "must be undefined to be structural");
	if (nested->default_value != NULL)
		rule_error(rules, FIELD_FORBIDDEN, path, "default", NULL, "must be undefined to be structural");
	if (nested->has_rules)
		rule_error(rules, FIELD_FORBIDDEN, path, "x-kubernetes-validations", NULL, "must be empty to be structural");
	if (nested->nullable)
		rule_error(rules, FIELD_FORBIDDEN, path, "nullable", NULL, "must be false to be structural");
	if (nested->preserve_unknown)
		rule_error(rules, FIELD_FORBIDDEN, path, "x-kubernetes-preserve-unknown-fields", NULL,
				   "must be false to be structural");
	if (nested->embedded)
		rule_error(rules, FIELD_FORBIDDEN, path, "x-kubernetes-embedded-resource", NULL,
				   "must be false to be structural");
	if (nested->int_or_string)
		rule_error(rules, FIELD_FORBIDDEN, path, "x-kubernetes-int-or-string", NULL,
				   "must be false to be structural");
	if (nested->list_map_key_count > 0)
		rule_error(rules, FIELD_FORBIDDEN, path, "x-kubernetes-list-map-keys", NULL,
				   "must be empty to be structural");
	if (nested->list_type != NULL)
		rule_error(rules, FIELD_FORBIDDEN, path, "x-kubernetes-list-type", NULL,
				   "must be undefined to be structural");
	if (nested->map_type != NULL)
		rule_error(rules, FIELD_FORBIDDEN, path, "x-kubernetes-map-type", NULL,
				   "must be undefined to be structural");
}

/* Whether Go treats the keyword's value as not set. */
static bool
is_zero_keyword(const JsonMember *member)
{
	switch (member->value->kind)
	{
		case JSON_KIND_NULL:
			return true;
		case JSON_KIND_BOOL:
			/* additionalProperties is a pointer upstream: false is not unset. */
			return !member->value->u.boolean && !json_text_is(member->key, "additionalProperties");
		case JSON_KIND_STRING:
			return member->value->u.string.len == 0;
		case JSON_KIND_ARRAY:
			return member->value->u.array.count == 0;
		default:
			return false;
	}
}

/* Metadata at the root may restrict only the name; the other fields are specified implicitly. */
static bool
restricts_name_only(const Schema *metadata)
{
	for (size_t i = 0; i < metadata->node->u.object.count; i++)
	{
		const JsonMember *member = &metadata->node->u.object.members[i];

		if (is_zero_keyword(member) || json_text_is(member->key, "type") || json_text_is(member->key, "default"))
			continue;
		if (!json_text_is(member->key, "properties"))
			return false;
		for (size_t k = 0; k < metadata->property_count; k++)
		{
			JsonText	key = metadata->properties[k].key;

			if (!json_text_is(key, "name") && !json_text_is(key, "generateName"))
				return false;
		}
	}
	return true;
}

/* Checks apiVersion, kind and metadata of the root or of an embedded resource. */
static void
check_meta_properties(Rules *rules, const Schema *schema, SchemaLevel level, const FieldPath *path)
{
	static const char *const string_keys[] = {"apiVersion", "kind"};
	static const JsonText metadata_key = {"metadata", 8};
	bool		is_resource = level == LEVEL_ROOT || schema->embedded;
	FieldPath	properties = child_path(path, "properties");
	const SchemaProperty *metadata = schema_property(schema, metadata_key);

	for (size_t i = 0; i < 2 && is_resource; i++)
	{
		JsonText	key = {string_keys[i], strlen(string_keys[i])};
		const SchemaProperty *property = schema_property(schema, key);
		FieldPath	at = key_path(&properties, key);

		if (property != NULL && !is_type(property->schema, "string"))
			rule_error(rules, FIELD_INVALID, &at, "type",
					   json_new_cstring(rules->arena, property->schema->type != NULL ? property->schema->type : ""),
					   "must be string");
	}
	if (metadata != NULL)
	{
		FieldPath	at = key_path(&properties, metadata_key);

		if (is_resource && !is_type(metadata->schema, "object"))
			rule_error(rules, FIELD_INVALID, &at, "type",
					   json_new_cstring(rules->arena, metadata->schema->type != NULL ? metadata->schema->type : ""),
					   "must be object");
		if (level == LEVEL_ROOT && !restricts_name_only(metadata->schema))
			field_error(rules->errors, FIELD_FORBIDDEN, &at, NULL,
						"must not specify anything other than name and generateName, but metadata is implicitly "
						"specified");
	}
}

static void
check_type_of_level(Rules *rules, const Schema *schema, SchemaLevel level, const FieldPath *path)
{
	static const char *const details[] = {
		[LEVEL_ROOT] = "must not be empty at the root",
		[LEVEL_ITEM] = "must not be empty for specified array items",
		[LEVEL_FIELD] = "must not be empty for specified object fields",
	};
	bool		is_object = is_type(schema, "object");

	if (schema->embedded && !is_object)
	{
		const char *detail = "must be object if x-kubernetes-embedded-resource is true";

		if (schema->type == NULL)
			rule_error(rules, FIELD_REQUIRED, path, "type", NULL, detail);
		else
			rule_error(rules, FIELD_INVALID, path, "type", string_node(rules, schema->type), detail);
	}
	else if (schema->type == NULL && !schema->int_or_string && !schema->preserve_unknown)
		rule_error(rules, FIELD_REQUIRED, path, "type", NULL, details[level]);
	if (level == LEVEL_ROOT && schema->type != NULL && !is_object)
		rule_error(rules, FIELD_INVALID, path, "type", string_node(rules, schema->type), "must be object at the root");
}

static void
check_invariants(Rules *rules, const Schema *schema, SchemaLevel level, const FieldPath *path)
{
	FieldPath	properties = child_path(path, "properties");
	FieldPath	items = child_path(path, "items");
	FieldPath	additional = child_path(path, "additionalProperties");

	arena_checkpoint();
	if (schema->items != NULL)
		check_invariants(rules, schema->items, LEVEL_ITEM, &items);
	else if (is_type(schema, "array"))
		field_error(rules->errors, FIELD_REQUIRED, &items, NULL, "must be specified");
	for (size_t i = 0; i < schema->property_count; i++)
	{
		FieldPath	at = key_path(&properties, schema->properties[i].key);

		check_invariants(rules, schema->properties[i].schema, LEVEL_FIELD, &at);
	}
	if (schema->additional != ADDITIONAL_ABSENT)
	{
		if (level == LEVEL_ROOT)
			field_error(rules->errors, FIELD_FORBIDDEN, &additional, NULL, "must not be used at the root");
		if (schema->embedded)
			field_error(rules->errors, FIELD_FORBIDDEN, &additional, NULL,
						"must not be used if x-kubernetes-embedded-resource is set");
		if (schema->additional_schema != NULL)
			check_invariants(rules, schema->additional_schema, LEVEL_FIELD, &additional);
	}

	if (schema->int_or_string && schema->preserve_unknown)
		rule_error(rules, FIELD_INVALID, path, "x-kubernetes-preserve-unknown-fields",
				   json_new_bool(rules->arena, true), "must be false if x-kubernetes-int-or-string is true");
	if (schema->int_or_string && schema->embedded)
		rule_error(rules, FIELD_INVALID, path, "x-kubernetes-embedded-resource",
				   json_new_bool(rules->arena, true), "must be false if x-kubernetes-int-or-string is true");
	check_value_validations(rules, schema, is_int_or_string_pattern(&schema->any_of),
							schema->all_of.count > 0 && is_int_or_string_pattern(&schema->all_of.schemas[0]->any_of),
							path);
	check_type_of_level(rules, schema, level, path);
	check_meta_properties(rules, schema, level, path);
	if (schema->embedded && !schema->preserve_unknown && schema->property_count == 0)
		field_error(rules->errors, FIELD_REQUIRED, &properties, NULL,
					"must not be empty if x-kubernetes-embedded-resource is true without "
					"x-kubernetes-preserve-unknown-fields");
}

/* Every field in a value validation must also be specified outside of it. */
static void
check_value_completeness(Rules *rules, const Schema *nested, const Schema *schema,
						 const FieldPath *schema_path, const FieldPath *nested_path)
{
	const SchemaArray *const arrays[] = {&nested->all_of, &nested->any_of, &nested->one_of};
	static const char *const names[] = {"allOf", "anyOf", "oneOf"};

	if (nested->not_schema != NULL)
	{
		FieldPath	at = child_path(nested_path, "not");

		check_nested_completeness(rules, nested->not_schema, schema, schema_path, &at);
	}
	for (size_t a = 0; a < 3; a++)
	{
		FieldPath	array = child_path(nested_path, names[a]);

		for (size_t i = 0; i < arrays[a]->count; i++)
		{
			FieldPath	at = index_path(&array, i);

			check_nested_completeness(rules, arrays[a]->schemas[i], schema, schema_path, &at);
		}
	}
}

static void
check_nested_completeness(Rules *rules, const Schema *nested, const Schema *schema,
						  const FieldPath *schema_path, const FieldPath *nested_path)
{
	arena_checkpoint();
	if (schema == NULL)
	{
		field_error(rules->errors, FIELD_REQUIRED, schema_path, NULL,
					arena_printf(rules->arena, "because it is defined in %s",
								 field_path_string(rules->arena, nested_path)));
		return;
	}
	check_value_completeness(rules, nested, schema, schema_path, nested_path);
	if (nested->items != NULL)
	{
		FieldPath	schema_items = child_path(schema_path, "items");
		FieldPath	nested_items = child_path(nested_path, "items");

		check_nested_completeness(rules, nested->items, schema->items, &schema_items, &nested_items);
	}
	for (size_t i = 0; i < nested->property_count; i++)
	{
		JsonText	key = nested->properties[i].key;
		const SchemaProperty *property = schema_property(schema, key);
		FieldPath	schema_properties = child_path(schema_path, "properties");
		FieldPath	nested_properties = child_path(nested_path, "properties");
		FieldPath	schema_key = key_path(&schema_properties, key);
		FieldPath	nested_key = key_path(&nested_properties, key);

		check_nested_completeness(rules, nested->properties[i].schema, property != NULL ? property->schema : NULL,
								  &schema_key, &nested_key);
	}
}

/*
 * Defaults must have no unknown fields and must be valid.  Inside the apiVersion, kind and metadata of a resource, a
 * default is only validated against its schema.
 */
static void
check_defaults(Rules *rules, const Schema *schema, bool is_resource, bool inside_meta, const FieldPath *path)
{
	FieldPath	items = child_path(path, "items");
	FieldPath	properties = child_path(path, "properties");

	arena_checkpoint();
	if (schema->default_value != NULL)
	{
		FieldPath	at = child_path(path, "default");
		size_t		before;

		if (!inside_meta)
		{
			JsonNode   *pruned = json_clone(rules->arena, schema->default_value);

			schema_prune_value(rules->arena, schema, pruned);
			if (!json_same(pruned, schema->default_value))
				field_error(rules->errors, FIELD_INVALID, &at, schema->default_value, "must not have unknown fields");
		}
		before = rules->errors->count;
		if (!inside_meta)
			schema_check_embedded(schema, schema->default_value, &at, rules->errors);
		if (rules->errors->count == before)
			schema_validate_value(schema, schema->default_value, field_path_string(rules->arena, &at), rules->errors);
	}
	if (!schema->has_defaults)
		return;
	if (schema->items != NULL)
		check_defaults(rules, schema->items, schema->items->embedded, inside_meta, &items);
	for (size_t i = 0; i < schema->property_count; i++)
	{
		const Schema *child = schema->properties[i].schema;
		FieldPath	at = key_path(&properties, schema->properties[i].key);
		bool		is_meta = is_resource && schema_is_meta_key(schema->properties[i].key);

		check_defaults(rules, child, child->embedded, !child->embedded && (inside_meta || is_meta), &at);
	}
}

/* The keys of a list of type map must be scalar properties of the items, required or with a default. */
static void
check_list_map_keys(Rules *rules, const Schema *schema, const FieldPath *path)
{
	const Schema *item = schema->items;
	FieldPath	items = child_path(path, "items");
	FieldPath	properties = child_path(&items, "properties");
	const JsonNode *keys = json_get(schema->node, "x-kubernetes-list-map-keys");

	if (schema->list_map_key_count == 0)
		rule_error(rules, FIELD_REQUIRED, path, "x-kubernetes-list-map-keys", NULL,
				   "must not be empty if x-kubernetes-list-type is map");
	if (item == NULL)
	{
		field_error(rules->errors, FIELD_REQUIRED, &items, NULL,
					"must have a schema if x-kubernetes-list-type is map");
		return;
	}
	if (!is_type(item, "object"))
	{
		rule_error(rules, FIELD_INVALID, &items, "type",
				   json_new_cstring(rules->arena, item->type != NULL ? item->type : ""),
				   "must be object if parent array's x-kubernetes-list-type is map");
		return;
	}
	for (size_t i = 0; i < schema->list_map_key_count; i++)
	{
		JsonText	key = {schema->list_map_keys[i], strlen(schema->list_map_keys[i])};
		const SchemaProperty *property = schema_property(item, key);
		FieldPath	at = key_path(&properties, key);

		arena_checkpoint();
		for (size_t k = 0; k < i; k++)
		{
			if (strcmp(schema->list_map_keys[k], schema->list_map_keys[i]) == 0)
			{
				rule_error(rules, FIELD_INVALID, path, "x-kubernetes-list-map-keys", keys,
						   "must not contain duplicate entries");
				break;
			}
		}
		if (property == NULL)
		{
			rule_error(rules, FIELD_INVALID, path, "x-kubernetes-list-map-keys", keys,
					   "entries must all be names of item properties");
			continue;
		}
		if (is_type(property->schema, "array") || is_type(property->schema, "object"))
			rule_error(rules, FIELD_INVALID, &at, "type", string_node(rules, item->type),
					   "must be a scalar type if parent array's x-kubernetes-list-type is map");
		if (!property->required && property->schema->default_value == NULL)
			rule_error(rules, FIELD_REQUIRED, &at, "default", NULL,
					   "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
					   "property");
		if (property->schema->nullable)
			rule_error(rules, FIELD_FORBIDDEN, &at, "nullable", NULL,
					   "this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
	}
}

static void
check_list_and_map_types(Rules *rules, const Schema *schema, const FieldPath *path)
{
	const Schema *item = schema->items;
	FieldPath	items = child_path(path, "items");
	SchemaListType list_type = schema_list_type(schema);

	if (schema->map_type != NULL && !is_type(schema, "object"))
		rule_error(rules, schema->type == NULL ? FIELD_REQUIRED : FIELD_INVALID, path, "type",
				   string_node(rules, schema->type), "must be object if x-kubernetes-map-type is specified");
	if (schema->list_type != NULL && !is_type(schema, "array"))
		rule_error(rules, schema->type == NULL ? FIELD_REQUIRED : FIELD_INVALID, path, "type",
				   string_node(rules, schema->type), "must be array if x-kubernetes-list-type is specified");
	else if (list_type == SCHEMA_LIST_SET && item != NULL)
	{
		const char *detail = "must be atomic as item of a list with x-kubernetes-list-type=set";

		if (is_type(item, "array") && schema_list_type(item) != SCHEMA_LIST_ATOMIC)
			rule_error(rules, FIELD_INVALID, &items, "x-kubernetes-list-type",
					   string_node(rules, item->list_type), detail);
		if (is_type(item, "object") && !schema_map_is_atomic(item))
			rule_error(rules, FIELD_INVALID, &items, "x-kubernetes-map-type",
					   string_node(rules, item->list_type), detail);
	}

	if (schema->list_map_key_count > 0 && list_type != SCHEMA_LIST_MAP)
		rule_error(rules, schema->list_type == NULL ? FIELD_REQUIRED : FIELD_INVALID, path, "x-kubernetes-list-type",
				   string_node(rules, schema->list_type),
				   "must be map if x-kubernetes-list-map-keys is non-empty");
	if (list_type == SCHEMA_LIST_MAP)
		check_list_map_keys(rules, schema, path);
	if (list_type != SCHEMA_LIST_ATOMIC && item != NULL && item->nullable)
		rule_error(rules, FIELD_FORBIDDEN, &items, "nullable", NULL,
				   arena_printf(rules->arena, "cannot be nullable when x-kubernetes-list-type is %s",
								schema->list_type));
}

static void check_combinations(Rules *rules, const Schema *schema, bool is_root, bool inside_meta,
							   const char *no_defaults, const FieldPath *path);

static void
check_combinations_of_array(Rules *rules, const SchemaArray *array, bool inside_meta, const char *no_defaults,
							const FieldPath *path, const char *keyword)
{
	FieldPath	under = child_path(path, keyword);

	for (size_t i = 0; i < array->count; i++)
	{
		FieldPath	at = index_path(&under, i);

		check_combinations(rules, array->schemas[i], false, inside_meta, no_defaults, &at);
	}
}

/* Checks combinations of keywords.  no_defaults says why a default is forbidden here; NULL when it is allowed. */
static void
check_combinations(Rules *rules, const Schema *schema, bool is_root, bool inside_meta,
				   const char *no_defaults, const FieldPath *path)
{
	FieldPath	properties = child_path(path, "properties");

	arena_checkpoint();
	if (schema->default_value != NULL && no_defaults != NULL)
		rule_error(rules, FIELD_FORBIDDEN, path, "default", NULL,
				   arena_printf(rules->arena, "must not be set %s", no_defaults));
	if (inside_meta && schema->embedded)
		rule_error(rules, FIELD_FORBIDDEN, path, "x-kubernetes-embedded-resource", NULL,
				   "must not be used inside of resource meta");
	if (is_root && schema->nullable)
		rule_error(rules, FIELD_FORBIDDEN, path, "nullable", NULL, "nullable cannot be true at the root");
	if (schema->property_count > 0 &&
		(schema->additional == ADDITIONAL_FALSE || schema->additional == ADDITIONAL_SCHEMA))
		rule_error(rules, FIELD_FORBIDDEN, path, "additionalProperties", NULL,
				   "additionalProperties and properties are mutual exclusive");
	if (schema->additional_schema != NULL)
	{
		FieldPath	at = child_path(path, "additionalProperties");

		check_combinations(rules, schema->additional_schema, false, inside_meta,
						   inside_meta ? "inside additionalProperties applying to object metadata" : no_defaults, &at);
	}
	for (size_t i = 0; i < schema->property_count; i++)
	{
		JsonText	key = schema->properties[i].key;
		FieldPath	at = key_path(&properties, key);
		bool		is_meta = (is_root || schema->embedded) && schema_is_meta_key(key);
		const char *reason = no_defaults;

		if (is_root && is_meta)
			reason = arena_printf(rules->arena, "in top-level %.*s", (int) key.len, key.bytes);
		check_combinations(rules, schema->properties[i].schema, false, inside_meta || is_meta, reason, &at);
	}
	if (schema->not_schema != NULL)
	{
		FieldPath	at = child_path(path, "not");

		check_combinations(rules, schema->not_schema, false, inside_meta, no_defaults, &at);
	}
	check_combinations_of_array(rules, &schema->all_of, inside_meta, no_defaults, path, "allOf");
	check_combinations_of_array(rules, &schema->one_of, inside_meta, no_defaults, path, "oneOf");
	check_combinations_of_array(rules, &schema->any_of, inside_meta, no_defaults, path, "anyOf");
	if (schema->items != NULL)
	{
		FieldPath	at = child_path(path, "items");

		check_combinations(rules, schema->items, false, inside_meta, no_defaults, &at);
	}
	check_list_and_map_types(rules, schema, path);
}

/* Sorts errors by their printed text, as upstream. */
static int
compare_errors(const void *a, const void *b)
{
	const FieldError *x = a;
	const FieldError *y = b;
	const char *p = x->field;
	const char *q = y->field;

	/* The printed text is field, colon, message: where the shorter field ends, a colon follows. */
	while (*p != '\0' && *p == *q)
	{
		p++;
		q++;
	}
	if (*p != *q)
		return (*p == '\0' ? ':' : (unsigned char) *p) - (*q == '\0' ? ':' : (unsigned char) *q);
	return strcmp(x->message, y->message);
}

void
schema_check_structure(Arena *arena, const Schema *schema, const FieldPath *path, bool with_defaults,
					   FieldErrorList *errors)
{
	Rules		rules = {arena, errors};
	size_t		before = errors->count;

	check_invariants(&rules, schema, LEVEL_ROOT, path);
	check_value_completeness(&rules, schema, schema, path, path);
	if (errors->count > before)
		qsort(errors->errors + before, errors->count - before, sizeof(FieldError), compare_errors);
	else if (with_defaults)
		check_defaults(&rules, schema, true, false, path);
	check_combinations(&rules, schema, true, false, NULL, path);
}
