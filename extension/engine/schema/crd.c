/*-------------------------------------------------------------------------
 *
 * crd.c
 *	  Checks a CustomResourceDefinition and makes definitions from it.
 *
 * A CRD is accepted if kube-apiserver would accept it and this server supports
 * all its features.  Otherwise every reason is reported with the path of the
 * field.  Some CRDs that upstream accepts are refused: CRDs with features that
 * this server does not support (webhook conversion, the scale subresource,
 * selectable fields), with fields that v1 does not define, or without a served
 * version.  CEL rules are accepted but not evaluated: the definition lists
 * them, and each write returns a warning with them.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/definition.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/kube_version.h"
#include "engine/api/metadata.h"
#include "engine/schema/schema_private.h"
#include "engine/schema/table.h"

/* Kubernetes types have only a few versions; the limit keeps their comparison cheap. */
#define CRD_MAX_VERSIONS 64

/* The kind followed by "List" must fit into a label of 63 characters. */
#define CRD_MAX_KIND (63 - 4)

/* The parts of a CRD that are being read, and the errors found so far. */
typedef struct CrdReader
{
	Arena	   *arena;
	FieldErrorList *errors;
	const JsonNode *spec;
	const JsonNode *names;
} CrdReader;

/* One version of a CRD. */
typedef struct CrdVersion
{
	const JsonNode *document;
	const char *name;			/* NULL when it is missing */
	bool		served;
	bool		storage;
	bool		deprecated;
	const JsonNode *warning;	/* deprecationWarning; NULL without one */
	bool		has_status;
} CrdVersion;

static const char age_description[] =
"CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to "
"be set in happens-before order across separate operations. Clients may not set this value. It is represented in "
"RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
"https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/* Keywords that may stand at the root of a schema when the status is a subresource. */
static const char *const root_keywords_with_status[] = {
	"description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
	"minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items", "properties",
	"externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
};

static FieldPath
member_path(const FieldPath *parent, const char *key)
{
	FieldPath	path = {parent, {key, strlen(key)}, -1, false};

	return path;
}

static FieldPath
item_path(const FieldPath *parent, size_t index)
{
	FieldPath	path = {parent, {NULL, 0}, (int64_t) index, false};

	return path;
}

/* A null counts as absent, as in Go. */
static const JsonNode *
get_member(const JsonNode *object, const char *key)
{
	const JsonNode *value = json_get(object, key);

	return value != NULL && value->kind != JSON_KIND_NULL ? value : NULL;
}

/* The member when it has this kind.  NULL when it is absent; NULL with an error when it has another kind. */
static const JsonNode *
get_kind(CrdReader *reader, const JsonNode *object, const char *key, JsonKind kind, const FieldPath *parent)
{
	const JsonNode *value = get_member(object, key);
	FieldPath	path = member_path(parent, key);
	bool		is_vowel = kind == JSON_KIND_OBJECT || kind == JSON_KIND_ARRAY || kind == JSON_KIND_INTEGER;

	if (value == NULL || value->kind == kind)
		return value;
	field_error(reader->errors, FIELD_INVALID, &path, value,
				arena_printf(reader->arena, "must be %s %s", is_vowel ? "an" : "a", json_kind_name(kind)));
	return NULL;
}

/* The member if it is a string that is not empty; NULL if it is absent or empty; NULL and an error for another kind. */
static const JsonNode *
get_string(CrdReader *reader, const JsonNode *object, const char *key, const FieldPath *parent)
{
	const JsonNode *value = get_kind(reader, object, key, JSON_KIND_STRING, parent);

	return value != NULL && value->u.string.len > 0 ? value : NULL;
}

static const JsonNode *
get_required_string(CrdReader *reader, const JsonNode *object, const char *key, const FieldPath *parent)
{
	size_t		before = reader->errors->count;
	const JsonNode *value = get_string(reader, object, key, parent);
	FieldPath	path = member_path(parent, key);

	if (value == NULL && reader->errors->count == before)
		field_error(reader->errors, FIELD_REQUIRED, &path, NULL, NULL);
	return value;
}

static bool
get_bool(CrdReader *reader, const JsonNode *object, const char *key, const FieldPath *parent)
{
	const JsonNode *value = get_kind(reader, object, key, JSON_KIND_BOOL, parent);

	return value != NULL && value->u.boolean;
}

