/*-------------------------------------------------------------------------
 *
 * schema.h
 *	  Structural schemas of CustomResourceDefinitions: compile, prune,
 *	  default, validate.
 *
 * Every keyword of apiextensions.k8s.io/v1 JSONSchemaProps is either enforced
 * as kube-apiserver enforces it, with its error type, words and field path,
 * or the schema is refused when it is compiled, with the JSON path of the
 * offending keyword.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCHEMA_H
#define SCHEMA_H

#include "engine/api/status.h"

typedef struct Schema Schema;

/*
 * Compiles openAPIV3Schema.  path is where it stands in the CRD
 * ("spec.versions[0].schema.openAPIV3Schema") and begins the paths of refusals, which go to errors
 * (FIELD_FORBIDDEN, FIELD_INVALID, FIELD_REQUIRED, FIELD_NOT_SUPPORTED).  NULL when there were any.  The schema keeps
 * pointers into node.
 */
extern Schema *schema_compile(Arena *arena, const JsonNode *node, const char *path, FieldErrorList *errors);

/*
 * Drops what the schema does not know, in place.  The root's apiVersion, kind and metadata are never
 * touched here (object metadata is metadata.c's business), nor those of embedded resources: see below.  unknown may
 * be NULL; it is told of at most UNKNOWN_FIELDS_MAX fields, and no more when their paths have so many bytes; all the
 * others are dropped without a word.
 */
extern void schema_prune(Arena *arena, const Schema *schema, JsonNode *document, UnknownField unknown, void *state);

/*
 * Brings the metadata of embedded resources into the shape of ObjectMeta, in place, and tells what was dropped from
 * it.  False with one error when a part of an embedded resource has a wrong type.
 */
extern bool schema_coerce_embedded(Arena *arena, const Schema *schema, JsonNode *document,
								   UnknownField unknown, void *state,
								   FieldErrorList *errors);

/*
 * Fills in defaults, in place, as upstream: nulls of non-nullable fields are replaced by the default, or dropped
 * where there is none.
 */
extern void schema_default(Arena *arena, const Schema *schema, JsonNode *document);

/* The same for what was applied: nulls for which there is no default stay, and are for schema_validate() to refuse. */
extern void schema_default_applied(Arena *arena, const Schema *schema, JsonNode *document);

/*
 * Adds what is wrong, in upstream's order; properties, which upstream checks in no order, in the order of their keys.
 * Embedded resources and lists of type set and map are checked last.
 */
extern void schema_validate(const Schema *schema, const JsonNode *document, FieldErrorList *errors);

/*
 * The last part of it alone: embedded resources and lists of type set and map.  Upstream checks these in any
 * document.
 */
extern void schema_validate_rules(const Schema *schema, const JsonNode *document, FieldErrorList *errors);

/* For managed fields and OpenAPI: how the parts of a document merge (x-kubernetes-list-type and friends). */
typedef enum SchemaListType
{
	SCHEMA_LIST_ATOMIC,
	SCHEMA_LIST_SET,
	SCHEMA_LIST_MAP
} SchemaListType;

/* NULL when the schema does not describe the part. */
extern const Schema *schema_items(const Schema *schema);
extern SchemaListType schema_list_type(const Schema *schema);
extern bool schema_map_is_atomic(const Schema *schema);

/*
 * The CEL rules of a schema, as an array of texts: "spec.items[*]: self.size() > 0", in one line each.  They are not
 * evaluated; the warning says so of them, in at most about 1,200 bytes.  NULL when there are none.
 */
extern JsonNode *schema_rules(Arena *arena, const JsonNode *schema);
extern const char *schema_rules_warning(Arena *arena, const JsonNode *rules);

#endif							/* SCHEMA_H */
