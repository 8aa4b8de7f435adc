/*-------------------------------------------------------------------------
 *
 * openapi_operations.c
 *	  The paths and operations of a served type, for both OpenAPI versions.
 *
 * From the operations, kubectl learns whether the server checks fields
 * (fieldValidation on the PATCH of a kind) and which kinds of patch the server
 * accepts.  So the operations must match the behaviour of the server.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/answers/discovery.h"
#include "engine/answers/openapi_schema.h"

#include <string.h>

#include "engine/base/ascii.h"

#define BIT(verb) (1U << (verb))

/* Paths of one resource: the list over all namespaces, the collection, the object, its status. */
#define MAX_PATHS 4

const char *const openapi_media_types[] = {"application/json", NULL};
const char *const openapi_patch_types[] = {
	"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml", NULL
};

static const int codes_ok[] = {200, 0};
static const int codes_created[] = {201, 0};
static const int codes_deleted[] = {200, 202, 0};

/* Indexed by OpenApiVerb. */
static const struct
{
	const char *word;			/* of the operation's id */
	const char *method;
	const char *action;
	const char *description;	/* of an object; %s is the kind */
	const char *status_description;
	OpenApiShape body;
	bool		body_required;
	OpenApiShape answer;
	const int  *codes;
}			verbs[] = {

	[OPENAPI_VERB_LIST] = {"list", "get", "list", "List or watch objects of kind %s", NULL,
	OPENAPI_SHAPE_NONE, false, OPENAPI_SHAPE_LIST, codes_ok},
	[OPENAPI_VERB_CREATE] = {"create", "post", "post", "Create an object of kind %s", NULL,
	OPENAPI_SHAPE_OBJECT, true, OPENAPI_SHAPE_OBJECT, codes_created},
	[OPENAPI_VERB_DELETE_COLLECTION] = {"deletecollection", "delete", "deletecollection",
		"Delete all selected objects of kind %s", NULL,
	OPENAPI_SHAPE_DELETE_OPTIONS, false, OPENAPI_SHAPE_STATUS, codes_ok},
	[OPENAPI_VERB_READ] = {"read", "get", "get", "Read one object of kind %s",
		"Read the status of one object of kind %s",
	OPENAPI_SHAPE_NONE, false, OPENAPI_SHAPE_OBJECT, codes_ok},
	[OPENAPI_VERB_REPLACE] = {"replace", "put", "put", "Replace one object of kind %s",
		"Replace the status of one object of kind %s",
	OPENAPI_SHAPE_OBJECT, true, OPENAPI_SHAPE_OBJECT, codes_ok},
	[OPENAPI_VERB_PATCH] = {"patch", "patch", "patch", "Change one object of kind %s in part",
		"Change the status of one object of kind %s in part",
	OPENAPI_SHAPE_PATCH, true, OPENAPI_SHAPE_OBJECT, codes_ok},
	[OPENAPI_VERB_DELETE] = {"delete", "delete", "delete", "Delete one object of kind %s", NULL,
	OPENAPI_SHAPE_DELETE_OPTIONS, false, OPENAPI_SHAPE_STATUS, codes_deleted},
};

#define LISTS (BIT(OPENAPI_VERB_LIST) | BIT(OPENAPI_VERB_DELETE_COLLECTION))
#define WRITES (BIT(OPENAPI_VERB_CREATE) | BIT(OPENAPI_VERB_REPLACE) | BIT(OPENAPI_VERB_PATCH))
#define DELETIONS (BIT(OPENAPI_VERB_DELETE) | BIT(OPENAPI_VERB_DELETE_COLLECTION))

