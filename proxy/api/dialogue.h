/*-------------------------------------------------------------------------
 *
 * dialogue.h
 *	  The writes of a batch, decided by the proxy (variant sql).
 *
 * Load what the batch needs, decide, commit.  What was decided on a version
 * that is not the newest any more comes back with the newest state, and is
 * decided and committed again.  A batch of creates needs one call.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DIALOGUE_H
#define DIALOGUE_H

#include "api/registry.h"
#include "db/pg.h"
#include "engine/writes/write.h"

/* The most writes of one dialogue. */
#define DIALOGUE_WRITES 64

/* A write; everything is copied. */
typedef struct DialogueWrite
{
	Registry   *registry;
	const RegistryType *type;	/* in the registry */
	bool		create;			/* the verb */
	const char *namespace_name; /* of the path */
	const char *name;
	const char *namespace_uid;	/* NULL: not checked */
	JsonText	request;
	JsonText	document;
	const StoredObject *stored; /* an item of a deletecollection: stays until done(); else NULL */
} DialogueWrite;

/* Codes below 200 are no answers. */
#define DIALOGUE_MOVED 0		/* the namespace is another one by now */
#define DIALOGUE_COSTS (-1)		/* the object is large, or has changed too often: the write needs a turn of its own */
#define DIALOGUE_STALE (-3)		/* the registry has changed */
#define DIALOGUE_BROKEN 500		/* without a body: the database's answer has another form */

typedef struct DialogueAnswer
{
	int			code;
	int64_t		version;		/* of the object; 0: none */
	int			retry_after;
	const JsonNode *warnings;	/* array of strings, or NULL */
	JsonText	body;
} DialogueAnswer;

/* Gets the answer to one write as soon as the answer is known.  The answer's memory is valid during the call only. */
typedef void (*DialogueAnswered) (void *state, size_t write, const DialogueAnswer *answer);

/* The last call.  If the outcome is not PG_OK, writes without an answer have failed. */
typedef void (*DialogueDone) (void *state, PgOutcome outcome, const PgError *error);

/* All writes are of one lane, and no object occurs twice.  alone: no other write waits for this one. */
extern void dialogue_start(const DialogueWrite *writes, size_t count, bool alone, DialogueAnswered answered,
						   DialogueDone done, void *state);

#endif							/* DIALOGUE_H */
