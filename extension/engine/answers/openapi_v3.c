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

static void
put_answer(Arena *arena, JsonNode *response, const OpenApiPath *path, const OpenApiOperation *operation)
{
	put_content(arena, response, openapi_media_types,
				openapi_shape_reference(arena, OPENAPI_V3, operation->answer, path->definition));
}

static JsonNode *
operation_node(Arena *arena, const OpenApiPath *path, const OpenApiOperation *operation)
{
	JsonNode   *node = json_new_object(arena);
	JsonNode   *tags = json_new_array(arena);
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
	openapi_put_responses(arena, node, path, operation, put_answer);
	return node;
}

void
openapi_v3_document(StrBuf *buf, Arena *arena, const JsonNode *const *definitions, size_t count)
{
	static const OpenApiWriter writer = {OPENAPI_V3, "openapi", "3.0.0", put_parameter, operation_node};

	json_write(buf, openapi_document(arena, &writer, definitions, count));
}
