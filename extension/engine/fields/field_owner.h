/*-------------------------------------------------------------------------
 *
 * field_owner.h
 *	  Owners of the fields of an object: metadata.managedFields.
 *
 * Every write except a deletion calls one of two functions.  An update makes
 * the writer the owner of the changed fields.  An apply merges a configuration
 * into the object and makes the writer the owner of the applied fields.  Both
 * set metadata.managedFields of the document to the value to store.
 *
 * Reference: k8s-conformance sections 13.4 and 13.5; apimachinery's
 * managedfields.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FIELD_OWNER_H
#define FIELD_OWNER_H

#include "engine/fields/field_document.h"

/* The owner and the target of a write. */
typedef struct FieldWrite
{
	Arena	   *arena;
	FieldType	type;			/* of whole objects */
	const char *api_version;
	const char *owner;			/* the field manager's name; "" counts as unknown */
	const char *subresource;	/* "" for none */
	bool		status_subresource; /* the type has a status subresource: only writes to it change the status */
	int64_t		now;
} FieldWrite;

/*
 * An update: document replaces live (NULL for a create).  Both are whole objects with metadata in the form of
 * ObjectMeta.  In document, managedFields comes from the client; the function replaces it by the value to store.  An
 * empty list, or a list of one empty entry, removes all owners.  If the fields cannot be compared, the owners of live
 * stay.
 */
extern void field_owner_update(const FieldWrite *write, JsonNode *document, const JsonNode *live);

typedef enum FieldApplyResult
{
	FIELD_APPLY_OK,
	FIELD_APPLY_MALFORMED,		/* 400: config must not have managedFields */
	FIELD_APPLY_UNDECLARED,		/* config does not conform to the type */
	FIELD_APPLY_CONFLICT,		/* 409: other owners own fields that config changes */
	FIELD_APPLY_FAILED			/* 500 */
} FieldApplyResult;

/* The result of an apply. */
typedef struct FieldApply
{
	JsonNode   *document;		/* merged, with metadata; shares only the text of strings with live and config */
	const char *error;			/* the message of the Status, also for a conflict */
	const StatusCause *causes;	/* of a conflict */
	size_t		cause_count;
} FieldApply;

/*
 * Applies config to live.  live is a whole object; it has only apiVersion and kind if the object does not exist yet.
 * With force, fields of other owners are changed and taken from these owners without a conflict.
 */
extern FieldApplyResult field_owner_apply(const FieldWrite *write, const JsonNode *live, const JsonNode *config,
										  bool force, FieldApply *apply);

/* Whether two lists of managed fields are equal except for times.  Either may be NULL. */
extern bool field_owners_equal_but_times(const JsonNode *a, const JsonNode *b);

/* Whether the list has entries and all can be read.  entries may be NULL. */
extern bool field_owners_are_sound(Arena *arena, const JsonNode *entries);

#endif							/* FIELD_OWNER_H */
