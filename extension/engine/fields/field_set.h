/*-------------------------------------------------------------------------
 *
 * field_set.h
 *	  Sets of field paths: what FieldsV1 in metadata.managedFields says.
 *
 * A path is a chain of elements.  An element is kept as the text it has in
 * FieldsV1, in canonical form, so that equal elements are equal bytes:
 *
 *	f:<name>		a member of an object
 *	k:{"a":1}		an item of a list of type map, by its keys
 *	v:"x"			an item of a list of type set, by its value
 *	i:3				an item by its index
 *
 * A set is a tree.  An entry may be a member itself, have members below it, or
 * both; one that is neither does not exist.  A set that is complete is never
 * changed: operations share what they keep.  NULL is the empty set.
 *
 * Reference: k8s-conformance MF-03; structured-merge-diff's fieldpath.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FIELD_SET_H
#define FIELD_SET_H

#include "engine/base/json.h"

typedef struct FieldSet FieldSet;

typedef struct FieldEntry
{
	JsonText	element;
	bool		member;
	const FieldSet *below;		/* NULL: nothing */
} FieldEntry;

struct FieldSet
{
	FieldEntry *entries;		/* sorted by the bytes of element, unique */
	size_t		count;
	size_t		capacity;
};

/*
 * Adds an entry to a set that is being built; *set may be NULL.  Nothing happens when it is neither a member nor has
 * anything below.  An element that is there already gets both.  Fast when elements come in ascending order.
 */
extern void field_set_add(Arena *arena, FieldSet **set, JsonText element, bool member, const FieldSet *below);

/* NULL when there is none. */
extern const FieldEntry *field_set_find(const FieldSet *set, JsonText element);

extern const FieldSet *field_set_union(Arena *arena, const FieldSet *a, const FieldSet *b);

/* The same of any number of sets. */
extern const FieldSet *field_set_union_all(Arena *arena, const FieldSet *const *sets, size_t count);

/* Paths that are members of both. */
extern const FieldSet *field_set_intersection(Arena *arena, const FieldSet *a, const FieldSet *b);

/* Members of a that are no members of b; what is below a member of b stays. */
extern const FieldSet *field_set_difference(Arena *arena, const FieldSet *a, const FieldSet *b);

/*
 * What FieldsV1 says.  Elements of unknown types are left out.  NULL with *error when it is none (NULL and no error:
 * the empty set).  fields may be NULL.
 */
extern const FieldSet *field_set_parse(Arena *arena, const JsonNode *fields, const char **error);

/* FieldsV1 of a set.  What would lie deeper in an object than JSON_MAX_DEPTH is owned as a whole. */
extern JsonNode *field_set_print(Arena *arena, const FieldSet *set);

/*
 * Told of each member in upstream's order: those of a level, then what is below them.  path: .a[k="v"].b
 * False ends the visit.
 */
typedef bool (*FieldVisitor) (void *state, const char *path);

extern void field_set_visit(Arena *arena, const FieldSet *set, FieldVisitor visitor, void *state);

#endif							/* FIELD_SET_H */
