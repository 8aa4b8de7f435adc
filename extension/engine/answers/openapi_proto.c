/*-------------------------------------------------------------------------
 *
 * openapi_proto.c
 *	  A Swagger 2 document as the protobuf message openapi.v2.Document.
 *
 * OpenAPIv2.proto of google/gnostic-models defines the message; the numbers
 * below are its field numbers.  This file covers only what openapi_v2.c
 * writes: no security, headers, examples of answers, XML or form data.
 *
 * Values of any type (vendor extensions, defaults, enums) are YAML text; JSON
 * is valid YAML.  As in every proto3 message, a field with its default value
 * (0, false, "") is not written.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/answers/openapi.h"

#include <string.h>

typedef enum WireType
{
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2
} WireType;

typedef enum FieldShape
{
	SHAPE_STRING,
	SHAPE_STRINGS,				/* repeated string; a single string is a list of one */
	SHAPE_BOOL,
	SHAPE_INTEGER,				/* int64 */
	SHAPE_DOUBLE,
	SHAPE_ANY,					/* Any */
	SHAPE_ANYS,
	SHAPE_MESSAGE,				/* put() writes the message's fields */
	SHAPE_MESSAGES
} FieldShape;

typedef void (*PutMessage) (StrBuf *out, const JsonNode *node);

typedef struct FieldRule
{
	const char *key;
	unsigned	number;
	FieldShape	shape;
	PutMessage	put;
} FieldRule;

/* Field numbers of Any and of all Named messages. */
#define ANY_YAML 2
#define NAMED_NAME 1
#define NAMED_VALUE 2

static void put_schema(StrBuf *out, const JsonNode *node);

static void
put_varint(StrBuf *out, uint64_t value)
{
	while (value >= 0x80)
	{
		strbuf_putc(out, (char) (value | 0x80));
		value >>= 7;
	}
	strbuf_putc(out, (char) value);
}

static void
put_tag(StrBuf *out, unsigned number, WireType type)
{
	put_varint(out, (uint64_t) number << 3 | type);
}

static void
put_bytes(StrBuf *out, unsigned number, const char *bytes, size_t len)
{
	put_tag(out, number, WIRE_BYTES);
	put_varint(out, len);
	if (len > 0)
		strbuf_append(out, bytes, len);
}

static void
put_string(StrBuf *out, unsigned number, const JsonNode *node)
{
	if (node->kind == JSON_KIND_STRING)
		put_bytes(out, number, node->u.string.bytes, node->u.string.len);
}

static void
put_double(StrBuf *out, unsigned number, double value)
{
	uint64_t	bits;

	memcpy(&bits, &value, sizeof(bits));
	put_tag(out, number, WIRE_FIXED64);
	for (int i = 0; i < 8; i++)
		strbuf_putc(out, (char) (bits >> (8 * i)));
}

static void
put_message(StrBuf *out, unsigned number, const JsonNode *node, PutMessage put)
{
	StrBuf		inner;

	arena_checkpoint();
	strbuf_init(&inner, out->arena);
	put(&inner, node);
	put_bytes(out, number, inner.bytes, inner.len);
}

static void
put_any(StrBuf *out, const JsonNode *node)
{
	StrBuf		yaml;

	strbuf_init(&yaml, out->arena);
	json_write(&yaml, node);
	put_bytes(out, ANY_YAML, yaml.bytes, yaml.len);
}

/* An entry of a map: a Named message. */
static void
put_named(StrBuf *out, unsigned number, const JsonMember *member, PutMessage put)
{
	StrBuf		inner;

	strbuf_init(&inner, out->arena);
	put_bytes(&inner, NAMED_NAME, member->key.bytes, member->key.len);
	put_message(&inner, NAMED_VALUE, member->value, put);
	put_bytes(out, number, inner.bytes, inner.len);
}

static bool
is_extension(JsonText key)
{
	return key.len >= 2 && memcmp(key.bytes, "x-", 2) == 0;
}

