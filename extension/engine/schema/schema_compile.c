/*-------------------------------------------------------------------------
 *
 * schema_compile.c
 *	  Compiles openAPIV3Schema into a structural schema.
 *
 * Every member of a schema is a keyword of the table below, which says how to
 * read the keyword or that it is refused.  A member that is not in the table
 * is refused as well, so that no part of a schema is silently ignored.  As in
 * Go's decoder, a keyword with the value null counts as absent.
 *
 * schema_structural.c has the rules about more than one keyword.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/schema_private.h"

typedef struct Compiler
{
	Arena	   *arena;
	FieldErrorList *errors;
	bool		malformed;		/* some keyword's value has the wrong kind */
} Compiler;

typedef void (*KeywordReader) (Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path);

typedef struct Keyword
{
	const char *name;
	KeywordReader read;
} Keyword;

static Schema *read_schema(Compiler *compiler, const JsonNode *node, const FieldPath *path);
static void finish_schema(Compiler *compiler, Schema *schema, const FieldPath *path);

static bool
expect_kind(Compiler *compiler, const JsonNode *value, JsonKind kind, const FieldPath *path, const char *detail)
{
	if (value->kind == kind)
		return true;
	compiler->malformed = true;
	field_error(compiler->errors, FIELD_INVALID, path, value, detail);
	return false;
}

static bool
read_bool(Compiler *compiler, const JsonNode *value, const FieldPath *path)
{
	return expect_kind(compiler, value, JSON_KIND_BOOL, path, "must be a boolean") && value->u.boolean;
}

/* NULL for the empty string, which counts as absent. */
static const char *
read_string(Compiler *compiler, const JsonNode *value, const FieldPath *path)
{
	if (!expect_kind(compiler, value, JSON_KIND_STRING, path, "must be a string") || value->u.string.len == 0)
		return NULL;
	return arena_strndup(compiler->arena, value->u.string.bytes, value->u.string.len);
}

static void
read_count(Compiler *compiler, const JsonNode *value, const FieldPath *path, SchemaCount *count)
{
	if (!expect_kind(compiler, value, JSON_KIND_INTEGER, path, "must be an integer"))
		return;
	count->set = true;
	count->value = value->u.integer;
}

static void
read_bound(Compiler *compiler, const JsonNode *value, const FieldPath *path, SchemaBound *bound)
{
	if (value->kind == JSON_KIND_INTEGER)
		bound->value = (double) value->u.integer;
	else if (expect_kind(compiler, value, JSON_KIND_NUMBER, path, "must be a number"))
		bound->value = value->u.number;
	else
		return;
	bound->set = true;
}

static void
read_schemas(Compiler *compiler, const JsonNode *value, const FieldPath *path, SchemaArray *array)
{
	if (!expect_kind(compiler, value, JSON_KIND_ARRAY, path, "must be an array of schemas"))
		return;
	array->schemas = arena_alloc(compiler->arena, (value->u.array.count + 1) * sizeof(Schema *));
	for (size_t i = 0; i < value->u.array.count; i++)
	{
		FieldPath	at = {path, {NULL, 0}, (int64_t) i, false};

		array->schemas[array->count++] = read_schema(compiler, value->u.array.items[i], &at);
	}
}

static bool
are_strings(Compiler *compiler, const JsonNode *value, const FieldPath *path)
{
	bool		all = true;

	if (!expect_kind(compiler, value, JSON_KIND_ARRAY, path, "must be an array of strings"))
		return false;
	for (size_t i = 0; i < value->u.array.count; i++)
	{
		FieldPath	at = {path, {NULL, 0}, (int64_t) i, false};

		all = expect_kind(compiler, value->u.array.items[i], JSON_KIND_STRING, &at, "must be a string") && all;
	}
	return all;
}

/* Adds upstream's error for a keyword that it refuses in a CRD. */
static void
refuse_keyword(Compiler *compiler, const FieldPath *path)
{
	field_error(compiler->errors, FIELD_FORBIDDEN, path, NULL,
				arena_printf(compiler->arena, "%.*s is not supported", (int) path->key.len, path->key.bytes));
}

static void
read_unsupported(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	refuse_keyword(compiler, path);
}

