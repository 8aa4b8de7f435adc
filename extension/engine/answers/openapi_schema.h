/*-------------------------------------------------------------------------
 *
 * openapi_schema.h
 *	  The common parts of the OpenAPI v3 and v2 documents.
 *
 * Schemas are made for the requested version.  Operations are described once;
 * openapi_v3.c and openapi_v2.c write them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef OPENAPI_SCHEMA_H
#define OPENAPI_SCHEMA_H

#include "engine/answers/openapi.h"

typedef enum OpenApiVersion
{
	OPENAPI_V2,
	OPENAPI_V3
} OpenApiVersion;

/* Types of meta.k8s.io/v1 that documents refer to, by their short names. */
#define OPENAPI_OBJECT_META "ObjectMeta"
#define OPENAPI_LIST_META "ListMeta"
#define OPENAPI_DELETE_OPTIONS "DeleteOptions"
#define OPENAPI_PATCH "Patch"
#define OPENAPI_STATUS "Status"

/* io.openreports.v1alpha1.Report */
extern char *openapi_model_name(Arena *arena, const char *group, const char *version, const char *kind);

/* {"$ref": ...} to a model; description may be NULL. */
extern JsonNode *openapi_reference(Arena *arena, OpenApiVersion version, const char *model, const char *description);
extern JsonNode *openapi_meta_reference(Arena *arena, OpenApiVersion version, const char *meta,
										const char *description);

/* Add the schemas of a definition's kind and of its list, or of the meta types, to schemas by model name. */
extern void openapi_add_kind(Arena *arena, OpenApiVersion version, JsonNode *schemas, const JsonNode *definition);
extern void openapi_add_meta_types(Arena *arena, OpenApiVersion version, JsonNode *schemas);

/* Copies of strings of a definition; "" when absent. */
extern const char *openapi_text(Arena *arena, const JsonNode *definition, const char *key);

/* Add a string or a new object to a document under construction. */
extern void openapi_put_text(Arena *arena, JsonNode *object, const char *key, const char *value);
extern JsonNode *openapi_put_object(Arena *arena, JsonNode *parent, const char *key);

/* group, version and kind of a definition in the form of x-kubernetes-group-version-kind on an operation. */
extern JsonNode *openapi_kind_extension(Arena *arena, const JsonNode *definition, const char *kind);

/*
 * Operations
 */
typedef enum OpenApiVerb
{
	OPENAPI_VERB_LIST,
	OPENAPI_VERB_CREATE,
	OPENAPI_VERB_DELETE_COLLECTION,
	OPENAPI_VERB_READ,
	OPENAPI_VERB_REPLACE,
	OPENAPI_VERB_PATCH,
	OPENAPI_VERB_DELETE
} OpenApiVerb;

typedef enum OpenApiShape
{
	OPENAPI_SHAPE_NONE,
	OPENAPI_SHAPE_OBJECT,
	OPENAPI_SHAPE_LIST,
	OPENAPI_SHAPE_STATUS,
	OPENAPI_SHAPE_PATCH,
	OPENAPI_SHAPE_DELETE_OPTIONS
} OpenApiShape;

typedef struct OpenApiOperation
{
	OpenApiVerb verb;
	const char *method;			/* get, post, ... */
	const char *action;			/* x-kubernetes-action */
	const char *id;
	const char *description;
	OpenApiShape body;
	bool		body_required;
	OpenApiShape answer;
	const int  *codes;			/* codes of success, ended by 0 */
} OpenApiOperation;

#define OPENAPI_PATH_OPERATIONS 4

typedef struct OpenApiPath
{
	const char *path;
	bool		has_namespace;	/* the path has {namespace}, {name} */
	bool		has_name;
	const JsonNode *definition;
	OpenApiOperation operations[OPENAPI_PATH_OPERATIONS];
	size_t		count;
} OpenApiPath;

/* The paths of one definition. */
extern OpenApiPath *openapi_paths(Arena *arena, const JsonNode *definition, size_t *count);

/* openreportsIo_v1alpha1 */
extern char *openapi_tag(Arena *arena, const JsonNode *definition);

typedef struct OpenApiParameter
{
	const char *name;
	const char *place;			/* query or path */
	const char *type;
	unsigned	verbs;			/* bits 1 << OpenApiVerb */
	const char *description;
} OpenApiParameter;

/* Parameters of a whole path, and parameters that depend on the verb; NULL after the last. */
extern const OpenApiParameter *openapi_path_parameter(const OpenApiPath *path, size_t index);
extern const OpenApiParameter *openapi_query_parameter(OpenApiVerb verb, size_t index);

/* How one version of OpenAPI writes the parts of a document that differ. */
typedef struct OpenApiWriter
{
	OpenApiVersion version;
	const char *version_key;	/* swagger or openapi */
	const char *version_number;
	void		(*put_parameter) (Arena *arena, JsonNode *list, const OpenApiParameter *parameter);
	JsonNode   *(*operation) (Arena *arena, const OpenApiPath *path, const OpenApiOperation *operation);
} OpenApiWriter;

/* The document of the given definitions. */
extern JsonNode *openapi_document(Arena *arena, const OpenApiWriter *writer, const JsonNode *const *definitions,
								  size_t count);

/* Adds the answers' codes to an operation: put_answer adds the schema to a response of success. */
extern void openapi_put_responses(Arena *arena, JsonNode *operation_node, const OpenApiPath *path,
								  const OpenApiOperation *operation,
								  void (*put_answer) (Arena *arena, JsonNode *response, const OpenApiPath *path,
													  const OpenApiOperation *operation));

/* Media types, each ended by NULL. */
extern const char *const openapi_media_types[];
extern const char *const openapi_patch_types[];

/* The description of a response by its code: 200, 201, 202, or 401 for any other code. */
extern const char *openapi_code_text(int code);

/* A reference to the model of a body or answer of this shape; NULL for OPENAPI_SHAPE_NONE. */
extern JsonNode *openapi_shape_reference(Arena *arena, OpenApiVersion version, OpenApiShape shape,
										 const JsonNode *definition);

#endif							/* OPENAPI_SCHEMA_H */
