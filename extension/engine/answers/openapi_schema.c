/*-------------------------------------------------------------------------
 *
 * openapi_schema.c
 *	  Schemas of OpenAPI documents: served kinds, their lists, meta types.
 *
 * OpenAPI v3 can express every schema of a CustomResourceDefinition.  Swagger
 * 2 cannot, and kubectl's reader of Swagger 2 supports even less.  Parts that
 * the reader does not support are left out so that it accepts more documents,
 * never fewer.
 *
 * Every reference has a target: the schema of a kind refers only to meta
 * types, and openapi_add_meta_types() adds them all.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/answers/openapi_schema.h"

#include <string.h>

#define META_PREFIX "io.k8s.apimachinery.pkg.apis.meta.v1."

#define API_VERSION_DESCRIPTION "Group and version of the schema that this object follows, as group/version."
#define KIND_DESCRIPTION "Name of the type of this object, in CamelCase."
#define METADATA_DESCRIPTION "Standard metadata of an object."
#define LIST_METADATA_DESCRIPTION "Standard metadata of a list."

typedef enum MetaShape
{
	META_STRING,
	META_BOOLEAN,
	META_INT32,
	META_INT64,
	META_STRINGS,
	META_STRING_MAP,
	META_REFERENCE,
	META_REFERENCES
} MetaShape;

typedef struct MetaField
{
	const char *name;
	MetaShape	shape;
	const char *target;			/* of references: the meta type */
	bool		required;
	const char *extensions;		/* JSON object of vendor extensions, or NULL */
	const char *description;
} MetaField;

typedef struct MetaType
{
	const char *name;
	const char *type;
	const char *format;
	const char *extensions;
	const char *description;
	const MetaField *fields;	/* ended by a field without a name; NULL for none */
} MetaType;

static const MetaField object_meta_fields[] = {
	{"annotations", META_STRING_MAP, .description = "Free data attached to the object, by key. Cannot be selected on."},
	{"creationTimestamp", META_REFERENCE, "Time", .description = "When the object was created. Set by the server."},
	{"deletionGracePeriodSeconds", META_INT64,
	.description = "Seconds until a terminating object may go. Set by the server."},
	{"deletionTimestamp", META_REFERENCE, "Time",
	.description = "When deletion was asked for; present while finalizers hold the object back. Set by the server."},
	{"finalizers", META_STRINGS,
		.extensions = "{\"x-kubernetes-list-type\":\"set\",\"x-kubernetes-patch-strategy\":\"merge\"}",
	.description = "Who must still act before a deleted object disappears."},
	{"generateName", META_STRING,
	.description = "Prefix from which the server makes a unique name when name is empty."},
	{"generation", META_INT64, .description = "Counts changes of the desired state. Set by the server."},
	{"labels", META_STRING_MAP, .description = "Keys and values by which objects are grouped and selected."},
	{"managedFields", META_REFERENCES, "ManagedFieldsEntry", .extensions = "{\"x-kubernetes-list-type\":\"atomic\"}",
	.description = "Which manager set which fields. Kept by the server."},
	{"name", META_STRING,
	.description = "Name of the object, unique among its kind in its namespace. Cannot be changed."},
	{"namespace", META_STRING,
	.description = "Namespace of the object; empty for a cluster-scoped kind. Cannot be changed."},
	{"ownerReferences", META_REFERENCES, "OwnerReference",
		.extensions = "{\"x-kubernetes-list-map-keys\":[\"uid\"],\"x-kubernetes-list-type\":\"map\","
		"\"x-kubernetes-patch-merge-key\":\"uid\",\"x-kubernetes-patch-strategy\":\"merge\"}",
	.description = "Objects this one depends on: it is collected once all of them are gone."},
	{"resourceVersion", META_STRING,
	.description = "Version of the object's last change. Set by the server; opaque to clients."},
	{"selfLink", META_STRING, .description = "No longer used."},
	{"uid", META_STRING, .description = "Identifies the object in time and space. Set by the server."},
	{0}
};

