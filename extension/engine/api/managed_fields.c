/*-------------------------------------------------------------------------
 *
 * managed_fields.c
 *	  Checks of metadata.managedFields and of the names of field managers.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/managed_fields.h"
#include "engine/base/utf8.h"

/* Bytes of the name of a subresource. */
#define SUBRESOURCE_MAX 256

static JsonText
member_text(const JsonNode *object, const char *key)
{
	const JsonNode *node = json_get(object, key);

	return node != NULL && node->kind == JSON_KIND_STRING ? node->u.string : (JsonText) {"", 0};
}

void
managed_fields_check_owner(const char *path, JsonText name, FieldErrorList *errors)
{
	JsonNode	value = {.kind = JSON_KIND_STRING, .u.string = name};
	size_t		width;

	if (name.len > FIELD_OWNER_NAME_MAX)
		field_error_at(errors, FIELD_TOO_LONG, path, NULL, "may not be more than 128 bytes");
	for (size_t at = 0; at < name.len; at += width)
	{
		uint32_t	rune;

		width = utf8_decode(name.bytes + at, name.len - at, &rune);
		if (width == 0)
		{
			width = 1;
			rune = 0xFFFD;
		}
		if (!rune_is_print(rune))
			field_error_at(errors, FIELD_INVALID, path, &value,
						   arena_printf(errors->arena, "invalid character U+%04X (at position %zu)", rune, at));
	}
}

void
managed_fields_validate(const JsonNode *entries, FieldErrorList *errors)
{
	Arena	   *arena = errors->arena;

	for (size_t i = 0; entries != NULL && i < entries->u.array.count; i++)
	{
		const JsonNode *entry = entries->u.array.items[i];
		const JsonNode *operation = json_get(entry, "operation");
		const JsonNode *fields_type = json_get(entry, "fieldsType");
		const char *path = arena_printf(arena, "metadata.managedFields[%zu]", i);

		arena_checkpoint();
		if (operation == NULL)
			field_error_at(errors, FIELD_REQUIRED, arena_printf(arena, "%s.operation", path), NULL,
						   "must not be empty");
		else if (!json_string_is(operation, "Apply") && !json_string_is(operation, "Update"))
			field_error_at(errors, FIELD_NOT_SUPPORTED, arena_printf(arena, "%s.operation", path), operation,
						   "supported values: \"Apply\", \"Update\"");
		if (fields_type != NULL && !json_string_is(fields_type, "FieldsV1"))
			field_error_at(errors, FIELD_INVALID, arena_printf(arena, "%s.fieldsType", path), fields_type,
						   "must be `FieldsV1`");
		managed_fields_check_owner(arena_printf(arena, "%s.manager", path), member_text(entry, "manager"), errors);
		if (member_text(entry, "subresource").len > SUBRESOURCE_MAX)
			field_error_at(errors, FIELD_TOO_LONG, arena_printf(arena, "%s.subresource", path), NULL,
						   "may not be more than 256 bytes");
	}
}
