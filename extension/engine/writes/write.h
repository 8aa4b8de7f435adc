/*-------------------------------------------------------------------------
 *
 * write.h
 *	  What a write does to one object: create, update, patch, delete.
 *
 * Two steps.  write_admit() looks at the request alone and runs before the
 * lane is locked; a create is finished there but for the question whether the
 * object exists.  write_decide() sees the stored object, under the lock.
 * Neither knows a version yet to be given: resourceVersion is never in the
 * metadata of an outcome; render.h puts it in.
 *
 * Reference: k8s-conformance sections 8, 12, 13.1 to 13.3, 14.1.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WRITE_H
#define WRITE_H

#include "engine/schema/definition.h"
#include "engine/api/request.h"

/* What the outside world contributes, so that the engine stays a function of its input. */
typedef struct WriteContext
{
	int64_t		now;			/* seconds since 1970 */
	char		uid[37];		/* a fresh UUID v4, for a create */
	uint8_t		random[5];		/* for generateName */
	size_t		max_body;		/* bytes; larger is a 413 */
	bool		fill_summary;	/* the type's summaries are filled in where they are left out (summary.h) */
} WriteContext;

typedef enum WriteAction
{
	WRITE_ANSWER,				/* nothing is stored: an error, a dry run, a no-op */
	WRITE_INSERT,
	WRITE_UPDATE,
	WRITE_DELETE,
	WRITE_PENDING				/* of write_admit() only: write_decide() goes on */
} WriteAction;

/* The object as stored.  metadata has no resourceVersion; body is the rest without apiVersion, kind, metadata. */
typedef struct StoredObject
{
	JsonText	metadata;
	JsonText	body;
	int64_t		version;
} StoredObject;

typedef struct WriteOutcome
{
	WriteAction action;
	int			code;			/* HTTP status */
	const char *namespace_name; /* key of the object; "" in cluster scope; set by write_admit() */
	const char *name;
	const char *uid;			/* of the object concerned, or NULL */

	/*
	 * Object answers: the object as it is to be stored, or as it is when nothing is stored.  NULL when the answer is
	 * the Status in status.
	 */
	JsonNode   *metadata;
	JsonNode   *body;
	bool		versioned;		/* false: the answer carries no resourceVersion (dry-run create) */
	const char *status;			/* complete Status document, or NULL */
	size_t		status_len;
	int			retry_after;	/* seconds, 0 for none */
	JsonNode   *warnings;		/* array of strings, or NULL: one Warning header each */
	Transform	transform;		/* of an object answer */
	const struct AdmittedWrite *admitted;	/* of a pending outcome: what write_decide() goes on with */
} WriteOutcome;

extern void write_admit(Arena *arena, const Definition *definition, const ApiRequest *request,
						const char *body, size_t body_len, const WriteContext *context, WriteOutcome *outcome);

/*
 * admitted is what write_admit() said, still in its arena; stored is NULL when there is no such object.  For an item of
 * a deletecollection the names come from stored, which then must not be NULL.
 */
extern void write_decide(Arena *arena, const Definition *definition, const ApiRequest *request,
						 const char *body, size_t body_len, const WriteContext *context,
						 const WriteOutcome *admitted, const StoredObject *stored, WriteOutcome *outcome);

/*
 * A document as the owner's SQL or a restore hands it over: checked, pruned and defaulted like an API write (fields set
 * by the server are kept when given, else made), no Status but field errors.  stored is NULL for an insert.
 */
extern bool write_document(Arena *arena, const Definition *definition, JsonNode *metadata, JsonNode *body,
						   const StoredObject *stored, const WriteContext *context, FieldErrorList *errors);

#endif							/* WRITE_H */