static const OpenApiParameter query_parameters[] = {
	{"allowWatchBookmarks", "query", "boolean", BIT(OPENAPI_VERB_LIST),
	"Ask for events of type BOOKMARK, which tell how far a watch has come."},
	{"continue", "query", "string", LISTS, "The continue value of the page before."},
	{"dryRun", "query", "string", WRITES | DELETIONS, "With the value All nothing is changed."},
	{"fieldManager", "query", "string", WRITES, "Name of who makes the change, at most 128 characters."},
	{"fieldSelector", "query", "string", LISTS, "Restricts the objects by metadata.name and metadata.namespace."},
	{"fieldValidation", "query", "string", WRITES,
	"What becomes of unknown and duplicate fields: Ignore drops them, Warn warns, Strict refuses the request."},
	{"force", "query", "boolean", BIT(OPENAPI_VERB_PATCH),
	"Take over fields that other managers own; of apply patches only."},
	{"gracePeriodSeconds", "query", "integer", DELETIONS, "Seconds an object is given before it goes."},
	{"labelSelector", "query", "string", LISTS, "Restricts the objects by their labels."},
	{"limit", "query", "integer", LISTS, "The largest number of objects in one answer."},
	{"orphanDependents", "query", "boolean", DELETIONS, "Use propagationPolicy instead."},
	{"propagationPolicy", "query", "string", DELETIONS,
	"What becomes of dependents: Orphan, Background or Foreground."},
	{"resourceVersion", "query", "string", LISTS | BIT(OPENAPI_VERB_READ), "The version to read at, or to watch from."},
	{"resourceVersionMatch", "query", "string", LISTS, "How resourceVersion is meant: Exact or NotOlderThan."},
	{"sendInitialEvents", "query", "boolean", BIT(OPENAPI_VERB_LIST),
	"Whether a watch begins with events for all objects."},
	{"timeoutSeconds", "query", "integer", LISTS, "Seconds after which a watch ends."},
	{"watch", "query", "boolean", BIT(OPENAPI_VERB_LIST), "Stream changes instead of answering with a list."},
};

static const OpenApiParameter name_parameter = {"name", "path", "string", 0, "Name of the object."};
static const OpenApiParameter namespace_parameter = {"namespace", "path", "string", 0, "Namespace of the objects."};
static const OpenApiParameter pretty_parameter = {"pretty", "query", "string", 0, "If true, the answer is indented."};

/* Letters and digits of a group or version in camel case: openreports.io is OpenreportsIo. */
static char *
camel_case(Arena *arena, const char *text, bool capital)
{
	StrBuf		name;

	strbuf_init(&name, arena);
	strbuf_reserve(&name, strlen(text) + 1);
	for (const char *c = text; *c != '\0'; c++)
	{
		if (!ascii_is_letter(*c) && *c != '_' && (c == text || !ascii_is_digit(*c)))
		{
			capital = true;
			continue;
		}
		strbuf_putc(&name, capital ? ascii_upper(*c) : *c);
		capital = false;
	}
	return name.len > 0 ? name.bytes : "";
}

static const char *
short_group(Arena *arena, const JsonNode *definition)
{
	static const char suffix[] = ".k8s.io";
	const char *group = openapi_text(arena, definition, "group");
	size_t		len = strlen(group);

	if (len > sizeof(suffix) - 1 && strcmp(group + len - (sizeof(suffix) - 1), suffix) == 0)
		return arena_strndup(arena, group, len - (sizeof(suffix) - 1));
	return group;
}

char *
openapi_tag(Arena *arena, const JsonNode *definition)
{
	return arena_printf(arena, "%s_%s", camel_case(arena, short_group(arena, definition), false),
						camel_case(arena, openapi_text(arena, definition, "version"), false));
}

static bool
is_namespaced(const JsonNode *definition)
{
	return json_string_is(json_get(definition, "scope"), "Namespaced");
}

