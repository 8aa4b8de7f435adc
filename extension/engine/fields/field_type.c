/*-------------------------------------------------------------------------
 *
 * field_type.c
 *	  How the parts of a document merge, as the field manager sees a schema.
 *
 * kube-apiserver derives these rules from the OpenAPI document that it makes
 * from a CustomResourceDefinition, with ObjectMeta added.  The rules depend
 * only on this document: a string with a format is any scalar, a list without
 * a list type is atomic, an object without properties may have any properties.
 * They do not depend on the validation of values.
 *
 * Reference: k8s-conformance MF-03, MF-04; kube-openapi's schemaconv,
 * structured-merge-diff's typed/helpers.go and typed/validate.go.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/fields/field_type.h"

#include "engine/base/go_float.h"
#include "engine/fields/field_element.h"
#include "engine/schema/schema_private.h"

/*
 * ObjectMeta: the part of its published schema that is needed here.
 */

static const Schema string_schema = {.type = "string", .types = SCHEMA_STRING};
static const Schema integer_schema = {.type = "integer", .types = SCHEMA_INTEGER};
static const Schema boolean_schema = {.type = "boolean", .types = SCHEMA_BOOLEAN};
static const Schema time_schema = {.type = "string", .types = SCHEMA_STRING, .format = "date-time"};
static const Schema object_schema = {.type = "object", .types = SCHEMA_OBJECT};

static const Schema string_map_schema = {
	.type = "object", .types = SCHEMA_OBJECT, .additional = ADDITIONAL_SCHEMA,
	.additional_schema = (Schema *) &string_schema
};

static const Schema finalizers_schema = {
	.type = "array", .types = SCHEMA_ARRAY, .items = (Schema *) &string_schema, .list_type = "set"
};

