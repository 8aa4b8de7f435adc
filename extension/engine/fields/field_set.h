/*-------------------------------------------------------------------------
 *
 * field_set.h
 *	  Sets of field paths: the content of FieldsV1 in
 *	  metadata.managedFields.
 *
 * A path is a chain of elements.  An element is stored as its text in FieldsV1
 * in canonical form, so that equal elements have equal bytes:
 *
 *	f:<name>		a member of an object
 *	k:{"a":1}		an item of a list of type map, by its keys
 *	v:"x"			an item of a list of type set, by its value
 *	i:3				an item by its index
 *
 * A set is a tree.  Every entry is a member itself, has members below it, or
 * both.  A complete set never changes, so the result of an operation shares
 * parts with its operands.  NULL is the empty set.
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
 * Adds an entry to a set under construction; *set may be NULL.  An entry that is no member and has nothing below is
 * ignored.  If the set already has the element, both entries are united.  Fast when elements come in ascending order.
 */
extern void field_set_add(Arena *arena, FieldSet **set, JsonText element, bool member, const FieldSet *below);

/* The entry of an element; NULL when the set has none. */
extern const FieldEntry *field_set_find(const FieldSet *set, JsonText element);

extern const FieldSet *field_set_union(Arena *arena, const FieldSet *a, const FieldSet *b);

/* The union of any number of sets. */
extern const FieldSet *field_set_union_all(Arena *arena, const FieldSet *const *sets, size_t count);

/* The paths that are members of both sets. */
extern const FieldSet *field_set_intersection(Arena *arena, const FieldSet *a, const FieldSet *b);

/* Members of a that are not members of b.  Members of a below a member of b stay. */
extern const FieldSet *field_set_difference(Arena *arena, const FieldSet *a, const FieldSet *b);

/*
 * Parses FieldsV1 and omits elements of unknown types.  Returns NULL and sets *error if fields is not FieldsV1; NULL
 * without an error is the empty set.  fields may be NULL.
 */
extern const FieldSet *field_set_parse(Arena *arena, const JsonNode *fields, const char **error);

/* FieldsV1 of a set.  Elements that would exceed JSON_MAX_DEPTH are omitted; the element above is a member instead. */
extern JsonNode *field_set_print(Arena *arena, const FieldSet *set);

/*
 * Called for each member of a set in upstream's order: the members of a level, then the members below them.  path has
 * the form .a[k="v"].b.  If the visitor returns false, the visit ends.
 */
typedef bool (*FieldVisitor) (void *state, const char *path);

/* Visits the members of a set; stops when the visitor returns false. */
extern void field_set_visit(Arena *arena, const FieldSet *set, FieldVisitor visitor, void *state);

#endif							/* FIELD_SET_H */