static const MetaField list_meta_fields[] = {
	{"continue", META_STRING, .description = "Where the next page of the list begins; empty on the last page."},
	{"remainingItemCount", META_INT64, .description = "How many objects follow on later pages, when that is known."},
	{"resourceVersion", META_STRING, .description = "Version at which the list was read; a watch can start from it."},
	{"selfLink", META_STRING, .description = "No longer used."},
	{0}
};

static const MetaField owner_reference_fields[] = {
	{"apiVersion", META_STRING, .required = true, .description = "Group and version of the owner."},
	{"blockOwnerDeletion", META_BOOLEAN,
	.description = "Whether foreground deletion of the owner waits for this object."},
	{"controller", META_BOOLEAN, .description = "Whether the owner is the controller that manages this object."},
	{"kind", META_STRING, .required = true, .description = "Kind of the owner."},
	{"name", META_STRING, .required = true, .description = "Name of the owner."},
	{"uid", META_STRING, .required = true, .description = "UID of the owner."},
	{0}
};

static const MetaField managed_fields_fields[] = {
	{"apiVersion", META_STRING, .description = "Group and version to which the field names belong."},
	{"fieldsType", META_STRING, .description = "Format of the fields; always FieldsV1."},
	{"fieldsV1", META_REFERENCE, "FieldsV1", .description = "The fields this manager set."},
	{"manager", META_STRING, .description = "Who set the fields."},
	{"operation", META_STRING, .description = "How they were set: Apply or Update."},
	{"subresource", META_STRING, .description = "Subresource through which they were set, if any."},
	{"time", META_REFERENCE, "Time", .description = "When this entry last changed."},
	{0}
};

static const MetaField delete_options_fields[] = {
	{"apiVersion", META_STRING, .description = API_VERSION_DESCRIPTION},
	{"dryRun", META_STRINGS, .extensions = "{\"x-kubernetes-list-type\":\"atomic\"}",
	.description = "With the value All nothing is changed."},
	{"gracePeriodSeconds", META_INT64, .description = "Seconds the object is given before it goes."},
	{"kind", META_STRING, .description = KIND_DESCRIPTION},
	{"orphanDependents", META_BOOLEAN, .description = "Use propagationPolicy instead."},
	{"preconditions", META_REFERENCE, "Preconditions", .description = "What must hold for the object to be deleted."},
	{"propagationPolicy", META_STRING, .description = "What becomes of dependents: Orphan, Background or Foreground."},
	{0}
};

static const MetaField preconditions_fields[] = {
	{"resourceVersion", META_STRING, .description = "The version the object must have."},
	{"uid", META_STRING, .description = "The UID the object must have."},
	{0}
};

static const MetaField status_fields[] = {
	{"apiVersion", META_STRING, .description = API_VERSION_DESCRIPTION},
	{"code", META_INT32, .description = "The HTTP status code."},
	{"details", META_REFERENCE, "StatusDetails", .description = "What the answer is about, for machines."},
	{"kind", META_STRING, .description = KIND_DESCRIPTION},
	{"message", META_STRING, .description = "What happened, for people."},
	{"metadata", META_REFERENCE, "ListMeta", .description = LIST_METADATA_DESCRIPTION},
	{"reason", META_STRING, .description = "Why the request failed, in one word."},
	{"status", META_STRING, .description = "Success or Failure."},
	{0}
};

static const MetaField status_details_fields[] = {
	{"causes", META_REFERENCES, "StatusCause", .extensions = "{\"x-kubernetes-list-type\":\"atomic\"}",
	.description = "Each single thing that was wrong."},
	{"group", META_STRING, .description = "Group of the object concerned."},
	{"kind", META_STRING, .description = "Kind or resource concerned."},
	{"name", META_STRING, .description = "Name of the object concerned."},
	{"retryAfterSeconds", META_INT32, .description = "Seconds to wait before the request may be tried again."},
	{"uid", META_STRING, .description = "UID of the object concerned."},
	{0}
};

static const MetaField status_cause_fields[] = {
	{"field", META_STRING, .description = "Path of the field that is wrong."},
	{"message", META_STRING, .description = "What is wrong, for people."},
	{"reason", META_STRING, .description = "What is wrong, in one word."},
	{0}
};

/*
 * None of these has x-kubernetes-group-version-kind, because kube-apiserver's own schemas of Status and DeleteOptions
 * have it.  Two schemas of one kind in the aggregated document break readers that build a type parser from it.
 */
