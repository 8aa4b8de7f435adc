/*-------------------------------------------------------------------------
 *
 * write.h
 *	  Writes to one object: create, update, patch, delete.
 *
 * A write has two steps.  write_admit() checks only the request, before the
 * lane is locked; it completes a create except for the check whether the object
 * exists.  write_decide() uses the stored object, under the lock.  Neither step
 * knows the new version, so the metadata of an outcome never contains
 * resourceVersion; render.h adds it.
 *
 * Reference: k8s-conformance sections 8, 12, 13.1 to 13.3, 14.1.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WRITE_H
#define WRITE_H

#include "engine/schema/definition.h"
#include "engine/api/request.h"

/* The clock, random values and limits.  The caller gives them, so that the engine depends only on its arguments. */
typedef struct WriteContext
{
	int64_t		now;			/* seconds since 1970 */
	char		uid[37];		/* a fresh UUID v4, for a create */
	uint8_t		random[5];		/* for generateName */
	size_t		max_body;		/* bytes; larger bodies get a 413 */
	bool		fill_summary;	/* absent summaries of this type are filled in (summary.h) */
} WriteContext;

/* Bytes of a random source that write_context_init() takes. */
#define WRITE_RANDOM_BYTES (16 + sizeof(((WriteContext *) NULL)->random))

/* The largest value of the proxy's --max-request-body-bytes; a proxy usually has a lower one. */
#define WRITE_MAX_BODY ((size_t) 64 << 20)

/* Fills in a context: random has WRITE_RANDOM_BYTES, now is in seconds since 1970, max_body is WRITE_MAX_BODY. */
extern void write_context_init(WriteContext *context, const uint8_t *random, int64_t now, bool fill_summary);

typedef enum WriteAction
{
	WRITE_ANSWER,				/* nothing is stored: an error, a dry run, a no-op */
	WRITE_INSERT,
	WRITE_UPDATE,
	WRITE_DELETE,
	WRITE_PENDING				/* only from write_admit(): write_decide() continues */
} WriteAction;

/*
 * The object as stored.  metadata has no resourceVersion; body is the rest without apiVersion, kind, metadata.  A
 * caller that has parsed the texts gives the trees: they are in the arena of the decision, which changes them.
 */
typedef struct StoredObject
{
	JsonText	metadata;
	JsonText	body;
	int64_t		version;
	JsonNode   *parsed_metadata;	/* NULL: the decision parses the texts */
	JsonNode   *parsed_body;	/* NULL with parsed_metadata only for a create, which reads no body */
} StoredObject;

typedef struct WriteOutcome
{
	WriteAction action;
	int			code;			/* HTTP status */
	const char *namespace_name; /* key of the object; "" in cluster scope; set by write_admit() */
	const char *name;
	const char *uid;			/* of the object, or NULL */

	/*
	 * For an object answer: the object to store, or the current object when nothing is stored.  NULL when the answer
	 * is the Status in status.
	 */
	JsonNode   *metadata;
	JsonNode   *body;
	bool		versioned;		/* false: the answer carries no resourceVersion (dry-run create) */
	const char *status;			/* complete Status document, or NULL */
	size_t		status_len;
	int			retry_after;	/* seconds, 0 for none */
	JsonNode   *warnings;		/* array of strings, or NULL: one Warning header each */
	Transform	transform;		/* of an object answer */
	const struct AdmittedWrite *admitted;	/* of a pending outcome: input for write_decide() */
} WriteOutcome;

/*
 * Decides a write as far as possible without the stored object.  body is the body of the request, or NULL; the outcome
 * is in the arena and points into body.
 */
extern void write_admit(Arena *arena, const Definition *definition, const ApiRequest *request,
						const char *body, size_t body_len, const WriteContext *context, WriteOutcome *outcome);

/*
 * Decides a pending write.  admitted is the outcome of write_admit(), whose arena still exists.  stored is NULL if the
 * object does not exist.  For an item of a deletecollection, stored must not be NULL: the names come from stored.
 */
extern void write_decide(Arena *arena, const Definition *definition, const ApiRequest *request,
						 const char *body, size_t body_len, const WriteContext *context,
						 const WriteOutcome *admitted, const StoredObject *stored, WriteOutcome *outcome);

/*
 * Checks, prunes and defaults a document from the owner's SQL or a restore, like a write of the API.  A field that the
 * server sets stays if the document has it, otherwise it is made.  Errors are field errors, not a Status.  stored is
 * NULL for an insert.
 */
extern bool write_document(Arena *arena, const Definition *definition, JsonNode *metadata, JsonNode *body,
						   const StoredObject *stored, const WriteContext *context, FieldErrorList *errors);

#endif							/* WRITE_H */
