/*-------------------------------------------------------------------------
 *
 * definition.c
 *	  Compiles one served version of a resource type.
 *
 * crd.c made and checked the document, and the registry stored it.  If a part
 * is missing or has a wrong type, the stored document was changed by other
 * means; then definition_compile() returns NULL.  definition_restore() finds
 * the other changes.
 *-------------------------------------------------------------------------
 */
#include "engine/schema/definition.h"

#include <string.h>

#include "engine/schema/table.h"

static const char name_description[] =
"Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
"client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
"idempotence and configuration definition. Cannot be updated. More info: "
"https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

static bool
compile_column(Arena *arena, const JsonNode *document, TableColumn *column)
{
	const char *path = json_get_cstring(arena, document, "jsonPath");
	const JsonNode *priority = json_get(document, "priority");
	const char *error;

	column->name = json_get_cstring(arena, document, "name");
	column->type = json_get_cstring(arena, document, "type");
	column->format = json_get_cstring(arena, document, "format");
	column->description = json_get_cstring(arena, document, "description");
	if (column->name == NULL || column->type == NULL || path == NULL)
		return false;
	if (column->format == NULL)
		column->format = "";
	if (column->description == NULL || column->description[0] == '\0')
		column->description = arena_printf(arena, "Custom resource definition column (in JSONPath format): %s", path);
	column->priority = priority != NULL && priority->kind == JSON_KIND_INTEGER ? priority->u.integer : 0;
	column->path = jsonpath_compile(arena, path, &error);
	if (column->path == NULL)
		return false;
	column->metadata_only = jsonpath_within_metadata(column->path);
	return true;
}

static bool
compile_columns(Arena *arena, Definition *definition)
{
	const JsonNode *documents = json_get(definition->document, "columns");
	TableColumn *name;
	size_t		count = 0;

	if (documents != NULL && documents->kind != JSON_KIND_ARRAY)
		return false;
	if (documents != NULL)
		count = documents->u.array.count;
	definition->columns = arena_alloc0(arena, (count + 1) * sizeof(TableColumn));
	definition->column_count = count + 1;

	name = &definition->columns[0];
	name->name = "Name";
	name->type = "string";
	name->format = "name";
	name->description = name_description;
	name->metadata_only = true;
	for (size_t i = 0; i < count; i++)
	{
		if (!compile_column(arena, documents->u.array.items[i], &definition->columns[i + 1]))
			return false;
	}
	return true;
}

static bool
is_string_array(const JsonNode *node)
{
	if (node->kind != JSON_KIND_ARRAY)
		return false;
	for (size_t i = 0; i < node->u.array.count; i++)
		if (node->u.array.items[i]->kind != JSON_KIND_STRING)
			return false;
	return true;
}

Definition *
definition_compile(Arena *arena, const JsonNode *document)
{
	Definition *definition = arena_alloc0(arena, sizeof(Definition));
	const JsonNode *schema = json_get(document, "schema");
	const JsonNode *status = json_get(document, "status");
	const JsonNode *rules = json_get(document, "unevaluatedRules");
	const char *scope = json_get_cstring(arena, document, "scope");

	definition->document = document;
	definition->group = json_get_cstring(arena, document, "group");
	definition->version = json_get_cstring(arena, document, "version");
	definition->kind = json_get_cstring(arena, document, "kind");
	definition->list_kind = json_get_cstring(arena, document, "listKind");
	definition->plural = json_get_cstring(arena, document, "plural");
	definition->singular = json_get_cstring(arena, document, "singular");
	if (definition->group == NULL || definition->version == NULL || definition->kind == NULL ||
		definition->list_kind == NULL || definition->plural == NULL || definition->singular == NULL || scope == NULL)
		return NULL;
	definition->api_version = arena_printf(arena, "%s/%s", definition->group, definition->version);
	definition->namespaced = strcmp(scope, "Namespaced") == 0;
	definition->status_subresource = status != NULL && status->kind == JSON_KIND_BOOL && status->u.boolean;

	if (schema != NULL && schema->kind != JSON_KIND_NULL)
	{
		FieldErrorList errors;

		field_errors_init(&errors, arena);
		definition->schema = schema_compile(arena, schema, "schema", &errors);
		if (definition->schema == NULL)
			return NULL;
	}
	if (rules != NULL && !is_string_array(rules))
		return NULL;
	definition->rules_warning = schema_rules_warning(arena, rules);
	if (!compile_columns(arena, definition))
		return NULL;
	return definition;
}

static void
take(Arena *arena, JsonNode *to, const char *key, const JsonNode *from, const char *member)
{
	JsonNode   *value = json_get(from, member);

	if (value != NULL)
		json_set(arena, to, key, value);
}

/* Rebuilds the CustomResourceDefinition of a definition; NULL without group or plural. */
static JsonNode *
definition_source(Arena *arena, const JsonNode *definition)
{
	static const char *const names[] = {"plural", "singular", "kind", "listKind", "shortNames", "categories"};
	const char *group = json_get_cstring(arena, definition, "group");
	const char *plural = json_get_cstring(arena, definition, "plural");
	const JsonNode *status = json_get(definition, "status");
	JsonNode   *crd = json_new_object(arena);
	JsonNode   *metadata = json_new_object(arena);
	JsonNode   *spec = json_new_object(arena);
	JsonNode   *spec_names = json_new_object(arena);
	JsonNode   *version = json_new_object(arena);
	JsonNode   *versions = json_new_array(arena);
	JsonNode   *schema = json_new_object(arena);

	if (group == NULL || plural == NULL)
		return NULL;
	json_set(arena, metadata, "name", json_new_cstring(arena, arena_printf(arena, "%s.%s", plural, group)));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		take(arena, spec_names, names[i], definition, names[i]);
	take(arena, schema, "openAPIV3Schema", definition, "schema");
	take(arena, version, "name", definition, "version");
	take(arena, version, "additionalPrinterColumns", definition, "columns");
	json_set(arena, version, "schema", schema);
	json_set(arena, version, "served", json_new_bool(arena, true));
	json_set(arena, version, "storage", json_new_bool(arena, true));
	if (status != NULL && status->kind == JSON_KIND_BOOL && status->u.boolean)
	{
		JsonNode   *subresources = json_new_object(arena);

		json_set(arena, subresources, "status", json_new_object(arena));
		json_set(arena, version, "subresources", subresources);
	}
	json_append(arena, versions, version);
	take(arena, spec, "group", definition, "group");
	take(arena, spec, "scope", definition, "scope");
	json_set(arena, spec, "names", spec_names);
	json_set(arena, spec, "versions", versions);
	json_set(arena, crd, "apiVersion", json_new_cstring(arena, "apiextensions.k8s.io/v1"));
	json_set(arena, crd, "kind", json_new_cstring(arena, "CustomResourceDefinition"));
	json_set(arena, crd, "metadata", metadata);
	json_set(arena, crd, "spec", spec);
	return crd;
}

JsonNode *
definition_restore(Arena *arena, const JsonNode *stored)
{
	const JsonNode *storage = json_get(stored, "storage");
	const JsonNode *crd = definition_source(arena, stored);
	JsonNode   *made;
	FieldErrorList errors;

	if (crd == NULL)
		return NULL;
	field_errors_init(&errors, arena);
	made = crd_definitions(arena, crd, &errors);
	if (made == NULL)
		return NULL;
	made = json_get(made, "versions")->u.array.items[0];
	json_set(arena, made, "storage", json_new_bool(arena, storage != NULL && storage->kind == JSON_KIND_BOOL &&
												   storage->u.boolean));
	return made;
}
