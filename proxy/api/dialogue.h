/*-------------------------------------------------------------------------
 *
 * dialogue.h
 *	  The writes of a batch, decided by the proxy (variant sql).
 *
 * A dialogue loads the objects that the batch needs, decides, and commits.
 * When another writer has changed an object meanwhile, the commit returns the
 * newest state of that object, and the dialogue decides and commits that write
 * again.  A batch of creates needs one call.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DIALOGUE_H
#define DIALOGUE_H

#include "api/registry.h"
#include "db/pg.h"
#include "engine/writes/write.h"

/* The largest number of writes of one dialogue. */
#define DIALOGUE_WRITES 64

/* A write.  dialogue_start() copies the texts and holds the registry. */
typedef struct DialogueWrite
{
	Registry   *registry;
	const RegistryType *type;	/* in the registry */
	bool		create;			/* whether the verb is create */
	const char *namespace_name; /* from the path, as is name */
	const char *name;
	const char *namespace_uid;	/* NULL: not checked */
	JsonText	request;		/* its text, which a dialogue copies and decodes once */
	const ApiRequest *asked;	/* a request that is decoded, and stays until done(); else NULL */
	JsonText	document;
	const StoredObject *stored; /* an item of a deletecollection: stays until done(); else NULL */
} DialogueWrite;

/* Codes of a DialogueAnswer that are not HTTP statuses, and the status of an answer without a body. */
#define DIALOGUE_MOVED 0		/* the namespace was created anew: it has another uid */
#define DIALOGUE_COSTS (-1)		/* the object is large, or has changed too often: the write needs a turn of its own */
#define DIALOGUE_STALE (-3)		/* the registry has changed */
#define DIALOGUE_BROKEN 500		/* has no body: the proxy does not know the form of the database's answer */

typedef struct DialogueAnswer
{
	int			code;
	int64_t		version;		/* version of the stored object; 0: nothing was stored */
	int			retry_after;
	const JsonNode *warnings;	/* array of strings, or NULL */
	JsonText	body;
} DialogueAnswer;

/* Gets the answer to one write as soon as the answer is known.  The answer's memory is valid during the call only. */
typedef void (*DialogueAnswered) (void *state, size_t write, const DialogueAnswer *answer);

/* Ends the dialogue; no other callback follows.  If the outcome is not PG_OK, writes without an answer have failed. */
typedef void (*DialogueDone) (void *state, PgOutcome outcome, const PgError *error);

/*
 * Starts a dialogue of at most DIALOGUE_WRITES writes to one lane, of different objects.  alone: a costly write or a
 * deletecollection, whose documents a thread decides.
 */
extern void dialogue_start(const DialogueWrite *writes, size_t count, bool alone, DialogueAnswered answered,
						   DialogueDone done, void *state);

#endif							/* DIALOGUE_H */