static const Schema managed_fields_schema = {
	.type = "array", .types = SCHEMA_ARRAY, .items = (Schema *) &object_schema, .list_type = "atomic"
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PROPERTY(name, type) {{name, sizeof(name) - 1}, (Schema *) &(type), false}

/* The published schema has this default: an owner reference without a uid has the empty uid as its key. */
static const JsonNode empty_text = {.kind = JSON_KIND_STRING, .u.string = {"", 0}};
static const Schema uid_schema = {
	.type = "string", .types = SCHEMA_STRING, .default_value = (JsonNode *) &empty_text
};

static const SchemaProperty owner_properties[] = {
	PROPERTY("apiVersion", string_schema),
	PROPERTY("blockOwnerDeletion", boolean_schema),
	PROPERTY("controller", boolean_schema),
	PROPERTY("kind", string_schema),
	PROPERTY("name", string_schema),
	PROPERTY("uid", uid_schema),
};

static const Schema owner_schema = {
	.type = "object", .types = SCHEMA_OBJECT, .map_type = "atomic",
	.properties = (SchemaProperty *) owner_properties, .property_count = COUNT(owner_properties)
};

static const char *const owner_keys[] = {"uid"};

static const Schema owners_schema = {
	.type = "array", .types = SCHEMA_ARRAY, .items = (Schema *) &owner_schema, .list_type = "map",
	.list_map_keys = (const char **) owner_keys, .list_map_key_count = 1
};

static const SchemaProperty object_meta_properties[] = {
	PROPERTY("annotations", string_map_schema),
	PROPERTY("creationTimestamp", time_schema),
	PROPERTY("deletionGracePeriodSeconds", integer_schema),
	PROPERTY("deletionTimestamp", time_schema),
	PROPERTY("finalizers", finalizers_schema),
	PROPERTY("generateName", string_schema),
	PROPERTY("generation", integer_schema),
	PROPERTY("labels", string_map_schema),
	PROPERTY("managedFields", managed_fields_schema),
	PROPERTY("name", string_schema),
	PROPERTY("namespace", string_schema),
	PROPERTY("ownerReferences", owners_schema),
	PROPERTY("resourceVersion", string_schema),
	PROPERTY("selfLink", string_schema),
	PROPERTY("uid", string_schema),
};

static const Schema object_meta_schema = {
	.type = "object", .types = SCHEMA_OBJECT,
	.properties = (SchemaProperty *) object_meta_properties, .property_count = COUNT(object_meta_properties)
};

/*
 * Types
 */

/* A schema without a type is any scalar; so is a string with a known or unknown format other than byte. */
static bool
is_any_scalar(const Schema *schema)
{
	const JsonNode *format = json_get(schema->node, "format");

	if (schema->type == NULL)
		return true;
	if (strcmp(schema->type, "string") != 0)
		return false;
	if (format == NULL || format->kind != JSON_KIND_STRING)
		return schema->format != NULL;
	return format->u.string.len > 0 && !json_string_is(format, "byte");
}

static const FieldType none = {FIELD_TYPE_NONE, NULL, false, false};
static const FieldType deduced = {FIELD_TYPE_DEDUCED, NULL, false, false};
static const FieldType untyped = {FIELD_TYPE_UNTYPED, NULL, false, false};

static FieldType
schema_type(const Schema *schema, bool root, bool open)
{
	return (FieldType) {FIELD_TYPE_SCHEMA, schema, root || schema->embedded, open || schema->preserve_unknown};
}

FieldType
field_type_of_object(const Schema *schema)
{
	return schema != NULL ? schema_type(schema, true, false) : deduced;
}

FieldType
field_member_type(FieldType type, JsonText key, bool *declared)
{
	const Schema *schema = type.schema;
	const SchemaProperty *property;

	*declared = false;
	if (type.kind != FIELD_TYPE_SCHEMA)
		return type;
	*declared = true;
	if (type.root && schema_is_meta_key(key))
		return schema_type(json_text_is(key, "metadata") ? &object_meta_schema : &string_schema, false, false);
	property = schema_property(schema, key);
	if (property != NULL)
		return schema_type(property->schema, false, type.open);
	*declared = false;
	switch (schema->additional)
	{
		case ADDITIONAL_SCHEMA:
			return schema_type(schema->additional_schema, false, type.open);
		case ADDITIONAL_TRUE:
			return deduced;
		case ADDITIONAL_FALSE:
			return none;
		case ADDITIONAL_ABSENT:
			break;
	}
	return type.open || (schema->property_count == 0 && !type.root) ? deduced : none;
}

FieldType
field_items_type(FieldType type)
{
	if (type.kind != FIELD_TYPE_SCHEMA)
		return type.kind == FIELD_TYPE_NONE ? none : untyped;
	return type.schema->items != NULL ? schema_type(type.schema->items, false, type.open) : untyped;
}

unsigned int
field_type_shapes(FieldType type)
{
	if (type.kind == FIELD_TYPE_NONE)
		return 0;
	if (type.kind != FIELD_TYPE_SCHEMA || type.schema->type == NULL)
		return SHAPE_MAP | SHAPE_SCALAR | SHAPE_LIST;
	if (strcmp(type.schema->type, "object") == 0)
		return SHAPE_MAP;
	return strcmp(type.schema->type, "array") == 0 ? SHAPE_LIST : SHAPE_SCALAR;
}

unsigned int
field_value_shapes(FieldType type, const JsonNode *value)
{
	unsigned int shapes = field_type_shapes(type);
	unsigned int shape;

	if (value == NULL || value->kind == JSON_KIND_NULL)
		return shapes;
	if (value->kind == JSON_KIND_OBJECT)
		shape = SHAPE_MAP;
	else
		shape = value->kind == JSON_KIND_ARRAY ? SHAPE_LIST : SHAPE_SCALAR;
	return (shapes & shape) != 0 ? shape : shapes;
}

unsigned int
field_main_shape(unsigned int shapes)
{
	if ((shapes & SHAPE_MAP) != 0)
		return SHAPE_MAP;
	return (shapes & SHAPE_SCALAR) != 0 ? SHAPE_SCALAR : shapes;
}

bool
field_map_is_atomic(FieldType type)
{
	return type.kind == FIELD_TYPE_UNTYPED || (type.kind == FIELD_TYPE_SCHEMA && schema_map_is_atomic(type.schema));
}

bool
field_list_is_atomic(FieldType type)
{
	return type.kind != FIELD_TYPE_SCHEMA || schema_list_type(type.schema) == SCHEMA_LIST_ATOMIC;
}

bool
field_map_is_deduced(FieldType type)
{
	const Schema *schema = type.schema;
	const Schema *values;

	if (type.kind != FIELD_TYPE_SCHEMA)
		return type.kind == FIELD_TYPE_DEDUCED;
	if (schema->property_count > 0 || type.root || schema->additional == ADDITIONAL_FALSE)
		return false;
	values = schema->additional_schema;
	if (schema->additional != ADDITIONAL_SCHEMA)
		return true;

	/* Upstream does not distinguish values of any scalar type from values without a type. */
	return values->type == NULL || is_any_scalar(values);
}

/*
 * Scalars
 */

/* Go's name for the type of a decoded value. */
static const char *
go_type(const JsonNode *value)
{
	switch (value->kind)
	{
		case JSON_KIND_BOOL:
			return "bool";
		case JSON_KIND_INTEGER:
			return "int64";
		case JSON_KIND_NUMBER:
			return "float64";
		case JSON_KIND_STRING:
			return "string";
		case JSON_KIND_ARRAY:
			return "[]interface {}";
		case JSON_KIND_OBJECT:
			return "map[string]interface {}";
		case JSON_KIND_NULL:
			break;
	}
	return "<nil>";
}

/* Appends a value as Go's %v prints it, or with sharp as %#v does. */
static void
go_value(StrBuf *buf, const JsonNode *value, bool sharp)
{
	switch (value->kind)
	{
		case JSON_KIND_NULL:
			strbuf_puts(buf, sharp ? "interface {}(nil)" : "<nil>");
			break;
		case JSON_KIND_BOOL:
		case JSON_KIND_INTEGER:
			json_write(buf, value);
			break;
		case JSON_KIND_NUMBER:
			go_float_text(buf, value->u.number);
			break;
		case JSON_KIND_STRING:
			if (sharp)
				quote_text(buf, value->u.string.bytes, value->u.string.len);
			else
				strbuf_append(buf, value->u.string.bytes, value->u.string.len);
			break;
		case JSON_KIND_ARRAY:
			arena_checkpoint();
			strbuf_puts(buf, sharp ? "[]interface {}{" : "[");
			for (size_t i = 0; i < value->u.array.count; i++)
			{
				if (i > 0)
					strbuf_puts(buf, sharp ? ", " : " ");
				go_value(buf, value->u.array.items[i], sharp);
			}
			strbuf_putc(buf, sharp ? '}' : ']');
			break;
		case JSON_KIND_OBJECT:
			arena_checkpoint();
			strbuf_puts(buf, sharp ? "map[string]interface {}{" : "map[");
			for (size_t i = 0; i < value->u.object.count; i++)
			{
				const JsonMember *member = &value->u.object.members[i];

				if (i > 0)
					strbuf_puts(buf, sharp ? ", " : " ");
				if (sharp)
					quote_text(buf, member->key.bytes, member->key.len);
				else
					strbuf_append(buf, member->key.bytes, member->key.len);
				strbuf_putc(buf, ':');
				go_value(buf, member->value, sharp);
			}
			strbuf_putc(buf, sharp ? '}' : ']');
			break;
	}
}

const char *
field_go_value(Arena *arena, const JsonNode *value)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	strbuf_puts(&buf, "&{");
	go_value(&buf, value, false);
	strbuf_putc(&buf, '}');
	return buf.bytes;
}