static const MetaType meta_types[] = {
	{OPENAPI_DELETE_OPTIONS, "object", .description = "Options of a deletion.", .fields = delete_options_fields},
	{"FieldsV1", "object", .description = "A set of fields, as a tree of their names."},
	{OPENAPI_LIST_META, "object", .description = LIST_METADATA_DESCRIPTION, .fields = list_meta_fields},
	{"ManagedFieldsEntry", "object", .description = "Fields set by one manager.", .fields = managed_fields_fields},
	{OPENAPI_OBJECT_META, "object", .description = METADATA_DESCRIPTION, .fields = object_meta_fields},
	{"OwnerReference", "object", .extensions = "{\"x-kubernetes-map-type\":\"atomic\"}",
	.description = "Names an owner in the same namespace, or a cluster-scoped one.", .fields = owner_reference_fields},
	{OPENAPI_PATCH, "object", .description = "The body of a PATCH request, in the format its media type says."},
	{"Preconditions", "object", .description = "Conditions on the object to be deleted.",
	.fields = preconditions_fields},
	{OPENAPI_STATUS, "object", .description = "The answer to a request that has no object for an answer.",
	.fields = status_fields},
	{"StatusCause", "object", .description = "One reason for a failure.", .fields = status_cause_fields},
	{"StatusDetails", "object", .description = "What a Status is about.", .fields = status_details_fields},
	{"Time", "string", "date-time", .description = "A time in RFC 3339 format."},
};

void
openapi_put_text(Arena *arena, JsonNode *object, const char *key, const char *value)
{
	json_set(arena, object, key, json_new_cstring(arena, value));
}

JsonNode *
openapi_put_object(Arena *arena, JsonNode *parent, const char *key)
{
	JsonNode   *object = json_new_object(arena);

	json_set(arena, parent, key, object);
	return object;
}

static bool
is_true(const JsonNode *node)
{
	return node != NULL && node->kind == JSON_KIND_BOOL && node->u.boolean;
}

const char *
openapi_text(Arena *arena, const JsonNode *definition, const char *key)
{
	const char *text = json_get_cstring(arena, definition, key);

	return text != NULL ? text : "";
}

char *
openapi_model_name(Arena *arena, const char *group, const char *version, const char *kind)
{
	StrBuf		name;
	size_t		end = strlen(group);

	/* The labels of the group in reverse, as in a Java package. */
	strbuf_init(&name, arena);
	while (end > 0)
	{
		size_t		start = end;

		while (start > 0 && group[start - 1] != '.')
			start--;
		strbuf_append(&name, group + start, end - start);
		strbuf_putc(&name, '.');
		end = start > 0 ? start - 1 : 0;
	}
	strbuf_printf(&name, "%s.%s", version, kind);
	return name.bytes;
}

JsonNode *
openapi_reference(Arena *arena, OpenApiVersion version, const char *model, const char *description)
{
	JsonNode   *reference = json_new_object(arena);
	const char *prefix = version == OPENAPI_V2 ? "#/definitions/" : "#/components/schemas/";

	openapi_put_text(arena, reference, "$ref", arena_printf(arena, "%s%s", prefix, model));
	if (description == NULL)
		return reference;
	if (version == OPENAPI_V3)
	{
		/* In v3 an object with $ref may have no other members. */
		JsonNode   *schema = json_new_object(arena);
		JsonNode   *all = json_new_array(arena);

		json_append(arena, all, reference);
		json_set(arena, schema, "allOf", all);
		reference = schema;
	}
	openapi_put_text(arena, reference, "description", description);
	return reference;
}

JsonNode *
openapi_meta_reference(Arena *arena, OpenApiVersion version, const char *meta, const char *description)
{
	return openapi_reference(arena, version, arena_printf(arena, "%s%s", META_PREFIX, meta), description);
}

JsonNode *
openapi_kind_extension(Arena *arena, const JsonNode *definition, const char *kind)
{
	JsonNode   *extension = json_new_object(arena);

	openapi_put_text(arena, extension, "group", openapi_text(arena, definition, "group"));
	openapi_put_text(arena, extension, "kind", kind);
	openapi_put_text(arena, extension, "version", openapi_text(arena, definition, "version"));
	return extension;
}