/* A field that this server does not support must be absent or empty. */
static void
refuse_member(CrdReader *reader, const JsonNode *object, const char *key, const FieldPath *parent)
{
	const JsonNode *value = get_member(object, key);
	FieldPath	path = member_path(parent, key);

	if (value != NULL && !(value->kind == JSON_KIND_ARRAY && value->u.array.count == 0))
		field_error(reader->errors, FIELD_FORBIDDEN, &path, NULL,
					arena_printf(reader->arena, "%s is not supported", key));
}

static void
refuse_unknown_members(CrdReader *reader, const JsonNode *object, const char *const *known, const FieldPath *parent)
{
	for (size_t i = 0; i < object->u.object.count; i++)
	{
		const JsonMember *member = &object->u.object.members[i];
		FieldPath	path = {parent, member->key, -1, false};
		const char *const *name = known;

		while (*name != NULL && !json_text_is(member->key, *name))
			name++;
		if (*name == NULL)
			field_error(reader->errors, FIELD_FORBIDDEN, &path, NULL, "unknown field");
	}
}

static void
check_label(CrdReader *reader, const JsonNode *value, const FieldPath *path)
{
	const char *error = schema_label_error(reader->arena, value->u.string);

	if (error != NULL)
		field_error(reader->errors, FIELD_INVALID, path, value, error);
}

static void
check_label_list(CrdReader *reader, const char *key, const FieldPath *names_path)
{
	const JsonNode *list = get_kind(reader, reader->names, key, JSON_KIND_ARRAY, names_path);
	FieldPath	list_path = member_path(names_path, key);

	for (size_t i = 0; list != NULL && i < list->u.array.count; i++)
	{
		const JsonNode *value = list->u.array.items[i];
		FieldPath	path = item_path(&list_path, i);

		if (value->kind != JSON_KIND_STRING)
			field_error(reader->errors, FIELD_INVALID, &path, value, "must be a string");
		else
			check_label(reader, value, &path);
	}
}