static void
put_field(StrBuf *out, const FieldRule *rule, const JsonNode *value)
{
	size_t		count = value->kind == JSON_KIND_ARRAY ? value->u.array.count : 0;
	JsonNode  **items = value->kind == JSON_KIND_ARRAY ? value->u.array.items : NULL;

	switch (rule->shape)
	{
		case SHAPE_STRING:
			if (value->kind == JSON_KIND_STRING && value->u.string.len > 0)
				put_string(out, rule->number, value);
			break;
		case SHAPE_STRINGS:
			put_string(out, rule->number, value);
			for (size_t i = 0; i < count; i++)
				put_string(out, rule->number, items[i]);
			break;
		case SHAPE_BOOL:
			if (value->kind == JSON_KIND_BOOL && value->u.boolean)
			{
				put_tag(out, rule->number, WIRE_VARINT);
				put_varint(out, 1);
			}
			break;
		case SHAPE_INTEGER:
			if (value->kind == JSON_KIND_INTEGER && value->u.integer != 0)
			{
				put_tag(out, rule->number, WIRE_VARINT);
				put_varint(out, (uint64_t) value->u.integer);
			}
			break;
		case SHAPE_DOUBLE:
			if (value->kind == JSON_KIND_INTEGER && value->u.integer != 0)
				put_double(out, rule->number, (double) value->u.integer);
			else if (value->kind == JSON_KIND_NUMBER && value->u.number != 0)
				put_double(out, rule->number, value->u.number);
			break;
		case SHAPE_ANY:
			put_message(out, rule->number, value, put_any);
			break;
		case SHAPE_ANYS:
			for (size_t i = 0; i < count; i++)
				put_message(out, rule->number, items[i], put_any);
			break;
		case SHAPE_MESSAGE:
			put_message(out, rule->number, value, rule->put);
			break;
		case SHAPE_MESSAGES:
			for (size_t i = 0; i < count; i++)
				put_message(out, rule->number, items[i], rule->put);
			break;
	}
}

/* Writes the fields of a message in the order of the rules, then its vendor extensions (extension 0: none). */
static void
put_fields(StrBuf *out, const JsonNode *node, const FieldRule *rules, size_t count, unsigned extension)
{
	if (node->kind != JSON_KIND_OBJECT)
		return;
	for (size_t i = 0; i < count; i++)
	{
		const JsonNode *value = json_get(node, rules[i].key);

		if (value != NULL)
			put_field(out, &rules[i], value);
	}
	for (size_t i = 0; extension != 0 && i < node->u.object.count; i++)
	{
		if (is_extension(node->u.object.members[i].key))
			put_named(out, extension, &node->u.object.members[i], put_any);
	}
}

#define PUT_FIELDS(out, node, rules, extension) \
	put_fields(out, node, rules, sizeof(rules) / sizeof((rules)[0]), extension)

static void
put_external_docs(StrBuf *out, const JsonNode *node)
{
	static const FieldRule rules[] = {
		{"description", 1, SHAPE_STRING, NULL},
		{"url", 2, SHAPE_STRING, NULL},
	};

	PUT_FIELDS(out, node, rules, 3);
}

static void
put_type_item(StrBuf *out, const JsonNode *node)
{
	static const FieldRule value = {"value", 1, SHAPE_STRINGS, NULL};

	put_field(out, &value, node);
}

static void
put_items_item(StrBuf *out, const JsonNode *node)
{
	put_message(out, 1, node, put_schema);
}

static void
put_additional_properties(StrBuf *out, const JsonNode *node)
{
	if (node->kind == JSON_KIND_BOOL)
	{
		/* A member of a oneof is written even with its default value. */
		put_tag(out, 2, WIRE_VARINT);
		put_varint(out, node->u.boolean ? 1 : 0);
	}
	else
		put_message(out, 1, node, put_schema);
}

/* Properties and Definitions: maps of schemas. */
static void
put_schemas(StrBuf *out, const JsonNode *node)
{
	for (size_t i = 0; node->kind == JSON_KIND_OBJECT && i < node->u.object.count; i++)
		put_named(out, 1, &node->u.object.members[i], put_schema);
}

