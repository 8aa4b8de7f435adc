/*-------------------------------------------------------------------------
 *
 * delete_proto.c
 *	  DeleteOptions in protobuf, as typed clients send them.
 *
 * The body is the four bytes k8s\0, then a runtime.Unknown that holds the
 * type and, as bytes, the message itself.  The reader builds the object that
 * the same options form in JSON.  Unknown fields are skipped, as protobuf
 * requires.
 *
 * Reference: k8s-conformance REQ-02; apimachinery's generated.proto of
 * pkg/runtime and pkg/apis/meta/v1.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/delete_proto.h"

#include <string.h>

/* How fields are encoded. */
typedef enum WireType
{
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2,
	WIRE_FIXED32 = 5
} WireType;

typedef struct Field
{
	uint64_t	number;
	WireType	type;
	uint64_t	value;			/* of a varint */
	JsonText	bytes;
} Field;

/* The fields of one message that are kept, and their names in JSON. */
typedef enum FieldKind
{
	FIELD_TEXT,
	FIELD_TEXTS,
	FIELD_FLAG,
	FIELD_COUNT,
	FIELD_PRECONDITIONS
} FieldKind;

typedef struct FieldName
{
	uint64_t	number;
	FieldKind	kind;
	const char *name;
} FieldName;

static const FieldName type_fields[] = {
	{1, FIELD_TEXT, "apiVersion"},
	{2, FIELD_TEXT, "kind"},
	{0, FIELD_TEXT, NULL},
};

static const FieldName precondition_fields[] = {
	{1, FIELD_TEXT, "uid"},
	{2, FIELD_TEXT, "resourceVersion"},
	{0, FIELD_TEXT, NULL},
};

static const FieldName option_fields[] = {
	{1, FIELD_COUNT, "gracePeriodSeconds"},
	{2, FIELD_PRECONDITIONS, "preconditions"},
	{3, FIELD_FLAG, "orphanDependents"},
	{4, FIELD_TEXT, "propagationPolicy"},
	{5, FIELD_TEXTS, "dryRun"},
	{6, FIELD_FLAG, "ignoreStoreReadErrorWithClusterBreakingPotential"},
	{0, FIELD_TEXT, NULL},
};

static bool
take_varint(JsonText *message, uint64_t *value)
{
	*value = 0;
	for (int shift = 0; shift < 64 && message->len > 0; shift += 7)
	{
		uint64_t	byte = (unsigned char) *message->bytes++;

		message->len--;
		*value |= (byte & 0x7F) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

static bool
take_bytes(JsonText *message, uint64_t len, JsonText *bytes)
{
	if (len > message->len)
		return false;
	*bytes = (JsonText) {message->bytes, (size_t) len};
	message->bytes += len;
	message->len -= (size_t) len;
	return true;
}

/* Takes the next field from the message; false if the message is broken. */
static bool
take_field(JsonText *message, Field *field)
{
	uint64_t	tag;
	uint64_t	len = 0;

	field->value = 0;
	field->bytes = (JsonText) {"", 0};
	if (!take_varint(message, &tag))
		return false;
	field->number = tag >> 3;
	field->type = (WireType) (tag & 7);
	switch (field->type)
	{
		case WIRE_VARINT:
			return field->number > 0 && take_varint(message, &field->value);
		case WIRE_FIXED64:
			return field->number > 0 && take_bytes(message, 8, &field->bytes);
		case WIRE_BYTES:
			return field->number > 0 && take_varint(message, &len) && take_bytes(message, len, &field->bytes);
		case WIRE_FIXED32:
			return field->number > 0 && take_bytes(message, 4, &field->bytes);
	}
	return false;
}

static bool read_message(Arena *arena, JsonText message, const FieldName *names, JsonNode *object);

/* Stores a field under its name; false if it has the wrong wire type. */
static bool
read_field(Arena *arena, const Field *field, const FieldName *name, JsonNode *object)
{
	JsonNode   *value = json_get(object, name->name);

	if (field->type != (name->kind == FIELD_FLAG || name->kind == FIELD_COUNT ? WIRE_VARINT : WIRE_BYTES))
		return false;
	switch (name->kind)
	{
		case FIELD_TEXT:
			value = json_new_string(arena, field->bytes.bytes, field->bytes.len);
			break;
		case FIELD_TEXTS:
			if (value == NULL)
				value = json_new_array(arena);
			json_append(arena, value, json_new_string(arena, field->bytes.bytes, field->bytes.len));
			break;
		case FIELD_FLAG:
			value = json_new_bool(arena, field->value != 0);
			break;
		case FIELD_COUNT:
			value = json_new_integer(arena, (int64_t) field->value);
			break;
		case FIELD_PRECONDITIONS:
			if (value == NULL)
				value = json_new_object(arena);
			if (!read_message(arena, field->bytes, precondition_fields, value))
				return false;
			break;
	}
	json_set(arena, object, name->name, value);
	return true;
}

static bool
read_message(Arena *arena, JsonText message, const FieldName *names, JsonNode *object)
{
	Field		field;

	while (message.len > 0)
	{
		const FieldName *name = names;

		if (!take_field(&message, &field))
			return false;
		while (name->number != 0 && name->number != field.number)
			name++;
		if (name->number != 0 && !read_field(arena, &field, name, object))
			return false;
		arena_checkpoint();
	}
	return true;
}

JsonNode *
delete_options_read_proto(Arena *arena, const char *bytes, size_t len, const char **error)
{
	static const char prefix[] = {'k', '8', 's', '\0'};
	JsonNode   *options = json_new_object(arena);
	JsonText	unknown = {bytes, len};
	JsonText	raw = {"", 0};
	Field		field;

	*error = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
	if (len < sizeof(prefix) || memcmp(bytes, prefix, sizeof(prefix)) != 0)
		return NULL;
	*error = "unexpected EOF";
	unknown.bytes += sizeof(prefix);
	unknown.len -= sizeof(prefix);
	while (unknown.len > 0)
	{
		if (!take_field(&unknown, &field))
			return NULL;
		if (field.number == 1 && field.type == WIRE_BYTES && !read_message(arena, field.bytes, type_fields, options))
			return NULL;
		if (field.number == 2 && field.type == WIRE_BYTES)
			raw = field.bytes;
	}
	return read_message(arena, raw, option_fields, options) ? options : NULL;
}