/* suffix: ForAllNamespaces for the list over all namespaces, Status for the subresource, or "". */
static void
add_operation(Arena *arena, OpenApiPath *path, OpenApiVerb verb, const char *suffix)
{
	const JsonNode *definition = path->definition;
	OpenApiOperation *operation = &path->operations[path->count++];
	const char *kind = openapi_text(arena, definition, "kind");
	bool		status = strcmp(suffix, "Status") == 0;

	operation->verb = verb;
	operation->method = verbs[verb].method;
	operation->action = verbs[verb].action;
	operation->body = verbs[verb].body;
	operation->body_required = verbs[verb].body_required;
	operation->answer = verbs[verb].answer;
	operation->codes = verbs[verb].codes;
	operation->id = arena_printf(arena, "%s%s%s%s%s%s", verbs[verb].word,
								 camel_case(arena, short_group(arena, definition), true),
								 camel_case(arena, openapi_text(arena, definition, "version"), true),
								 path->has_namespace ? "Namespaced" : "", kind, suffix);
	operation->description = arena_printf(arena,
										  status ? verbs[verb].status_description : verbs[verb].description, kind);
}

OpenApiPath *
openapi_paths(Arena *arena, const JsonNode *definition, size_t *count)
{
	OpenApiPath *paths = arena_alloc0(arena, MAX_PATHS * sizeof(OpenApiPath));
	OpenApiPath *path = paths;
	bool		namespaced = is_namespaced(definition);
	const JsonNode *status = json_get(definition, "status");
	const char *plural = openapi_text(arena, definition, "plural");
	const char *root = arena_printf(arena, "/apis/%s/%s", openapi_text(arena, definition, "group"),
									openapi_text(arena, definition, "version"));
	const char *collection = arena_printf(arena, "%s%s/%s", root, namespaced ? "/namespaces/{namespace}" : "", plural);

	for (size_t i = 0; i < MAX_PATHS; i++)
		paths[i].definition = definition;

	path->path = collection;
	path->has_namespace = namespaced;
	add_operation(arena, path, OPENAPI_VERB_LIST, "");
	add_operation(arena, path, OPENAPI_VERB_CREATE, "");
	add_operation(arena, path, OPENAPI_VERB_DELETE_COLLECTION, "");
	path++;

	path->path = arena_printf(arena, "%s/{name}", collection);
	path->has_namespace = namespaced;
	path->has_name = true;
	add_operation(arena, path, OPENAPI_VERB_READ, "");
	add_operation(arena, path, OPENAPI_VERB_REPLACE, "");
	add_operation(arena, path, OPENAPI_VERB_PATCH, "");
	add_operation(arena, path, OPENAPI_VERB_DELETE, "");
	path++;

	if (status != NULL && status->kind == JSON_KIND_BOOL && status->u.boolean)
	{
		path->path = arena_printf(arena, "%s/{name}/status", collection);
		path->has_namespace = namespaced;
		path->has_name = true;
		add_operation(arena, path, OPENAPI_VERB_READ, "Status");
		add_operation(arena, path, OPENAPI_VERB_REPLACE, "Status");
		add_operation(arena, path, OPENAPI_VERB_PATCH, "Status");
		path++;
	}
	if (namespaced)
	{
		path->path = arena_printf(arena, "%s/%s", root, plural);
		add_operation(arena, path, OPENAPI_VERB_LIST, "ForAllNamespaces");
		path++;
	}
	*count = path - paths;
	return paths;
}

const OpenApiParameter *
openapi_path_parameter(const OpenApiPath *path, size_t index)
{
	const OpenApiParameter *parameters[3];
	size_t		count = 0;

	if (path->has_name)
		parameters[count++] = &name_parameter;
	if (path->has_namespace)
		parameters[count++] = &namespace_parameter;
	parameters[count++] = &pretty_parameter;
	return index < count ? parameters[index] : NULL;
}

const OpenApiParameter *
openapi_query_parameter(OpenApiVerb verb, size_t index)
{
	for (size_t i = 0; i < sizeof(query_parameters) / sizeof(query_parameters[0]); i++)
	{
		if ((query_parameters[i].verbs & BIT(verb)) != 0 && index-- == 0)
			return &query_parameters[i];
	}
	return NULL;
}