const char *
field_scalar_error(Arena *arena, FieldType type, const JsonNode *value, const char *prefix)
{
	bool		is_number;
	StrBuf		buf;

	if (value == NULL || value->kind == JSON_KIND_NULL)
		return NULL;
	is_number = value->kind == JSON_KIND_INTEGER || value->kind == JSON_KIND_NUMBER;
	if (type.kind != FIELD_TYPE_SCHEMA || is_any_scalar(type.schema))
		return value->kind == JSON_KIND_ARRAY || value->kind == JSON_KIND_OBJECT ?
			arena_printf(arena, "%sexpected any scalar, got %s", prefix, field_go_value(arena, value)) : NULL;
	if (strcmp(type.schema->type, "string") == 0)
	{
		if (value->kind == JSON_KIND_STRING)
			return NULL;
		strbuf_init(&buf, arena);
		strbuf_printf(&buf, "%sexpected string, got &value.valueUnstructured{Value:", prefix);
		go_value(&buf, value, true);
		strbuf_putc(&buf, '}');
		return buf.bytes;
	}
	if (strcmp(type.schema->type, "boolean") == 0)
		return value->kind == JSON_KIND_BOOL ? NULL :
			arena_printf(arena, "%sexpected boolean, got %s", prefix, field_go_value(arena, value));
	return is_number ? NULL :
		arena_printf(arena, "%sexpected numeric (int or float), got %s", prefix, go_type(value));
}

