/*-------------------------------------------------------------------------
 *
 * field_document.h
 *	  Documents and field sets: compare, merge, remove.
 *
 * These functions walk a document by its type (field_type.h).  A result shares
 * parts with the arguments and with other results: copy it before a change.
 * Undeclared fields are ignored, because they are pruned later; only
 * field_check_document() refuses them.
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

/*
 * Compares two documents.  Returns false and sets *error if an item of a list cannot have a path element, or a value
 * has no allowed shape.
 */
extern bool field_compare(Arena *arena, FieldType type, const JsonNode *before, const JsonNode *after,
						  FieldComparison *comparison, const char **error);

/* All fields of a document; false with *error as above. */
extern bool field_set_of_document(Arena *arena, FieldType type, const JsonNode *document, const FieldSet **set,
								  const char **error);

/*
 * Merges config into live: values of config win, and lists keep the order of live unless config has another order.
 * NULL with *error as above, or when a list of config has an item twice.
 */
extern JsonNode *field_merge(Arena *arena, FieldType type, const JsonNode *live, const JsonNode *config,
							 const char **error);

/* The document without the fields of a set.  An object or a list that becomes empty is replaced by null. */
extern JsonNode *field_remove(Arena *arena, FieldType type, const JsonNode *document, const FieldSet *set);

/* Adds to the set the declared fields on the paths to its members. */
extern const FieldSet *field_ensure_named(Arena *arena, FieldType type, const FieldSet *set);

/* Adapts a set that was made with an earlier schema: a value that is atomic now becomes one member of the set. */
extern const FieldSet *field_reconcile(Arena *arena, FieldType type, const FieldSet *set);

/* All violations of the type, as one text; NULL if there are none.  A list that has an item twice is a violation. */
extern const char *field_check_document(Arena *arena, FieldType type, const JsonNode *document);

/* An item of a list that is not atomic, with its path element. */
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