const char *
openapi_code_text(int code)
{
	switch (code)
	{
		case 200:
			return "OK";
		case 201:
			return "Created";
		case 202:
			return "Accepted";
		default:
			return "Unauthorized";
	}
}

JsonNode *
openapi_shape_reference(Arena *arena, OpenApiVersion version, OpenApiShape shape, const JsonNode *definition)
{
	const char *kind = "kind";

	switch (shape)
	{
		case OPENAPI_SHAPE_NONE:
			return NULL;
		case OPENAPI_SHAPE_STATUS:
			return openapi_meta_reference(arena, version, OPENAPI_STATUS, NULL);
		case OPENAPI_SHAPE_PATCH:
			return openapi_meta_reference(arena, version, OPENAPI_PATCH, NULL);
		case OPENAPI_SHAPE_DELETE_OPTIONS:
			return openapi_meta_reference(arena, version, OPENAPI_DELETE_OPTIONS, NULL);
		case OPENAPI_SHAPE_LIST:
			kind = "listKind";
			break;
		case OPENAPI_SHAPE_OBJECT:
			break;
	}
	return openapi_reference(arena, version,
							 openapi_model_name(arena, openapi_text(arena, definition, "group"),
												openapi_text(arena, definition, "version"),
												openapi_text(arena, definition, kind)), NULL);
}

void
openapi_put_responses(Arena *arena, JsonNode *operation_node, const OpenApiPath *path,
					  const OpenApiOperation *operation,
					  void (*put_answer) (Arena *arena, JsonNode *response, const OpenApiPath *path,
										  const OpenApiOperation *operation))
{
	JsonNode   *responses = openapi_put_object(arena, operation_node, "responses");

	for (const int *code = operation->codes; *code != 0; code++)
	{
		JsonNode   *response = openapi_put_object(arena, responses, arena_printf(arena, "%d", *code));

		openapi_put_text(arena, response, "description", openapi_code_text(*code));
		put_answer(arena, response, path, operation);
	}
	openapi_put_text(arena, openapi_put_object(arena, responses, "401"), "description", openapi_code_text(401));
}

static void
put_path(Arena *arena, const OpenApiWriter *writer, JsonNode *paths, const OpenApiPath *path)
{
	JsonNode   *node = openapi_put_object(arena, paths, path->path);
	JsonNode   *parameters = json_new_array(arena);
	const OpenApiParameter *parameter;

	for (size_t i = 0; (parameter = openapi_path_parameter(path, i)) != NULL; i++)
		writer->put_parameter(arena, parameters, parameter);
	json_set(arena, node, "parameters", parameters);
	for (size_t i = 0; i < path->count; i++)
		json_set(arena, node, path->operations[i].method, writer->operation(arena, path, &path->operations[i]));
}

JsonNode *
openapi_document(Arena *arena, const OpenApiWriter *writer, const JsonNode *const *definitions, size_t count)
{
	JsonNode   *document = json_new_object(arena);
	JsonNode   *info = openapi_put_object(arena, document, "info");
	JsonNode   *paths = openapi_put_object(arena, document, "paths");
	JsonNode   *schemas = writer->version == OPENAPI_V2 ? openapi_put_object(arena, document, "definitions") :
	openapi_put_object(arena, openapi_put_object(arena, document, "components"), "schemas");

	openapi_put_text(arena, document, writer->version_key, writer->version_number);
	openapi_put_text(arena, info, "title", API_SERVER_TITLE);
	openapi_put_text(arena, info, "version", API_SERVER_VERSION);
	for (size_t i = 0; i < count; i++)
	{
		size_t		path_count;
		const OpenApiPath *list = openapi_paths(arena, definitions[i], &path_count);

		arena_checkpoint();
		for (size_t j = 0; j < path_count; j++)
			put_path(arena, writer, paths, &list[j]);
		openapi_add_kind(arena, writer->version, schemas, definitions[i]);
	}
	openapi_add_meta_types(arena, writer->version, schemas);
	return document;
}