static void
put_schema(StrBuf *out, const JsonNode *node)
{
	static const FieldRule rules[] = {
		{"$ref", 1, SHAPE_STRING, NULL},
		{"format", 2, SHAPE_STRING, NULL},
		{"title", 3, SHAPE_STRING, NULL},
		{"description", 4, SHAPE_STRING, NULL},
		{"default", 5, SHAPE_ANY, NULL},
		{"multipleOf", 6, SHAPE_DOUBLE, NULL},
		{"maximum", 7, SHAPE_DOUBLE, NULL},
		{"exclusiveMaximum", 8, SHAPE_BOOL, NULL},
		{"minimum", 9, SHAPE_DOUBLE, NULL},
		{"exclusiveMinimum", 10, SHAPE_BOOL, NULL},
		{"maxLength", 11, SHAPE_INTEGER, NULL},
		{"minLength", 12, SHAPE_INTEGER, NULL},
		{"pattern", 13, SHAPE_STRING, NULL},
		{"maxItems", 14, SHAPE_INTEGER, NULL},
		{"minItems", 15, SHAPE_INTEGER, NULL},
		{"uniqueItems", 16, SHAPE_BOOL, NULL},
		{"maxProperties", 17, SHAPE_INTEGER, NULL},
		{"minProperties", 18, SHAPE_INTEGER, NULL},
		{"required", 19, SHAPE_STRINGS, NULL},
		{"enum", 20, SHAPE_ANYS, NULL},
		{"additionalProperties", 21, SHAPE_MESSAGE, put_additional_properties},
		{"type", 22, SHAPE_MESSAGE, put_type_item},
		{"items", 23, SHAPE_MESSAGE, put_items_item},
		{"properties", 25, SHAPE_MESSAGE, put_schemas},
		{"discriminator", 26, SHAPE_STRING, NULL},
		{"readOnly", 27, SHAPE_BOOL, NULL},
		{"externalDocs", 29, SHAPE_MESSAGE, put_external_docs},
		{"example", 30, SHAPE_ANY, NULL},
	};

	PUT_FIELDS(out, node, rules, 31);
}

static void
put_body_parameter(StrBuf *out, const JsonNode *node)
{
	static const FieldRule rules[] = {
		{"description", 1, SHAPE_STRING, NULL},
		{"name", 2, SHAPE_STRING, NULL},
		{"in", 3, SHAPE_STRING, NULL},
		{"required", 4, SHAPE_BOOL, NULL},
		{"schema", 5, SHAPE_MESSAGE, put_schema},
	};

	PUT_FIELDS(out, node, rules, 6);
}

static void
put_query_parameter(StrBuf *out, const JsonNode *node)
{
	static const FieldRule rules[] = {
		{"required", 1, SHAPE_BOOL, NULL},
		{"in", 2, SHAPE_STRING, NULL},
		{"description", 3, SHAPE_STRING, NULL},
		{"name", 4, SHAPE_STRING, NULL},
		{"type", 6, SHAPE_STRING, NULL},
		{"uniqueItems", 20, SHAPE_BOOL, NULL},
	};

	PUT_FIELDS(out, node, rules, 23);
}

static void
put_path_parameter(StrBuf *out, const JsonNode *node)
{
	static const FieldRule rules[] = {
		{"required", 1, SHAPE_BOOL, NULL},
		{"in", 2, SHAPE_STRING, NULL},
		{"description", 3, SHAPE_STRING, NULL},
		{"name", 4, SHAPE_STRING, NULL},
		{"type", 5, SHAPE_STRING, NULL},
		{"uniqueItems", 19, SHAPE_BOOL, NULL},
	};

	PUT_FIELDS(out, node, rules, 22);
}

