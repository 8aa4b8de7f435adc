/*-------------------------------------------------------------------------
 *
 * schema.h
 *	  Structural schemas of CustomResourceDefinitions: compile, prune,
 *	  default, validate.
 *
 * A keyword of apiextensions.k8s.io/v1 JSONSchemaProps is either enforced as
 * kube-apiserver enforces it, with the same error type, message and field
 * path, or schema_compile() refuses the schema and reports the JSON path of
 * the keyword.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCHEMA_H
#define SCHEMA_H

#include "engine/api/status.h"

typedef struct Schema Schema;

/*
 * Compiles openAPIV3Schema.  path is the place of the schema in the CRD ("spec.versions[0].schema.openAPIV3Schema");
 * the paths of errors begin with it.  NULL when there are errors (FIELD_FORBIDDEN, FIELD_INVALID, FIELD_REQUIRED,
 * FIELD_NOT_SUPPORTED).  The schema keeps pointers into node.
 */
extern Schema *schema_compile(Arena *arena, const JsonNode *node, const char *path, FieldErrorList *errors);

/*
 * Drops the fields that the schema does not specify, in place.  apiVersion, kind and metadata never change, neither in
 * the root (metadata.c checks object metadata) nor in embedded resources (see below).  unknown may be NULL.  unknown is
 * called for at most UNKNOWN_FIELDS_MAX dropped fields, and for no more once the paths together have
 * UNKNOWN_FIELDS_MAX_BYTES bytes; further fields are dropped without a call.
 */
extern void schema_prune(Arena *arena, const Schema *schema, JsonNode *document, UnknownField unknown, void *state);

/*
 * Converts the metadata of embedded resources to ObjectMeta, in place, and calls unknown for each dropped field.
 * False with one error when a part of an embedded resource has a wrong type.
 */
extern bool schema_coerce_embedded(Arena *arena, const Schema *schema, JsonNode *document,
								   UnknownField unknown, void *state,
								   FieldErrorList *errors);

/*
 * Fills in defaults, in place, as upstream: the null of a field that is not nullable is replaced by the default, or
 * dropped when the field has no default.
 */
extern void schema_default(Arena *arena, const Schema *schema, JsonNode *document);

/* The same for an applied configuration: a null without a default stays, and schema_validate() refuses it. */
extern void schema_default_applied(Arena *arena, const Schema *schema, JsonNode *document);

/*
 * Adds the errors of a document, in upstream's order.  Properties are checked in the order of their keys; upstream
 * checks them in no fixed order.  Embedded resources and lists of type set and map are checked last.
 */
extern void schema_validate(const Schema *schema, const JsonNode *document, FieldErrorList *errors);

/*
 * Only the last part of schema_validate(): embedded resources and lists of type set and map.  Upstream checks these
 * in every document.
 */
extern void schema_validate_rules(const Schema *schema, const JsonNode *document, FieldErrorList *errors);

/* For managed fields and OpenAPI: how the parts of a document merge (x-kubernetes-list-type and friends). */
typedef enum SchemaListType
{
	SCHEMA_LIST_ATOMIC,
	SCHEMA_LIST_SET,
	SCHEMA_LIST_MAP
} SchemaListType;

/* The list type of an array (atomic if the schema has none), and whether x-kubernetes-map-type is atomic. */
extern SchemaListType schema_list_type(const Schema *schema);
extern bool schema_map_is_atomic(const Schema *schema);

/*
 * schema_rules() returns the CEL rules of a schema as an array of strings of one line each:
 * "spec.items[*]: self.size() > 0".  The rules are not evaluated.  schema_rules_warning() returns a warning that says
 * so, of at most about 1,200 bytes; NULL without rules.
 */
extern JsonNode *schema_rules(Arena *arena, const JsonNode *schema);
extern const char *schema_rules_warning(Arena *arena, const JsonNode *rules);

#endif							/* SCHEMA_H */
