/*-------------------------------------------------------------------------
 *
 * field_owner.h
 *	  Who owns which fields of an object: metadata.managedFields.
 *
 * Every write but a deletion goes through one of two functions: an update
 * gives what it changed to its owner, an apply merges what its owner wants and
 * gives that to it.  Both leave metadata.managedFields of the document as it
 * is to be stored.
 *
 * Reference: k8s-conformance sections 13.4 and 13.5; apimachinery's
 * managedfields.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FIELD_OWNER_H
#define FIELD_OWNER_H

#include "engine/fields/field_document.h"

/* Who writes, to what. */
typedef struct FieldWrite
{
	Arena	   *arena;
	FieldType	type;			/* of whole objects */
	const char *api_version;
	const char *owner;			/* the field manager's name; "" counts as unknown */
	const char *subresource;	/* "" for none */
	bool		status_subresource; /* the type has one: then status is its alone */
	int64_t		now;
} FieldWrite;

/*
 * An update: document is to take the place of live (NULL for a create), both are whole objects with shaped metadata.
 * managedFields in document is the client's word and becomes what is to be stored; a list that is empty, or whose one
 * entry is, forgets all owners.  Where fields cannot be compared the owners of live stay.
 */
extern void field_owner_update(const FieldWrite *write, JsonNode *document, const JsonNode *live);

typedef enum FieldApplyResult
{
	FIELD_APPLY_OK,
	FIELD_APPLY_MALFORMED,		/* 400: config itself is not to be applied */
	FIELD_APPLY_UNDECLARED,		/* config has what the type does not know */
	FIELD_APPLY_CONFLICT,		/* 409: others own what config changes */
	FIELD_APPLY_FAILED			/* 500 */
} FieldApplyResult;

/* What became of an apply. */
typedef struct FieldApply
{
	JsonNode   *document;		/* merged, with metadata; shares only the text of strings with live and config */
	const char *error;			/* the Status's message; of a conflict, too */
	const StatusCause *causes;	/* of a conflict */
	size_t		cause_count;
} FieldApply;

/*
 * An apply of config to live, which is a whole object, or has just apiVersion and kind when there is none yet.  force
 * takes fields from their owners.
 */
extern FieldApplyResult field_owner_apply(const FieldWrite *write, const JsonNode *live, const JsonNode *config,
										  bool force, FieldApply *apply);

/* Whether two lists of managed fields differ in nothing but times.  Either may be NULL. */
extern bool field_owners_equal_but_times(const JsonNode *a, const JsonNode *b);

/* Whether there are any entries (NULL: none), and all can be read. */
extern bool field_owners_are_sound(Arena *arena, const JsonNode *entries);

#endif							/* FIELD_OWNER_H */