static void
set_kind_extension(Arena *arena, JsonNode *schema, const JsonNode *definition, const char *kind)
{
	JsonNode   *list = json_new_array(arena);

	json_append(arena, list, openapi_kind_extension(arena, definition, kind));
	json_set(arena, schema, "x-kubernetes-group-version-kind", list);
}

static JsonNode *
string_schema(Arena *arena, const char *description)
{
	JsonNode   *schema = json_new_object(arena);

	openapi_put_text(arena, schema, "type", "string");
	if (description != NULL)
		openapi_put_text(arena, schema, "description", description);
	return schema;
}

/* apiVersion and kind keep their schemas from the definition. */
static void
set_type_properties(Arena *arena, JsonNode *properties)
{
	if (json_get(properties, "apiVersion") == NULL)
		json_set(arena, properties, "apiVersion", string_schema(arena, API_VERSION_DESCRIPTION));
	if (json_get(properties, "kind") == NULL)
		json_set(arena, properties, "kind", string_schema(arena, KIND_DESCRIPTION));
}

static JsonNode *
get_properties(Arena *arena, JsonNode *schema)
{
	JsonNode   *properties = json_get(schema, "properties");

	/* null in a CustomResourceDefinition means no properties. */
	if (properties == NULL || properties->kind != JSON_KIND_OBJECT)
	{
		properties = json_new_object(arena);
		json_set(arena, schema, "properties", properties);
	}
	return properties;
}

static void
add_required(Arena *arena, JsonNode *schema, const char *name)
{
	const JsonNode *required = json_get(schema, "required");
	JsonNode   *list = json_new_array(arena);

	/* Copy the list: it may belong to the definition. */
	if (required != NULL && required->kind == JSON_KIND_ARRAY)
	{
		for (size_t i = 0; i < required->u.array.count; i++)
		{
			if (json_string_is(required->u.array.items[i], name))
				return;
			json_append(arena, list, required->u.array.items[i]);
		}
	}
	json_append(arena, list, json_new_cstring(arena, name));
	json_set(arena, schema, "required", list);
}

/* Swagger 2 has no null: a required field that may be null becomes optional. */
static void
drop_nullable_required(Arena *arena, const JsonNode *source, JsonNode *schema)
{
	const JsonNode *required = json_get(source, "required");
	const JsonNode *properties = json_get(source, "properties");
	JsonNode   *list = json_new_array(arena);

	if (required == NULL || required->kind != JSON_KIND_ARRAY)
		return;
	if (!is_true(json_path(source, "additionalProperties", "nullable", NULL)))
	{
		for (size_t i = 0; i < required->u.array.count; i++)
		{
			JsonNode   *name = required->u.array.items[i];

			if (name->kind == JSON_KIND_STRING &&
				!is_true(json_get(json_get_text(properties, name->u.string), "nullable")))
				json_append(arena, list, name);
		}
	}
	if (list->u.array.count > 0)
		json_set(arena, schema, "required", list);
	else
		json_remove(schema, "required");
}

static void
reduce_to_v2(Arena *arena, const JsonNode *source, JsonNode *schema)
{
	static const char *const unknown[] = {"allOf", "anyOf", "nullable", "not", "oneOf"};
	bool		nullable = is_true(json_get(source, "nullable"));
	bool		preserve = is_true(json_get(source, "x-kubernetes-preserve-unknown-fields"));
	const JsonNode *properties;

	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		json_remove(schema, unknown[i]);
	drop_nullable_required(arena, source, schema);

	/* A type would refuse null, and listed properties would refuse all other fields. */
	if (nullable || preserve)
	{
		json_remove(schema, "items");
		json_remove(schema, "properties");
	}
	if (nullable || (preserve && json_string_is(json_get(schema, "type"), "object")))
		json_remove(schema, "type");
	if (json_string_is(json_get(schema, "type"), "array") && json_get(schema, "items") == NULL)
		json_remove(schema, "type");
	properties = json_get(schema, "properties");
	if (properties != NULL && properties->kind == JSON_KIND_OBJECT && properties->u.object.count == 0)
		json_remove(schema, "properties");
}