/*
 * Items
 */

static bool
keys_element(Arena *arena, const Schema *list, const JsonNode *item, JsonText *element, const char **error)
{
	JsonNode   *keys = json_new_object(arena);
	StrBuf		buf;

	if (item->kind == JSON_KIND_NULL)
	{
		*error = "associative list with keys may not have a null element";
		return false;
	}
	if (item->kind != JSON_KIND_OBJECT)
	{
		*error = "associative list with keys may not have non-map elements";
		return false;
	}
	for (size_t i = 0; i < list->list_map_key_count; i++)
	{
		JsonText	key = {list->list_map_keys[i], strlen(list->list_map_keys[i])};
		JsonNode   *value = json_get_text(item, key);
		const SchemaProperty *property = list->items != NULL ? schema_property(list->items, key) : NULL;

		/* Items with and without a key are different items, unless the key has a default. */
		if (value == NULL && property != NULL && property->schema->default_value != NULL)
			value = (JsonNode *) property->schema->default_value;
		if (value != NULL)
			json_set_text(arena, keys, key, value);
	}
	if (keys->u.object.count > 0)
	{
		*element = field_keys_element(arena, keys);
		return true;
	}
	strbuf_init(&buf, arena);
	strbuf_puts(&buf, "associative list with keys has an element that omits all key fields [");
	for (size_t i = 0; i < list->list_map_key_count; i++)
	{
		if (i > 0)
			strbuf_putc(&buf, ' ');
		quote_text(&buf, list->list_map_keys[i], strlen(list->list_map_keys[i]));
	}
	strbuf_puts(&buf, "] (and doesn't have default values for any key fields)");
	*error = buf.bytes;
	return false;
}

bool
field_item_element(Arena *arena, FieldType list, const JsonNode *item, JsonText *element, const char **error)
{
	if (schema_list_type(list.schema) == SCHEMA_LIST_MAP)
		return keys_element(arena, list.schema, item, element, error);
	switch (item->kind)
	{
		case JSON_KIND_OBJECT:
			*error = "associative list without keys has an element that's a map type";
			return false;
		case JSON_KIND_ARRAY:
			*error = "not supported: associative list with lists as elements";
			return false;
		case JSON_KIND_NULL:
			*error = "associative list without keys has an element that's an explicit null";
			return false;
		default:
			*element = field_value_element(arena, item);
			return true;
	}
}
