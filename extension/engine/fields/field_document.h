/*-------------------------------------------------------------------------
 *
 * field_document.h
 *	  Documents and field sets: compare, merge, remove.
 *
 * All of it walks a document by its type (field_type.h).  Results share parts
 * of what they were made from, and of each other: copy before changing them.
 * What the type does not declare is left alone, as it is pruned in the end;
 * field_check_document() refuses it.
 *
 * Reference: k8s-conformance MF-05, SSA-03; structured-merge-diff's typed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FIELD_DOCUMENT_H
#define FIELD_DOCUMENT_H

#include "engine/fields/field_set.h"
#include "engine/fields/field_type.h"

typedef struct FieldComparison
{
	const FieldSet *removed;
	const FieldSet *modified;
	const FieldSet *added;
} FieldComparison;

/* False with *error when one of them has a list whose items cannot be told apart, or a value of no allowed shape. */
extern bool field_compare(Arena *arena, FieldType type, const JsonNode *before, const JsonNode *after,
						  FieldComparison *comparison, const char **error);

/* All fields of a document; false with *error as above. */
extern bool field_set_of_document(Arena *arena, FieldType type, const JsonNode *document, const FieldSet **set,
								  const char **error);

/*
 * config merged into live: what config says holds, lists are in the order of live unless config has another.  NULL with
 * *error as above, or when a list of config has an item twice.
 */
extern JsonNode *field_merge(Arena *arena, FieldType type, const JsonNode *live, const JsonNode *config,
							 const char **error);

/* The document without the fields of a set.  An object or a list of which nothing remains becomes null. */
extern JsonNode *field_remove(Arena *arena, FieldType type, const JsonNode *document, const FieldSet *set);

/* The set and the declared fields on the way to its members. */
extern const FieldSet *field_ensure_named(Arena *arena, FieldType type, const FieldSet *set);

/* A set that was made by an earlier schema: what has become atomic since is a member as a whole. */
extern const FieldSet *field_reconcile(Arena *arena, FieldType type, const FieldSet *set);

/* What does not conform to the type, as one text; NULL when all does.  Lists may not have an item twice. */
extern const char *field_check_document(Arena *arena, FieldType type, const JsonNode *document);

/* An item of a list that is no atomic one, by its element. */
typedef struct FieldItem
{
	JsonText	element;
	const JsonNode *value;
	size_t		position;
} FieldItem;

/* The items of a list, sorted by element, then position; list may be NULL.  False with *error. */
extern bool field_sort_items(Arena *arena, FieldType type, const JsonNode *list, FieldItem **items, size_t *count,
							 const char **error);

#endif							/* FIELD_DOCUMENT_H */
