/*-------------------------------------------------------------------------
 *
 * document_admit.c
 *	  Admits, validates and joins documents.
 *
 * The steps have the same order as in upstream's decoder: metadata, unknown
 * fields, embedded resources, defaults.
 *
 * Reference: k8s-conformance REQ-05, REQ-06, section 8.1, CRE-08.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/writes/document_admit.h"

#include <string.h>

#include "engine/api/metadata.h"

static JsonNode *copy_members(Arena *arena, const JsonNode *object, size_t more);

bool
document_is_of(const Definition *definition, const JsonNode *document)
{
	return json_string_is(json_get(document, "kind"), definition->kind) &&
		json_string_is(json_get(document, "apiVersion"), definition->api_version);
}

/* False when the metadata cannot be read as ObjectMeta. */
static bool
admit_metadata(Arena *arena, JsonNode *document, const DocumentAdmission *admission, DocumentRefusal *refusal)
{
	JsonNode   *metadata = json_get(document, "metadata");

	if (metadata != NULL && metadata->kind == JSON_KIND_NULL)
	{
		json_remove(document, "metadata");
		metadata = NULL;
	}
	if (metadata == NULL)
	{
		if (!admission->metadata_optional)
			json_set(arena, document, "metadata", json_new_object(arena));
		return true;
	}
	if (metadata_coerce(arena, metadata, admission->unknown, admission->state, &refusal->message))
		return true;
	field_error_at(&refusal->errors, FIELD_INVALID, "metadata", metadata, refusal->message);
	return false;
}

bool
document_admit(Arena *arena, const Definition *definition, JsonNode *document, const DocumentAdmission *admission,
			   DocumentRefusal *refusal)
{
	const Schema *schema = definition->schema;

	refusal->message = NULL;
	field_errors_init(&refusal->errors, arena);
	if (!admit_metadata(arena, document, admission, refusal))
		return false;
	if (schema == NULL || !document_is_of(definition, document))
		return true;
	schema_prune(arena, schema, document, admission->unknown, admission->state);
	if (admission->applied)
	{
		schema_default_applied(arena, schema, document);
		return true;
	}
	if (!schema_coerce_embedded(arena, schema, document, admission->unknown, admission->state, &refusal->errors))
	{
		const FieldError *error = &refusal->errors.errors[0];

		refusal->message = arena_printf(arena, "%s: %s", error->field, error->message);
		return false;
	}
	schema_default(arena, schema, document);
	return true;
}

void
document_settle_applied(Arena *arena, const Definition *definition, JsonNode *document)
{
	FieldErrorList none;

	if (definition->schema == NULL)
		return;
	/* Coercion cannot fail, because validation has accepted the embedded resources. */
	field_errors_init(&none, arena);
	schema_default(arena, definition->schema, document);
	(void) schema_coerce_embedded(arena, definition->schema, document, NULL, NULL, &none);
}

void
document_validate(Arena *arena, const Definition *definition, const JsonNode *document, const JsonNode *old,
				  FieldErrorList *errors)
{
	const JsonNode *metadata = json_get(document, "metadata");
	const JsonNode *kind = json_get(document, "kind");
	const JsonNode *version = json_get(document, "apiVersion");
	bool		typed = document_is_of(definition, document);

	if (!json_string_is(kind, definition->kind))
		field_error_at(errors, FIELD_INVALID, "kind", kind, arena_printf(arena, "must be %s", definition->kind));
	if (!json_string_is(version, definition->api_version))
		field_error_at(errors, FIELD_INVALID, "apiVersion", version != NULL ? version : json_new_cstring(arena, ""),
					   arena_printf(arena, "must be %s", definition->api_version));

	/* Upstream checks the metadata of a document of another type on an update, but not on a create. */
	if (metadata != NULL && old != NULL)
		metadata_validate_update(arena, metadata, old, definition->namespaced, errors);
	else if (metadata != NULL && typed)
		metadata_validate(arena, metadata, definition->namespaced, errors);
	if (definition->schema != NULL && typed)
		schema_validate(definition->schema, document, errors);
	else if (definition->schema != NULL)
		schema_validate_rules(definition->schema, document, errors);
}

JsonNode *
document_read_stored(Arena *arena, const Definition *definition, JsonText metadata_text, const JsonText *body_text)
{
	JsonError	error;
	JsonNode   *metadata = json_parse(arena, metadata_text.bytes, metadata_text.len, NULL, NULL, &error);
	JsonNode   *body = NULL;

	if (metadata == NULL)
		return NULL;
	if (body_text != NULL)
	{
		body = json_parse(arena, body_text->bytes, body_text->len, NULL, NULL, &error);
		if (body == NULL)
			return NULL;
	}
	return document_take_stored(arena, definition, metadata, body);
}

JsonNode *
document_take_stored(Arena *arena, const Definition *definition, JsonNode *metadata, JsonNode *body)
{
	const char *shape_error;
	JsonNode   *document;

	if (!metadata_coerce(arena, metadata, NULL, NULL, &shape_error) || (body != NULL && body->kind != JSON_KIND_OBJECT))
		return NULL;
	document = document_join(arena, definition, metadata, body);
	if (body != NULL && definition->schema != NULL)
		schema_default(arena, definition->schema, document);
	return document;
}

/*
 * Documents and their parts
 */

/* A new object with the members of an object, and with room for more. */
static JsonNode *
copy_members(Arena *arena, const JsonNode *object, size_t more)
{
	JsonNode   *copy = json_new_object(arena);
	size_t		count = object != NULL ? object->u.object.count : 0;

	copy->u.object.capacity = count + more;
	copy->u.object.members = arena_alloc(arena, (count + more + 1) * sizeof(JsonMember));
	copy->u.object.count = count;
	if (count > 0)
		memcpy(copy->u.object.members, object->u.object.members, count * sizeof(JsonMember));
	return copy;
}

JsonNode *
document_join(Arena *arena, const Definition *definition, JsonNode *metadata, const JsonNode *body)
{
	JsonNode   *document = copy_members(arena, body, 3);

	json_set(arena, document, "apiVersion", json_new_cstring(arena, definition->api_version));
	json_set(arena, document, "kind", json_new_cstring(arena, definition->kind));
	json_set(arena, document, "metadata", metadata);
	return document;
}

JsonNode *
document_body(Arena *arena, const JsonNode *document)
{
	JsonNode   *body = copy_members(arena, document, 0);

	json_remove(body, "apiVersion");
	json_remove(body, "kind");
	json_remove(body, "metadata");
	return body;
}
