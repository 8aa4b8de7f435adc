/*-------------------------------------------------------------------------
 *
 * openapi_v3.c
 *	  The OpenAPI v3 document of one group and version.
 *
 * kubectl finds a kind by x-kubernetes-group-version-kind, which is an object
 * on operations and an array on schemas.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/answers/discovery.h"
#include "engine/answers/openapi_schema.h"

static void
put_parameter(Arena *arena, JsonNode *list, const OpenApiParameter *parameter)
{
	JsonNode   *node = json_new_object(arena);
	JsonNode   *schema = openapi_put_object(arena, node, "schema");

	openapi_put_text(arena, node, "name", parameter->name);
	openapi_put_text(arena, node, "in", parameter->place);
	openapi_put_text(arena, node, "description", parameter->description);
	if (parameter->place[0] == 'p')
		json_set(arena, node, "required", json_new_bool(arena, true));
	openapi_put_text(arena, schema, "type", parameter->type);
	json_set(arena, schema, "uniqueItems", json_new_bool(arena, true));
	json_append(arena, list, node);
}

/* Puts the same schema for each media type. */
static void
put_content(Arena *arena, JsonNode *parent, const char *const *media_types, JsonNode *schema)
{
	JsonNode   *content = openapi_put_object(arena, parent, "content");

	for (; *media_types != NULL; media_types++)
		json_set(arena, openapi_put_object(arena, content, *media_types), "schema", schema);
}

static JsonNode *
operation_node(Arena *arena, const OpenApiPath *path, const OpenApiOperation *operation)
{
	JsonNode   *node = json_new_object(arena);
	JsonNode   *tags = json_new_array(arena);
	JsonNode   *responses = openapi_put_object(arena, node, "responses");
	JsonNode   *answer = openapi_shape_reference(arena, OPENAPI_V3, operation->answer, path->definition);
	const OpenApiParameter *parameter;

	json_append(arena, tags, json_new_cstring(arena, openapi_tag(arena, path->definition)));
	json_set(arena, node, "tags", tags);
	openapi_put_text(arena, node, "operationId", operation->id);
	openapi_put_text(arena, node, "description", operation->description);
	openapi_put_text(arena, node, "x-kubernetes-action", operation->action);
	json_set(arena, node, "x-kubernetes-group-version-kind",
			 openapi_kind_extension(arena, path->definition, openapi_text(arena, path->definition, "kind")));

	if (openapi_query_parameter(operation->verb, 0) != NULL)
	{
		JsonNode   *parameters = json_new_array(arena);

		for (size_t i = 0; (parameter = openapi_query_parameter(operation->verb, i)) != NULL; i++)
			put_parameter(arena, parameters, parameter);
		json_set(arena, node, "parameters", parameters);
	}
	if (operation->body != OPENAPI_SHAPE_NONE)
	{
		JsonNode   *body = openapi_put_object(arena, node, "requestBody");

		if (operation->body_required)
			json_set(arena, body, "required", json_new_bool(arena, true));
		put_content(arena, body,
					operation->body == OPENAPI_SHAPE_PATCH ? openapi_patch_types : openapi_media_types,
					openapi_shape_reference(arena, OPENAPI_V3, operation->body, path->definition));
	}
	for (const int *code = operation->codes; *code != 0; code++)
	{
		JsonNode   *response = openapi_put_object(arena, responses, arena_printf(arena, "%d", *code));

		openapi_put_text(arena, response, "description", openapi_code_text(*code));
		put_content(arena, response, openapi_media_types, answer);
	}
	openapi_put_text(arena, openapi_put_object(arena, responses, "401"), "description", openapi_code_text(401));
	return node;
}

static void
put_path(Arena *arena, JsonNode *paths, const OpenApiPath *path)
{
	JsonNode   *node = openapi_put_object(arena, paths, path->path);
	JsonNode   *parameters = json_new_array(arena);
	const OpenApiParameter *parameter;

	for (size_t i = 0; (parameter = openapi_path_parameter(path, i)) != NULL; i++)
		put_parameter(arena, parameters, parameter);
	json_set(arena, node, "parameters", parameters);
	for (size_t i = 0; i < path->count; i++)
		json_set(arena, node, path->operations[i].method, operation_node(arena, path, &path->operations[i]));
}

void
openapi_v3_document(StrBuf *buf, Arena *arena, const JsonNode *const *definitions, size_t count)
{
	JsonNode   *document = json_new_object(arena);
	JsonNode   *info = openapi_put_object(arena, document, "info");
	JsonNode   *paths = openapi_put_object(arena, document, "paths");
	JsonNode   *schemas = openapi_put_object(arena, openapi_put_object(arena, document, "components"), "schemas");

	openapi_put_text(arena, document, "openapi", "3.0.0");
	openapi_put_text(arena, info, "title", API_SERVER_TITLE);
	openapi_put_text(arena, info, "version", API_SERVER_VERSION);
	for (size_t i = 0; i < count; i++)
	{
		size_t		path_count;
		const OpenApiPath *list = openapi_paths(arena, definitions[i], &path_count);

		arena_checkpoint();
		for (size_t j = 0; j < path_count; j++)
			put_path(arena, paths, &list[j]);
		openapi_add_kind(arena, OPENAPI_V3, schemas, definitions[i]);
	}
	openapi_add_meta_types(arena, OPENAPI_V3, schemas);
	json_write(buf, document);
}
