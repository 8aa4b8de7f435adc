/*-------------------------------------------------------------------------
 *
 * field_type.h
 *	  How the parts of a document merge, as the field manager sees a schema.
 *
 * A type is a schema, or one of the kinds below for values without a schema.
 * It determines the shapes that a value may have.  If the value has one of
 * these shapes, only this shape counts.
 *
 * Reference: k8s-conformance MF-03, MF-04; kube-openapi's schemaconv.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FIELD_TYPE_H
#define FIELD_TYPE_H

#include "engine/schema/schema.h"

typedef enum FieldTypeKind
{
	FIELD_TYPE_NONE,			/* not declared: no value is allowed */
	FIELD_TYPE_SCHEMA,
	FIELD_TYPE_DEDUCED,			/* unknown fields: maps are granular, lists atomic */
	FIELD_TYPE_UNTYPED			/* items without a schema: maps and lists are atomic */
} FieldTypeKind;

typedef struct FieldType
{
	FieldTypeKind kind;
	const Schema *schema;
	bool		root;			/* a whole object: has apiVersion, kind and metadata */
	bool		open;			/* unknown fields are preserved here or above */
} FieldType;

/* The type of whole objects; schema may be NULL. */
extern FieldType field_type_of_object(const Schema *schema);

/* The type of a member, and whether it is declared by name (else it is an entry of a map). */
extern FieldType field_member_type(FieldType type, JsonText key, bool *declared);
extern FieldType field_items_type(FieldType type);

/* Shapes of values, used as a set.  FIELD_TYPE_NONE has no shape. */
#define SHAPE_MAP 0x01
#define SHAPE_SCALAR 0x02
#define SHAPE_LIST 0x04

/* All shapes that the type allows. */
extern unsigned int field_type_shapes(FieldType type);

/* The shape of the value if the type allows it, else all shapes that the type allows.  value may be NULL. */
extern unsigned int field_value_shapes(FieldType type, const JsonNode *value);

/* The shape that counts in a set of shapes: maps before scalars before lists.  0 for the empty set. */
extern unsigned int field_main_shape(unsigned int shapes);

/* Whether a map or a list is one field as a whole. */
extern bool field_map_is_atomic(FieldType type);
extern bool field_list_is_atomic(FieldType type);

/* Whether no members of a map are declared. */
extern bool field_map_is_deduced(FieldType type);

/* prefix and the error, if value is not a scalar of this type; NULL for such a scalar, for a null and for NULL. */
extern const char *field_scalar_error(Arena *arena, FieldType type, const JsonNode *value, const char *prefix);

/* A value as Go prints it in such messages. */
extern const char *field_go_value(Arena *arena, const JsonNode *value);

/* Makes the path element of an item of a list that is not atomic.  False with *error if the item cannot have one. */
extern bool field_item_element(Arena *arena, FieldType list, const JsonNode *item, JsonText *element,
							   const char **error);

#endif							/* FIELD_TYPE_H */