static void
describe_embedded(Arena *arena, OpenApiVersion version, JsonNode *schema)
{
	JsonNode   *properties;

	if (version == OPENAPI_V2 && is_true(json_get(schema, "x-kubernetes-preserve-unknown-fields")))
		return;
	properties = get_properties(arena, schema);
	set_type_properties(arena, properties);
	json_set(arena, properties, "metadata",
			 openapi_meta_reference(arena, version, OPENAPI_OBJECT_META, METADATA_DESCRIPTION));
	add_required(arena, schema, "apiVersion");
	add_required(arena, schema, "kind");
}

static void
describe_int_or_string(Arena *arena, JsonNode *schema)
{
	JsonNode   *any = json_new_array(arena);
	JsonNode   *integer = json_new_object(arena);

	openapi_put_text(arena, integer, "type", "integer");
	json_append(arena, any, integer);
	json_append(arena, any, string_schema(arena, NULL));
	json_set(arena, schema, "anyOf", any);
}

/* Converts a schema of a definition for a document.  Copies the objects that may be changed and shares the rest. */
static JsonNode *
convert_schema(Arena *arena, OpenApiVersion version, const JsonNode *source)
{
	JsonNode   *schema = json_new_object(arena);

	arena_checkpoint();
	if (source == NULL || source->kind != JSON_KIND_OBJECT)
		return schema;
	for (size_t i = 0; i < source->u.object.count; i++)
	{
		const JsonMember *member = &source->u.object.members[i];
		JsonNode   *value = member->value;

		if (json_text_is(member->key, "properties") && value->kind == JSON_KIND_OBJECT)
		{
			JsonNode   *properties = json_new_object(arena);

			for (size_t j = 0; j < value->u.object.count; j++)
				json_set_text(arena, properties, value->u.object.members[j].key,
							  convert_schema(arena, version, value->u.object.members[j].value));
			value = properties;
		}
		else if ((json_text_is(member->key, "items") || json_text_is(member->key, "additionalProperties")) &&
				 value->kind == JSON_KIND_OBJECT)
			value = convert_schema(arena, version, value);
		json_set_text(arena, schema, member->key, value);
	}
	if (version == OPENAPI_V2)
		reduce_to_v2(arena, source, schema);
	else if (is_true(json_get(source, "x-kubernetes-int-or-string")) &&
			 json_get(source, "anyOf") == NULL && json_get(source, "allOf") == NULL)
		describe_int_or_string(arena, schema);
	if (is_true(json_get(source, "x-kubernetes-embedded-resource")))
		describe_embedded(arena, version, schema);
	return schema;
}

static JsonNode *
kind_schema(Arena *arena, OpenApiVersion version, const JsonNode *definition)
{
	const JsonNode *source = json_get(definition, "schema");
	JsonNode   *schema;
	JsonNode   *properties;

	if (source == NULL ||
		(version == OPENAPI_V2 && is_true(json_get(source, "x-kubernetes-preserve-unknown-fields"))))
	{
		/* Without properties, every field is allowed; with the properties of every object, no other field would be. */
		schema = json_new_object(arena);
		openapi_put_text(arena, schema, "type", "object");
		return schema;
	}
	schema = convert_schema(arena, version, source);
	properties = get_properties(arena, schema);
	set_type_properties(arena, properties);
	json_set(arena, properties, "metadata",
			 openapi_meta_reference(arena, version, OPENAPI_OBJECT_META, METADATA_DESCRIPTION));
	return schema;
}

static JsonNode *
list_schema(Arena *arena, OpenApiVersion version, const JsonNode *definition, const char *model)
{
	JsonNode   *schema = json_new_object(arena);
	JsonNode   *properties = json_new_object(arena);
	JsonNode   *items = json_new_object(arena);

	openapi_put_text(arena, items, "type", "array");
	openapi_put_text(arena, items, "description",
					 arena_printf(arena, "The %s.", openapi_text(arena, definition, "plural")));
	json_set(arena, items, "items", openapi_reference(arena, version, model, NULL));

	set_type_properties(arena, properties);
	json_set(arena, properties, "items", items);
	json_set(arena, properties, "metadata",
			 openapi_meta_reference(arena, version, OPENAPI_LIST_META, LIST_METADATA_DESCRIPTION));

	openapi_put_text(arena, schema, "type", "object");
	openapi_put_text(arena, schema, "description",
					 arena_printf(arena, "A list of %s objects.", openapi_text(arena, definition, "kind")));
	json_set(arena, schema, "properties", properties);
	add_required(arena, schema, "items");
	return schema;
}