/* NonBodyParameter */
static void
put_simple_parameter(StrBuf *out, const JsonNode *node)
{
	if (json_string_is(json_get(node, "in"), "path"))
		put_message(out, 4, node, put_path_parameter);
	else
		put_message(out, 3, node, put_query_parameter);
}

static void
put_parameter(StrBuf *out, const JsonNode *node)
{
	if (json_string_is(json_get(node, "in"), "body"))
		put_message(out, 1, node, put_body_parameter);
	else
		put_message(out, 2, node, put_simple_parameter);
}

/* ParametersItem */
static void
put_parameters_item(StrBuf *out, const JsonNode *node)
{
	put_message(out, 1, node, put_parameter);
}

/* SchemaItem */
static void
put_schema_item(StrBuf *out, const JsonNode *node)
{
	put_message(out, 1, node, put_schema);
}

static void
put_response(StrBuf *out, const JsonNode *node)
{
	static const FieldRule rules[] = {
		{"description", 1, SHAPE_STRING, NULL},
		{"schema", 2, SHAPE_MESSAGE, put_schema_item},
	};

	PUT_FIELDS(out, node, rules, 5);
}

/* ResponseValue */
static void
put_response_value(StrBuf *out, const JsonNode *node)
{
	put_message(out, 1, node, put_response);
}

static void
put_responses(StrBuf *out, const JsonNode *node)
{
	for (size_t i = 0; node->kind == JSON_KIND_OBJECT && i < node->u.object.count; i++)
		put_named(out, 1, &node->u.object.members[i], put_response_value);
}

static void
put_operation(StrBuf *out, const JsonNode *node)
{
	static const FieldRule rules[] = {
		{"tags", 1, SHAPE_STRINGS, NULL},
		{"summary", 2, SHAPE_STRING, NULL},
		{"description", 3, SHAPE_STRING, NULL},
		{"operationId", 5, SHAPE_STRING, NULL},
		{"produces", 6, SHAPE_STRINGS, NULL},
		{"consumes", 7, SHAPE_STRINGS, NULL},
		{"parameters", 8, SHAPE_MESSAGES, put_parameters_item},
		{"responses", 9, SHAPE_MESSAGE, put_responses},
		{"schemes", 10, SHAPE_STRINGS, NULL},
		{"deprecated", 11, SHAPE_BOOL, NULL},
	};

	PUT_FIELDS(out, node, rules, 13);
}

static void
put_path_item(StrBuf *out, const JsonNode *node)
{
	static const FieldRule rules[] = {
		{"get", 2, SHAPE_MESSAGE, put_operation},
		{"put", 3, SHAPE_MESSAGE, put_operation},
		{"post", 4, SHAPE_MESSAGE, put_operation},
		{"delete", 5, SHAPE_MESSAGE, put_operation},
		{"patch", 8, SHAPE_MESSAGE, put_operation},
		{"parameters", 9, SHAPE_MESSAGES, put_parameters_item},
	};

	PUT_FIELDS(out, node, rules, 10);
}

static void
put_paths(StrBuf *out, const JsonNode *node)
{
	for (size_t i = 0; node->kind == JSON_KIND_OBJECT && i < node->u.object.count; i++)
		put_named(out, 2, &node->u.object.members[i], put_path_item);
}

static void
put_info(StrBuf *out, const JsonNode *node)
{
	static const FieldRule rules[] = {
		{"title", 1, SHAPE_STRING, NULL},
		{"version", 2, SHAPE_STRING, NULL},
		{"description", 3, SHAPE_STRING, NULL},
	};

	PUT_FIELDS(out, node, rules, 7);
}

void
openapi_v2_protobuf(StrBuf *buf, Arena *arena, const JsonNode *document)
{
	static const FieldRule rules[] = {
		{"swagger", 1, SHAPE_STRING, NULL},
		{"info", 2, SHAPE_MESSAGE, put_info},
		{"paths", 8, SHAPE_MESSAGE, put_paths},
		{"definitions", 9, SHAPE_MESSAGE, put_schemas},
	};

	PUT_FIELDS(buf, document, rules, 16);
}