/* Refuses the keyword unless its value is an empty string, array or object, which has no effect. */
static void
read_unsupported_unless_empty(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if ((value->kind == JSON_KIND_STRING && value->u.string.len == 0) ||
		(value->kind == JSON_KIND_ARRAY && value->u.array.count == 0) ||
		(value->kind == JSON_KIND_OBJECT && value->u.object.count == 0))
		return;
	refuse_keyword(compiler, path);
}

/* Documentation stays in the definition document for OpenAPI; the compiled schema does not need it. */
static void
read_text(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	expect_kind(compiler, value, JSON_KIND_STRING, path, "must be a string");
}

static void
read_external_docs(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	expect_kind(compiler, value, JSON_KIND_OBJECT, path, "must be an object");
}

static void
read_example(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
}

static void
read_type(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	static const struct
	{
		const char *name;
		uint8_t		bit;
	}			types[] = {
		{"array", SCHEMA_ARRAY}, {"boolean", SCHEMA_BOOLEAN}, {"integer", SCHEMA_INTEGER},
		{"number", SCHEMA_NUMBER}, {"object", SCHEMA_OBJECT}, {"string", SCHEMA_STRING},
	};

	schema->type = read_string(compiler, value, path);
	if (schema->type == NULL)
		return;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
	{
		if (json_string_is(value, types[i].name))
		{
			schema->types = types[i].bit;
			return;
		}
	}
	field_error(compiler->errors, FIELD_NOT_SUPPORTED, path, value,
				"supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"");
	if (json_string_is(value, "null"))
		field_error(compiler->errors, FIELD_FORBIDDEN, path, NULL,
					"type cannot be set to null, use nullable as an alternative");
}

static void
read_format(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	schema->format = read_string(compiler, value, path);
}

static void
read_default(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	schema->default_value = value;
}

static void
read_minimum(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_bound(compiler, value, path, &schema->minimum);
}

static void
read_maximum(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_bound(compiler, value, path, &schema->maximum);
}

static void
read_exclusive_minimum(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	schema->minimum.exclusive = read_bool(compiler, value, path);
}

static void
read_exclusive_maximum(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	schema->maximum.exclusive = read_bool(compiler, value, path);
}

static void
read_multiple_of(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_bound(compiler, value, path, &schema->multiple_of);
}

static void
read_min_length(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_count(compiler, value, path, &schema->min_length);
}

static void
read_max_length(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_count(compiler, value, path, &schema->max_length);
}

static void
read_min_items(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_count(compiler, value, path, &schema->min_items);
}

static void
read_max_items(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_count(compiler, value, path, &schema->max_items);
}

static void
read_min_properties(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_count(compiler, value, path, &schema->min_properties);
}

static void
read_max_properties(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_count(compiler, value, path, &schema->max_properties);
}

static void
read_pattern(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	const char *error;

	schema->pattern = read_string(compiler, value, path);
	if (schema->pattern == NULL)
		return;
	schema->regex = regex_compile(compiler->arena, value->u.string, &error);
	if (schema->regex == NULL)
		field_error(compiler->errors, FIELD_INVALID, path, value,
					arena_printf(compiler->arena, "must be a valid regular expression, but isn't: %s", error));
}

static void
read_unique_items(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (read_bool(compiler, value, path))
		field_error(compiler->errors, FIELD_FORBIDDEN, path, NULL,
					"uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
}

static void
read_enum(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	StrBuf		detail;

	if (!expect_kind(compiler, value, JSON_KIND_ARRAY, path, "must be an array"))
		return;
	schema->enum_values = value->u.array.items;
	schema->enum_count = value->u.array.count;

	strbuf_init(&detail, compiler->arena);
	strbuf_puts(&detail, "supported values: ");
	for (size_t i = 0; i < schema->enum_count; i++)
	{
		const JsonNode *allowed = schema->enum_values[i];

		if (i > 0)
			strbuf_puts(&detail, ", ");
		if (allowed->kind == JSON_KIND_STRING)
			quote_text(&detail, allowed->u.string.bytes, allowed->u.string.len);
		else
		{
			StrBuf		text;

			strbuf_init(&text, compiler->arena);
			json_write(&text, allowed);
			quote_text(&detail, text.bytes, text.len);
		}
	}
	schema->enum_detail = detail.bytes;
}

static void
read_required(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (!are_strings(compiler, value, path))
		return;
	schema->required = arena_alloc(compiler->arena, (value->u.array.count + 1) * sizeof(JsonText));
	for (size_t i = 0; i < value->u.array.count; i++)
		schema->required[schema->required_count++] = value->u.array.items[i]->u.string;
}

static void
read_items(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (value->kind == JSON_KIND_ARRAY)
	{
		compiler->malformed = true;
		field_error(compiler->errors, FIELD_FORBIDDEN, path, NULL, "items must be a schema object and not an array");
	}
	else
		schema->items = read_schema(compiler, value, path);
}

static void
read_all_of(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_schemas(compiler, value, path, &schema->all_of);
}

static void
read_any_of(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_schemas(compiler, value, path, &schema->any_of);
}

static void
read_one_of(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	read_schemas(compiler, value, path, &schema->one_of);
}

static void
read_not(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	schema->not_schema = read_schema(compiler, value, path);
}

static void
read_properties(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (!expect_kind(compiler, value, JSON_KIND_OBJECT, path, "must be an object"))
		return;
	schema->properties = arena_alloc0(compiler->arena, (value->u.object.count + 1) * sizeof(SchemaProperty));
	for (size_t i = 0; i < value->u.object.count; i++)
	{
		const JsonMember *member = &value->u.object.members[i];
		FieldPath	at = {path, member->key, -1, true};
		SchemaProperty *property = &schema->properties[schema->property_count++];

		property->key = member->key;
		property->schema = read_schema(compiler, member->value, &at);
	}
}

static void
read_additional_properties(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (value->kind == JSON_KIND_BOOL)
		schema->additional = value->u.boolean ? ADDITIONAL_TRUE : ADDITIONAL_FALSE;
	else if (expect_kind(compiler, value, JSON_KIND_OBJECT, path, "must be a boolean or a schema"))
	{
		schema->additional = ADDITIONAL_SCHEMA;
		schema->additional_schema = read_schema(compiler, value, path);
	}
}

static void
read_nullable(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	schema->nullable = read_bool(compiler, value, path);
}

static void
read_preserve_unknown(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (!expect_kind(compiler, value, JSON_KIND_BOOL, path, "must be a boolean"))
		return;
	schema->preserve_unknown = value->u.boolean;
	if (!value->u.boolean)
		field_error(compiler->errors, FIELD_INVALID, path, value, "must be true or undefined");
}

static void
read_embedded(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	schema->embedded = read_bool(compiler, value, path);
}

static void
read_int_or_string(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	schema->int_or_string = read_bool(compiler, value, path);
}

static void
read_list_type(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (!expect_kind(compiler, value, JSON_KIND_STRING, path, "must be a string"))
		return;
	schema->list_type = arena_strndup(compiler->arena, value->u.string.bytes, value->u.string.len);
	if (strcmp(schema->list_type, "atomic") != 0 && strcmp(schema->list_type, "set") != 0 &&
		strcmp(schema->list_type, "map") != 0)
		field_error(compiler->errors, FIELD_NOT_SUPPORTED, path, value,
					"supported values: \"atomic\", \"set\", \"map\"");
}

static void
read_map_type(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (!expect_kind(compiler, value, JSON_KIND_STRING, path, "must be a string"))
		return;
	schema->map_type = arena_strndup(compiler->arena, value->u.string.bytes, value->u.string.len);
	if (strcmp(schema->map_type, "atomic") != 0 && strcmp(schema->map_type, "granular") != 0)
		field_error(compiler->errors, FIELD_NOT_SUPPORTED, path, value,
					"supported values: \"atomic\", \"granular\"");
}

static void
read_list_map_keys(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (!are_strings(compiler, value, path))
		return;
	schema->list_map_keys = arena_alloc(compiler->arena, (value->u.array.count + 1) * sizeof(char *));
	for (size_t i = 0; i < value->u.array.count; i++)
	{
		JsonText	key = value->u.array.items[i]->u.string;

		schema->list_map_keys[schema->list_map_key_count++] = arena_strndup(compiler->arena, key.bytes, key.len);
	}
}

/* Checks only the form of CEL rules; schema_rules.c lists them for a warning. */
static void
read_validations(Compiler *compiler, Schema *schema, const JsonNode *value, const FieldPath *path)
{
	if (!expect_kind(compiler, value, JSON_KIND_ARRAY, path, "must be an array"))
		return;
	schema->has_rules = value->u.array.count > 0;
	for (size_t i = 0; i < value->u.array.count; i++)
	{
		const JsonNode *rule = json_get(value->u.array.items[i], "rule");
		FieldPath	at = {path, {NULL, 0}, (int64_t) i, false};
		FieldPath	rule_path = {&at, {"rule", 4}, -1, false};

		if (value->u.array.items[i]->kind != JSON_KIND_OBJECT)
			field_error(compiler->errors, FIELD_INVALID, &at, value->u.array.items[i], "must be an object");
		else if (rule == NULL || rule->kind == JSON_KIND_NULL || (rule->kind == JSON_KIND_STRING &&
																  rule->u.string.len == 0))
			field_error(compiler->errors, FIELD_REQUIRED, &rule_path, NULL, NULL);
		else
			expect_kind(compiler, rule, JSON_KIND_STRING, &rule_path, "must be a string");
	}
}

/* All keywords of JSONSchemaProps of apiextensions.k8s.io/v1. */
static const Keyword keywords[] = {
	{"$ref", read_unsupported},
	{"$schema", read_unsupported_unless_empty},
	{"additionalItems", read_unsupported},
	{"additionalProperties", read_additional_properties},
	{"allOf", read_all_of},
	{"anyOf", read_any_of},
	{"default", read_default},
	{"definitions", read_unsupported_unless_empty},
	{"dependencies", read_unsupported},
	{"description", read_text},
	{"enum", read_enum},
	{"example", read_example},
	{"exclusiveMaximum", read_exclusive_maximum},
	{"exclusiveMinimum", read_exclusive_minimum},
	{"externalDocs", read_external_docs},
	{"format", read_format},
	{"id", read_unsupported_unless_empty},
	{"items", read_items},
	{"maxItems", read_max_items},
	{"maxLength", read_max_length},
	{"maxProperties", read_max_properties},
	{"maximum", read_maximum},
	{"minItems", read_min_items},
	{"minLength", read_min_length},
	{"minProperties", read_min_properties},
	{"minimum", read_minimum},
	{"multipleOf", read_multiple_of},
	{"not", read_not},
	{"nullable", read_nullable},
	{"oneOf", read_one_of},
	{"pattern", read_pattern},
	{"patternProperties", read_unsupported_unless_empty},
	{"properties", read_properties},
	{"required", read_required},
	{"title", read_text},
	{"type", read_type},
	{"uniqueItems", read_unique_items},
	{"x-kubernetes-embedded-resource", read_embedded},
	{"x-kubernetes-int-or-string", read_int_or_string},
	{"x-kubernetes-list-map-keys", read_list_map_keys},
	{"x-kubernetes-list-type", read_list_type},
	{"x-kubernetes-map-type", read_map_type},
	{"x-kubernetes-preserve-unknown-fields", read_preserve_unknown},
	{"x-kubernetes-validations", read_validations},
};

static const Keyword *
find_keyword(JsonText name)
{
	for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
	{
		if (json_text_is(name, keywords[i].name))
			return &keywords[i];
	}
	return NULL;
}

/* Never NULL: a schema that cannot be read gives an error and an empty schema. */
static Schema *
read_schema(Compiler *compiler, const JsonNode *node, const FieldPath *path)
{
	Schema	   *schema = arena_alloc0(compiler->arena, sizeof(Schema));

	arena_checkpoint();
	schema->node = node;
	if (!expect_kind(compiler, node, JSON_KIND_OBJECT, path, "must be a schema"))
		return schema;
	for (size_t i = 0; i < node->u.object.count; i++)
	{
		const JsonMember *member = &node->u.object.members[i];
		FieldPath	at = {path, member->key, -1, false};
		const Keyword *keyword = find_keyword(member->key);

		if (member->value->kind == JSON_KIND_NULL)
			continue;
		if (keyword == NULL)
			field_error(compiler->errors, FIELD_FORBIDDEN, &at, NULL, "unknown keyword");
		else
			keyword->read(compiler, schema, member->value, &at);
	}
	finish_schema(compiler, schema, path);
	return schema;
}

/*
 * The type decides which formats are checked: formats of strings for strings and for a schema without a type, formats
 * of numbers for numbers.  Any other format is ignored.
 */
static void
finish_format(Compiler *compiler, Schema *schema)
{
	const char *name = schema->format;
	JsonText	text;

	if (name == NULL)
		return;
	text.bytes = name;
	text.len = strlen(name);
	schema->format = NULL;
	if (schema->int_or_string || schema->types == 0 || schema->types == SCHEMA_STRING)
	{
		const char *error;

		schema->string_format = string_format(text);
		if (schema->string_format == NULL)
			return;
		if (schema->string_format->pattern != NULL)
		{
			JsonText	pattern = {schema->string_format->pattern, strlen(schema->string_format->pattern)};

			schema->format_regex = regex_compile(compiler->arena, pattern, &error);
		}
	}
	else if (schema->types == SCHEMA_INTEGER && strcmp(name, "int32") == 0)
		schema->number_format = NUMBER_FORMAT_INT32;
	else if (schema->types == SCHEMA_INTEGER && strcmp(name, "int64") == 0)
		schema->number_format = NUMBER_FORMAT_INT64;
	else if (schema->types == SCHEMA_NUMBER && strcmp(name, "float") == 0)
		schema->number_format = NUMBER_FORMAT_FLOAT;
	else if (schema->types == SCHEMA_NUMBER && strcmp(name, "double") == 0)
		schema->number_format = NUMBER_FORMAT_DOUBLE;
	else
		return;
	schema->format = name;
}

static void
inherit_flags(Schema *schema, const Schema *child)
{
	if (child == NULL)
		return;
	schema->has_defaults = schema->has_defaults || child->has_defaults || child->default_value != NULL;
	schema->has_list_rules = schema->has_list_rules || child->has_list_rules;
	schema->has_embedded = schema->has_embedded || child->has_embedded;
}

/* Sets the members of the schema that depend on more than one keyword. */
static void
finish_schema(Compiler *compiler, Schema *schema, const FieldPath *path)
{
	if (schema->int_or_string)
		schema->types = SCHEMA_INTEGER | SCHEMA_STRING;
	schema->type_words = schema->int_or_string ? "integer,string" : schema->type;
	finish_format(compiler, schema);

	for (size_t i = 0; i < schema->required_count; i++)
	{
		const SchemaProperty *found = schema_property(schema, schema->required[i]);

		if (found != NULL)
		{
			SchemaProperty *property = &schema->properties[found - schema->properties];

			schema->required_properties += !property->required;
			property->required = true;
		}
	}

	schema->type_only = schema->format == NULL && schema->enum_count == 0 && schema->regex == NULL &&
		!schema->minimum.set && !schema->maximum.set && !schema->multiple_of.set &&
		!schema->min_length.set && !schema->max_length.set &&
		schema->all_of.count == 0 && schema->any_of.count == 0 && schema->one_of.count == 0 &&
		schema->not_schema == NULL;

	schema->has_list_rules = schema->list_type != NULL && strcmp(schema->list_type, "atomic") != 0;
	schema->has_embedded = schema->embedded;
	for (size_t i = 0; i < schema->property_count; i++)
		inherit_flags(schema, schema->properties[i].schema);
	inherit_flags(schema, schema->additional_schema);
	inherit_flags(schema, schema->items);
}

Schema *
schema_compile(Arena *arena, const JsonNode *node, const char *path, FieldErrorList *errors)
{
	Compiler	compiler = {arena, errors, false};
	FieldPath	root = {NULL, {path, strlen(path)}, -1, false};
	size_t		before = errors->count;
	Schema	   *schema = read_schema(&compiler, node, &root);

	if (!compiler.malformed)
		schema_check_structure(arena, schema, &root, errors->count == before, errors);
	return errors->count == before ? schema : NULL;
}
