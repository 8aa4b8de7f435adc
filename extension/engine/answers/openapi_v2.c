/*-------------------------------------------------------------------------
 *
 * openapi_v2.c
 *	  The Swagger 2 document of all served types.
 *
 * kube-apiserver's aggregator, kubectl before 1.27 and tools that use the old
 * schemas read it.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/answers/openapi_schema.h"

static void
put_texts(Arena *arena, JsonNode *object, const char *key, const char *const *values)
{
	JsonNode   *list = json_new_array(arena);

	for (; *values != NULL; values++)
		json_append(arena, list, json_new_cstring(arena, *values));
	json_set(arena, object, key, list);
}

static void
put_parameter(Arena *arena, JsonNode *list, const OpenApiParameter *parameter)
{
	JsonNode   *node = json_new_object(arena);

	openapi_put_text(arena, node, "name", parameter->name);
	openapi_put_text(arena, node, "in", parameter->place);
	openapi_put_text(arena, node, "description", parameter->description);
	openapi_put_text(arena, node, "type", parameter->type);
	json_set(arena, node, "uniqueItems", json_new_bool(arena, true));
	if (parameter->place[0] == 'p')
		json_set(arena, node, "required", json_new_bool(arena, true));
	json_append(arena, list, node);
}

static void
put_body_parameter(Arena *arena, JsonNode *list, const OpenApiPath *path, const OpenApiOperation *operation)
{
	JsonNode   *node = json_new_object(arena);

	openapi_put_text(arena, node, "name", "body");
	openapi_put_text(arena, node, "in", "body");
	if (operation->body_required)
		json_set(arena, node, "required", json_new_bool(arena, true));
	json_set(arena, node, "schema", openapi_shape_reference(arena, OPENAPI_V2, operation->body, path->definition));
	json_append(arena, list, node);
}

static void
put_answer(Arena *arena, JsonNode *response, const OpenApiPath *path, const OpenApiOperation *operation)
{
	json_set(arena, response, "schema",
			 openapi_shape_reference(arena, OPENAPI_V2, operation->answer, path->definition));
}

static JsonNode *
operation_node(Arena *arena, const OpenApiPath *path, const OpenApiOperation *operation)
{
	static const char *const schemes[] = {"https", NULL};
	const char *const tags[] = {openapi_tag(arena, path->definition), NULL};
	JsonNode   *node = json_new_object(arena);
	JsonNode   *parameters = json_new_array(arena);
	const OpenApiParameter *parameter;

	put_texts(arena, node, "tags", tags);
	put_texts(arena, node, "schemes", schemes);
	put_texts(arena, node, "produces", openapi_media_types);
	put_texts(arena, node, "consumes",
			  operation->body == OPENAPI_SHAPE_PATCH ? openapi_patch_types : openapi_media_types);
	openapi_put_text(arena, node, "operationId", operation->id);
	openapi_put_text(arena, node, "description", operation->description);
	openapi_put_text(arena, node, "x-kubernetes-action", operation->action);
	json_set(arena, node, "x-kubernetes-group-version-kind",
			 openapi_kind_extension(arena, path->definition, openapi_text(arena, path->definition, "kind")));

	if (operation->body != OPENAPI_SHAPE_NONE)
		put_body_parameter(arena, parameters, path, operation);
	for (size_t i = 0; (parameter = openapi_query_parameter(operation->verb, i)) != NULL; i++)
		put_parameter(arena, parameters, parameter);
	if (parameters->u.array.count > 0)
		json_set(arena, node, "parameters", parameters);

	openapi_put_responses(arena, node, path, operation, put_answer);
	return node;
}

JsonNode *
openapi_v2_build(Arena *arena, const JsonNode *const *definitions, size_t count)
{
	static const OpenApiWriter writer = {OPENAPI_V2, "swagger", "2.0", put_parameter, operation_node};

	return openapi_document(arena, &writer, definitions, count);
}