static void
check_group_and_name(CrdReader *reader, const JsonNode *crd, const FieldPath *spec_path)
{
	FieldPath	metadata_path = member_path(NULL, "metadata");
	FieldPath	name_path = member_path(&metadata_path, "name");
	FieldPath	group_path = member_path(spec_path, "group");
	const JsonNode *group = get_required_string(reader, reader->spec, "group", spec_path);
	const JsonNode *plural = get_member(reader->names, "plural");
	const JsonNode *name = get_required_string(reader, get_member(crd, "metadata"), "name", &metadata_path);

	if (group != NULL)
	{
		if (!is_dns1123_subdomain(group->u.string))
			field_error(reader->errors, FIELD_INVALID, &group_path, group,
						"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
						"'.', and "
						"must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
						"validation "
						"is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
		else if (memchr(group->u.string.bytes, '.', group->u.string.len) == NULL)
			field_error(reader->errors, FIELD_INVALID, &group_path, group, "should be a domain with at least one dot");
	}
	if (name != NULL && group != NULL && plural != NULL && plural->kind == JSON_KIND_STRING)
	{
		JsonText	p = plural->u.string;
		JsonText	g = group->u.string;
		JsonText	n = name->u.string;

		if (n.len != p.len + 1 + g.len || n.bytes[p.len] != '.' ||
			(p.len > 0 && memcmp(n.bytes, p.bytes, p.len) != 0) ||
			memcmp(n.bytes + p.len + 1, g.bytes, g.len) != 0)
			field_error(reader->errors, FIELD_INVALID, &name_path, name, "must be spec.names.plural+\".\"+spec.group");
	}
}

/* plural and kind are required; singular and listKind default to values made from the kind. */
static void
check_names(CrdReader *reader, const FieldPath *spec_path)
{
	static const char *const known[] = {
		"categories", "kind", "listKind", "plural", "shortNames", "singular", NULL
	};
	FieldPath	names_path = member_path(spec_path, "names");
	FieldPath	plural_path = member_path(&names_path, "plural");
	FieldPath	singular_path = member_path(&names_path, "singular");
	FieldPath	kind_path = member_path(&names_path, "kind");
	FieldPath	list_kind_path = member_path(&names_path, "listKind");
	const JsonNode *plural = get_required_string(reader, reader->names, "plural", &names_path);
	const JsonNode *singular = get_string(reader, reader->names, "singular", &names_path);
	const JsonNode *kind = get_required_string(reader, reader->names, "kind", &names_path);
	const JsonNode *list_kind = get_string(reader, reader->names, "listKind", &names_path);
	const char *error;

	refuse_unknown_members(reader, reader->names, known, &names_path);
	if (plural != NULL)
		check_label(reader, plural, &plural_path);
	if (singular != NULL)
		check_label(reader, singular, &singular_path);
	if (kind != NULL && (error = schema_kind_error(reader->arena, kind->u.string)) != NULL)
		field_error(reader->errors, FIELD_INVALID, &kind_path, kind, error);
	if (kind != NULL && list_kind == NULL && kind->u.string.len > CRD_MAX_KIND)
		field_error(reader->errors, FIELD_INVALID, &list_kind_path, kind,
					"must be given when the kind is too long to be followed by List");
	if (list_kind != NULL && (error = schema_kind_error(reader->arena, list_kind->u.string)) != NULL)
		field_error(reader->errors, FIELD_INVALID, &list_kind_path, list_kind, error);
	if (kind != NULL && list_kind != NULL && json_same(kind, list_kind))
		field_error(reader->errors, FIELD_INVALID, &list_kind_path, list_kind, "kind and listKind may not be the same");
	check_label_list(reader, "shortNames", &names_path);
	check_label_list(reader, "categories", &names_path);
}

static void
check_scope(CrdReader *reader, const FieldPath *spec_path)
{
	FieldPath	path = member_path(spec_path, "scope");
	const JsonNode *scope = get_required_string(reader, reader->spec, "scope", spec_path);

	if (scope != NULL && !json_string_is(scope, "Namespaced") && !json_string_is(scope, "Cluster"))
		field_error(reader->errors, FIELD_NOT_SUPPORTED, &path, scope, "supported values: \"Cluster\", \"Namespaced\"");
}

static void
check_conversion(CrdReader *reader, const FieldPath *spec_path)
{
	static const char *const known[] = {"strategy", "webhook", NULL};
	FieldPath	path = member_path(spec_path, "conversion");
	FieldPath	strategy_path = member_path(&path, "strategy");
	FieldPath	webhook_path = member_path(&path, "webhook");
	const JsonNode *conversion = get_kind(reader, reader->spec, "conversion", JSON_KIND_OBJECT, spec_path);
	const JsonNode *strategy;

	if (conversion == NULL)
		return;
	refuse_unknown_members(reader, conversion, known, &path);
	strategy = get_required_string(reader, conversion, "strategy", &path);
	if (strategy != NULL && json_string_is(strategy, "Webhook"))
		field_error(reader->errors, FIELD_FORBIDDEN, &strategy_path, NULL, "conversion by a webhook is not supported");
	else if (strategy != NULL && !json_string_is(strategy, "None"))
		field_error(reader->errors, FIELD_NOT_SUPPORTED, &strategy_path, strategy, "supported values: \"None\"");
	else if (get_member(conversion, "webhook") != NULL)
		field_error(reader->errors, FIELD_FORBIDDEN, &webhook_path, NULL,
					"should not be set when strategy is not set to Webhook");
}

static bool
is_listed(const JsonNode *value, const char *const *list)
{
	while (*list != NULL && !json_string_is(value, *list))
		list++;
	return *list != NULL;
}

static void
check_column(CrdReader *reader, const JsonNode *column, const FieldPath *path)
{
	static const char *const known[] = {"description", "format", "jsonPath", "name", "priority", "type", NULL};
	static const char *const types[] = {"boolean", "date", "integer", "number", "string", NULL};
	static const char *const formats[] = {
		"byte", "date", "date-time", "double", "float", "int32", "int64", "password", NULL
	};
	FieldPath	type_path = member_path(path, "type");
	FieldPath	format_path = member_path(path, "format");
	FieldPath	json_path = member_path(path, "jsonPath");
	const JsonNode *type;
	const JsonNode *format;
	const JsonNode *text;
	const char *error;

	if (column->kind != JSON_KIND_OBJECT)
	{
		field_error(reader->errors, FIELD_INVALID, path, column, "must be an object");
		return;
	}
	refuse_unknown_members(reader, column, known, path);
	get_required_string(reader, column, "name", path);
	get_string(reader, column, "description", path);
	get_kind(reader, column, "priority", JSON_KIND_INTEGER, path);
	type = get_string(reader, column, "type", path);
	if (type == NULL)
		field_error(reader->errors, FIELD_REQUIRED, &type_path, NULL,
					"must be one of boolean,date,integer,number,string");
	else if (!is_listed(type, types))
		field_error(reader->errors, FIELD_INVALID, &type_path, type,
					"must be one of boolean,date,integer,number,string");
	format = get_string(reader, column, "format", path);
	if (format != NULL && !is_listed(format, formats))
		field_error(reader->errors, FIELD_INVALID, &format_path, format,
					"must be one of byte,date,date-time,double,float,int32,int64,password");
	text = get_required_string(reader, column, "jsonPath", path);
	if (text == NULL)
		return;
	if (text->u.string.bytes[0] != '.')
		field_error(reader->errors, FIELD_INVALID, &json_path, text, "must be a simple json path starting with .");
	else if (memchr(text->u.string.bytes, '\0', text->u.string.len) != NULL)
		field_error(reader->errors, FIELD_INVALID, &json_path, text, "must not contain a NUL character");
	else if (jsonpath_compile(reader->arena, arena_strndup(reader->arena, text->u.string.bytes, text->u.string.len),
							  &error) == NULL)
		field_error(reader->errors, FIELD_INVALID, &json_path, text, error);
}

static void
check_columns(CrdReader *reader, const JsonNode *version, const FieldPath *path)
{
	FieldPath	columns_path = member_path(path, "additionalPrinterColumns");
	const JsonNode *columns = get_kind(reader, version, "additionalPrinterColumns", JSON_KIND_ARRAY, path);

	for (size_t i = 0; columns != NULL && i < columns->u.array.count; i++)
	{
		FieldPath	at = item_path(&columns_path, i);

		check_column(reader, columns->u.array.items[i], &at);
	}
}

/* Whether the version has the status subresource. */
static bool
check_subresources(CrdReader *reader, const JsonNode *version, const FieldPath *path)
{
	static const char *const known[] = {"scale", "status", NULL};
	FieldPath	subresources_path = member_path(path, "subresources");
	const JsonNode *subresources = get_kind(reader, version, "subresources", JSON_KIND_OBJECT, path);

	if (subresources == NULL)
		return false;
	refuse_unknown_members(reader, subresources, known, &subresources_path);
	refuse_member(reader, subresources, "scale", &subresources_path);
	return get_kind(reader, subresources, "status", JSON_KIND_OBJECT, &subresources_path) != NULL;
}

/* The status is validated separately, so keywords at the root of the schema must not apply to both parts. */
static void
check_root_with_status(CrdReader *reader, const JsonNode *schema, const FieldPath *path)
{
	size_t		count = sizeof(root_keywords_with_status) / sizeof(root_keywords_with_status[0]);

	for (size_t i = 0; i < schema->u.object.count; i++)
	{
		const JsonMember *member = &schema->u.object.members[i];
		FieldPath	at = {path, member->key, -1, false};
		size_t		k = 0;

		while (k < count && !json_text_is(member->key, root_keywords_with_status[k]))
			k++;
		if (k == count && member->value->kind != JSON_KIND_NULL &&
			!(member->value->kind == JSON_KIND_BOOL && !member->value->u.boolean))
			field_error(reader->errors, FIELD_FORBIDDEN, &at, NULL,
						"must not be used at the root of the schema if the status subresource is enabled");
	}
}

static void
check_schema(CrdReader *reader, const JsonNode *version, bool has_status, const FieldPath *path)
{
	static const char *const known[] = {"openAPIV3Schema", NULL};
	FieldPath	validation_path = member_path(path, "schema");
	FieldPath	schema_path = member_path(&validation_path, "openAPIV3Schema");
	const JsonNode *validation = get_kind(reader, version, "schema", JSON_KIND_OBJECT, path);
	const JsonNode *schema = get_member(validation, "openAPIV3Schema");

	if (validation != NULL)
		refuse_unknown_members(reader, validation, known, &validation_path);
	if (schema == NULL)
	{
		field_error(reader->errors, FIELD_REQUIRED, &schema_path, NULL, NULL);
		return;
	}
	if (has_status && schema->kind == JSON_KIND_OBJECT)
		check_root_with_status(reader, schema, &schema_path);
	schema_compile(reader->arena, schema, field_path_string(reader->arena, &schema_path), reader->errors);
}

static void
read_deprecation(CrdReader *reader, const JsonNode *document, const FieldPath *path, CrdVersion *version)
{
	FieldPath	warning_path = member_path(path, "deprecationWarning");
	const JsonNode *warning = get_kind(reader, document, "deprecationWarning", JSON_KIND_STRING, path);

	version->deprecated = get_bool(reader, document, "deprecated", path);
	version->warning = warning;
	if (warning == NULL)
		return;
	if (!version->deprecated)
		field_error(reader->errors, FIELD_INVALID, &warning_path, warning, "can only be set for deprecated versions");
	if (warning->u.string.len > 256)
		field_error(reader->errors, FIELD_INVALID, &warning_path, warning, "must be <= 256 characters long");
	if (warning->u.string.len == 0)
		field_error(reader->errors, FIELD_INVALID, &warning_path, warning, "must not be an empty string");
}

static JsonNode *
copy_or(CrdReader *reader, const JsonNode *object, const char *key, JsonNode *otherwise)
{
	const JsonNode *value = get_member(object, key);

	return value != NULL ? json_clone(reader->arena, value) : otherwise;
}

static JsonNode *
printed_node(CrdReader *reader, const JsonNode *value, const char *suffix, bool lower)
{
	char	   *text = arena_printf(reader->arena, "%.*s%s", (int) value->u.string.len, value->u.string.bytes, suffix);

	for (char *p = text; lower && *p != '\0'; p++)
	{
		if (*p >= 'A' && *p <= 'Z')
			*p = (char) (*p - 'A' + 'a');
	}
	return json_new_cstring(reader->arena, text);
}

/* Sets the names that the definition of every version and the whole result have in common. */
static void
set_names(CrdReader *reader, JsonNode *object)
{
	Arena	   *arena = reader->arena;
	const JsonNode *kind = get_member(reader->names, "kind");
	const JsonNode *singular = get_member(reader->names, "singular");
	const JsonNode *list_kind = get_member(reader->names, "listKind");

	json_set(arena, object, "group", copy_or(reader, reader->spec, "group", NULL));
	json_set(arena, object, "plural", copy_or(reader, reader->names, "plural", NULL));
	json_set(arena, object, "kind", json_clone(arena, kind));
	json_set(arena, object, "singular", singular != NULL && singular->u.string.len > 0 ?
			 json_clone(arena, singular) : printed_node(reader, kind, "", true));
	json_set(arena, object, "listKind", list_kind != NULL && list_kind->u.string.len > 0 ?
			 json_clone(arena, list_kind) : printed_node(reader, kind, "List", false));
	json_set(arena, object, "scope", copy_or(reader, reader->spec, "scope", NULL));
	json_set(arena, object, "shortNames", copy_or(reader, reader->names, "shortNames", json_new_array(arena)));
	json_set(arena, object, "categories", copy_or(reader, reader->names, "categories", json_new_array(arena)));
}

static JsonNode *
default_columns(Arena *arena)
{
	JsonNode   *columns = json_new_array(arena);
	JsonNode   *age = json_new_object(arena);

	json_set(arena, age, "name", json_new_cstring(arena, "Age"));
	json_set(arena, age, "type", json_new_cstring(arena, "date"));
	json_set(arena, age, "jsonPath", json_new_cstring(arena, ".metadata.creationTimestamp"));
	json_set(arena, age, "description", json_new_cstring(arena, age_description));
	json_append(arena, columns, age);
	return columns;
}

/*
 * The warning for users of a deprecated version: the text of the CRD, or else upstream's text, which names the best
 * version to use instead.  better holds the versions with a higher priority than this one.
 */
static JsonNode *
deprecation_warning(CrdReader *reader, const CrdVersion *version, const CrdVersion *better, size_t better_count)
{
	Arena	   *arena = reader->arena;
	const char *group = json_get_cstring(arena, reader->spec, "group");
	const char *kind = json_get_cstring(arena, reader->names, "kind");

	if (version->warning != NULL)
		return json_clone(arena, version->warning);
	for (size_t i = 0; i < better_count; i++)
	{
		if (better[i].served && !better[i].deprecated)
			return json_new_cstring(arena, arena_printf(arena, "%s/%s %s is deprecated; use %s/%s %s", group,
														version->name, kind,
														group, better[i].name, kind));
	}
	return json_new_cstring(arena, arena_printf(arena, "%s/%s %s is deprecated", group, version->name, kind));
}

static JsonNode *
make_definition(CrdReader *reader, const CrdVersion *versions, size_t at)
{
	const CrdVersion *version = &versions[at];
	Arena	   *arena = reader->arena;
	JsonNode   *definition = json_new_object(arena);
	const JsonNode *columns = get_member(version->document, "additionalPrinterColumns");
	JsonNode   *rules;

	set_names(reader, definition);
	json_set(arena, definition, "version", json_new_cstring(arena, version->name));
	json_set(arena, definition, "status", json_new_bool(arena, version->has_status));
	json_set(arena, definition, "storage", json_new_bool(arena, version->storage));
	json_set(arena, definition, "columns", columns != NULL && columns->u.array.count > 0 ?
			 json_clone(arena, columns) : default_columns(arena));
	if (version->deprecated)
		json_set(arena, definition, "deprecationWarning", deprecation_warning(reader, version, versions, at));
	rules = schema_rules(arena, json_path(version->document, "schema", "openAPIV3Schema", NULL));
	if (rules->u.array.count > 0)
		json_set(arena, definition, "unevaluatedRules", rules);
	json_set(arena, definition, "schema",
			 json_clone(arena, json_path(version->document, "schema", "openAPIV3Schema", NULL)));
	return definition;
}

static int
compare_versions(const void *a, const void *b)
{
	const CrdVersion *x = a;
	const CrdVersion *y = b;

	return version_priority_compare(x->name, y->name);
}

static void
read_version(CrdReader *reader, const JsonNode *document, const FieldPath *path, CrdVersion *version)
{
	static const char *const known[] = {
		"additionalPrinterColumns", "deprecated", "deprecationWarning", "name", "schema", "selectableFields", "served",
		"storage", "subresources", NULL
	};
	FieldPath	name_path = member_path(path, "name");
	const JsonNode *name;

	version->document = document;
	if (document->kind != JSON_KIND_OBJECT)
	{
		field_error(reader->errors, FIELD_INVALID, path, document, "must be an object");
		return;
	}
	refuse_unknown_members(reader, document, known, path);
	name = get_required_string(reader, document, "name", path);
	if (name != NULL)
	{
		check_label(reader, name, &name_path);
		version->name = json_get_cstring(reader->arena, document, "name");
	}
	version->served = get_bool(reader, document, "served", path);
	version->storage = get_bool(reader, document, "storage", path);
	read_deprecation(reader, document, path, version);
	version->has_status = check_subresources(reader, document, path);
	check_schema(reader, document, version->has_status, path);
	check_columns(reader, document, path);
	refuse_member(reader, document, "selectableFields", path);
}

/* Checks the rules for all versions together; messages show the names of the versions. */
static void
check_versions(CrdReader *reader, const CrdVersion *versions, size_t count, const FieldPath *path)
{
	JsonNode   *names = json_new_array(reader->arena);
	size_t		storage = 0;
	size_t		served = 0;
	bool		unique = true;

	for (size_t i = 0; i < count; i++)
	{
		storage += versions[i].storage;
		served += versions[i].served;
		if (versions[i].name == NULL)
			continue;
		json_append(reader->arena, names, json_new_cstring(reader->arena, versions[i].name));
		for (size_t k = 0; k < i; k++)
			unique = unique && (versions[k].name == NULL || strcmp(versions[k].name, versions[i].name) != 0);
	}
	if (!unique)
		field_error(reader->errors, FIELD_INVALID, path, names, "must contain unique version names");
	if (storage != 1)
		field_error(reader->errors, FIELD_INVALID, path, names,
					"must have exactly one version marked as storage version");
	if (served == 0)
		field_error(reader->errors, FIELD_INVALID, path, names, "must have at least one version marked as served");
}

/* Reads all versions; NULL when the CRD has none or too many. */
static CrdVersion *
read_versions(CrdReader *reader, const FieldPath *spec_path, size_t *count)
{
	FieldPath	path = member_path(spec_path, "versions");
	size_t		before = reader->errors->count;
	const JsonNode *list = get_kind(reader, reader->spec, "versions", JSON_KIND_ARRAY, spec_path);
	CrdVersion *versions;

	*count = 0;
	if (list == NULL || list->u.array.count == 0)
	{
		if (reader->errors->count == before)
			field_error(reader->errors, FIELD_REQUIRED, &path, NULL, NULL);
		return NULL;
	}
	if (list->u.array.count > CRD_MAX_VERSIONS)
	{
		field_error(reader->errors, FIELD_TOO_MANY, &path, NULL,
					arena_printf(reader->arena, "%zu: must have at most %d items", list->u.array.count,
								 CRD_MAX_VERSIONS));
		return NULL;
	}
	*count = list->u.array.count;
	versions = arena_alloc0(reader->arena, *count * sizeof(CrdVersion));
	for (size_t i = 0; i < *count; i++)
	{
		FieldPath	at = item_path(&path, i);

		read_version(reader, list->u.array.items[i], &at, &versions[i]);
	}
	check_versions(reader, versions, *count, &path);
	return versions;
}

static void
check_type_meta(CrdReader *reader, const JsonNode *crd)
{
	static const char *const expected[][2] = {
		{"apiVersion", "apiextensions.k8s.io/v1"},
		{"kind", "CustomResourceDefinition"},
	};

	for (size_t i = 0; i < 2; i++)
	{
		FieldPath	path = member_path(NULL, expected[i][0]);
		const JsonNode *value = get_required_string(reader, crd, expected[i][0], NULL);

		if (value != NULL && !json_string_is(value, expected[i][1]))
			field_error(reader->errors, FIELD_INVALID, &path, value,
						arena_printf(reader->arena, "must be %s", expected[i][1]));
	}
}

JsonNode *
crd_definitions(Arena *arena, const JsonNode *crd, FieldErrorList *errors)
{
	static const char *const known[] = {
		"conversion", "group", "names", "preserveUnknownFields", "scope", "versions", NULL
	};
	CrdReader	reader = {arena, errors, NULL, NULL};
	FieldPath	spec_path = member_path(NULL, "spec");
	FieldPath	names_path = member_path(&spec_path, "names");
	FieldPath	preserve_path = member_path(&spec_path, "preserveUnknownFields");
	size_t		before = errors->count;
	CrdVersion *versions;
	size_t		count;
	JsonNode   *result;
	JsonNode   *definitions;

	if (crd->kind != JSON_KIND_OBJECT)
	{
		field_error(errors, FIELD_INVALID, NULL, crd, "must be a CustomResourceDefinition");
		return NULL;
	}
	check_type_meta(&reader, crd);
	reader.spec = get_kind(&reader, crd, "spec", JSON_KIND_OBJECT, NULL);
	reader.names = reader.spec != NULL ? get_kind(&reader, reader.spec, "names", JSON_KIND_OBJECT, &spec_path) : NULL;
	if (reader.names == NULL)
	{
		if (errors->count == before)
			field_error(errors, FIELD_REQUIRED, reader.spec != NULL ? &names_path : &spec_path, NULL, NULL);
		return NULL;
	}
	refuse_unknown_members(&reader, reader.spec, known, &spec_path);
	check_group_and_name(&reader, crd, &spec_path);
	check_scope(&reader, &spec_path);
	versions = read_versions(&reader, &spec_path, &count);
	check_names(&reader, &spec_path);
	check_conversion(&reader, &spec_path);
	if (get_bool(&reader, reader.spec, "preserveUnknownFields", &spec_path))
		field_error(errors, FIELD_INVALID, &preserve_path, json_new_bool(arena, true),
					"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema "
					"instead");
	if (errors->count > before || versions == NULL)
		return NULL;

	qsort(versions, count, sizeof(CrdVersion), compare_versions);
	definitions = json_new_array(arena);
	for (size_t i = 0; i < count; i++)
	{
		if (versions[i].served)
			json_append(arena, definitions, make_definition(&reader, versions, i));
	}
	result = json_new_object(arena);
	set_names(&reader, result);
	json_set(arena, result, "versions", definitions);
	return result;
}