void
openapi_add_kind(Arena *arena, OpenApiVersion version, JsonNode *schemas, const JsonNode *definition)
{
	const char *group = openapi_text(arena, definition, "group");
	const char *version_name = openapi_text(arena, definition, "version");
	const char *kind = openapi_text(arena, definition, "kind");
	const char *list_kind = openapi_text(arena, definition, "listKind");
	const char *model = openapi_model_name(arena, group, version_name, kind);
	JsonNode   *schema = kind_schema(arena, version, definition);

	set_kind_extension(arena, schema, definition, kind);
	json_set(arena, schemas, model, schema);

	schema = list_schema(arena, version, definition, model);
	set_kind_extension(arena, schema, definition, list_kind);
	json_set(arena, schemas, openapi_model_name(arena, group, version_name, list_kind), schema);
}

/*
 * Meta types
 */

static void
add_extensions(Arena *arena, JsonNode *schema, const char *extensions)
{
	JsonError	error;
	const JsonNode *members;

	if (extensions == NULL)
		return;
	members = json_parse(arena, extensions, strlen(extensions), NULL, NULL, &error);
	for (size_t i = 0; members != NULL && i < members->u.object.count; i++)
		json_set_text(arena, schema, members->u.object.members[i].key, members->u.object.members[i].value);
}

static JsonNode *
meta_field_schema(Arena *arena, OpenApiVersion version, const MetaField *field)
{
	JsonNode   *schema = json_new_object(arena);

	switch (field->shape)
	{
		case META_STRING:
			openapi_put_text(arena, schema, "type", "string");
			break;
		case META_BOOLEAN:
			openapi_put_text(arena, schema, "type", "boolean");
			break;
		case META_INT32:
		case META_INT64:
			openapi_put_text(arena, schema, "type", "integer");
			openapi_put_text(arena, schema, "format", field->shape == META_INT32 ? "int32" : "int64");
			break;
		case META_STRINGS:
			openapi_put_text(arena, schema, "type", "array");
			json_set(arena, schema, "items", string_schema(arena, NULL));
			break;
		case META_STRING_MAP:
			openapi_put_text(arena, schema, "type", "object");
			json_set(arena, schema, "additionalProperties", string_schema(arena, NULL));
			break;
		case META_REFERENCE:
			return openapi_meta_reference(arena, version, field->target, field->description);
		case META_REFERENCES:
			openapi_put_text(arena, schema, "type", "array");
			json_set(arena, schema, "items", openapi_meta_reference(arena, version, field->target, NULL));
			break;
	}
	openapi_put_text(arena, schema, "description", field->description);
	add_extensions(arena, schema, field->extensions);
	return schema;
}

void
openapi_add_meta_types(Arena *arena, OpenApiVersion version, JsonNode *schemas)
{
	for (size_t i = 0; i < sizeof(meta_types) / sizeof(meta_types[0]); i++)
	{
		const MetaType *type = &meta_types[i];
		JsonNode   *schema = json_new_object(arena);

		openapi_put_text(arena, schema, "type", type->type);
		openapi_put_text(arena, schema, "description", type->description);
		if (type->format != NULL)
			openapi_put_text(arena, schema, "format", type->format);
		if (type->fields != NULL)
		{
			JsonNode   *properties = json_new_object(arena);

			for (const MetaField *field = type->fields; field->name != NULL; field++)
			{
				json_set(arena, properties, field->name, meta_field_schema(arena, version, field));
				if (field->required)
					add_required(arena, schema, field->name);
			}
			json_set(arena, schema, "properties", properties);
		}
		add_extensions(arena, schema, type->extensions);
		json_set(arena, schemas, arena_printf(arena, "%s%s", META_PREFIX, type->name), schema);
	}
}
