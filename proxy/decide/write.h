/*-------------------------------------------------------------------------
 *
 * write.h
 *	  A write of one object, decided by the proxy.
 *
 * In the variant in C, write_admit() and write_decide() do the same in a backend
 * (extension/sql_write.c).  A create is admitted first; it needs the stored
 * object only if one exists.  Every other write is decided on the stored
 * object.  Both steps may be repeated with another stored object.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DECIDE_WRITE_H
#define DECIDE_WRITE_H

#include "engine/writes/write.h"
#include "decide/definitions.h"

/* The write to decide.  It must outlive the decision. */
typedef struct AskedWrite
{
	const Served *served;
	const ApiRequest *request;
	JsonText	document;
} AskedWrite;

/* The action letters of kube_reports_internal.admitted. */
typedef enum DecidedAction
{
	DECIDED_ANSWER = 'n',
	DECIDED_INSERT = 'i',		/* insert, unless the object exists */
	DECIDED_UPDATE = 'u',
	DECIDED_DELETE = 'd',
	DECIDED_PENDING = 'p'		/* no decision yet: the stored object is needed */
} DecidedAction;

typedef struct DecidedWrite
{
	Arena		arena;			/* memory of all pointers below */
	DecidedAction action;
	WriteOutcome outcome;
	bool		on_object;		/* decided on a stored object, which has the version base */
	int64_t		base;
	JsonText	metadata;		/* of the object to store, or of the object in the answer; bytes NULL: none */
	JsonText	body;
	JsonText	rows;			/* changes of results (result_rows.h); bytes NULL: computed later */
	JsonText	evaluated_at;	/* empty: no time */
} DecidedWrite;

extern void write_ask_admission(DecidedWrite *write, const AskedWrite *asked);

/* Decides a write on the stored object (NULL: none).  Replaces an earlier decision. */
extern void write_ask_decision(DecidedWrite *write, const AskedWrite *asked, const StoredObject *stored);

/* Computes rows and evaluated_at of an insert, update or delete.  stored: the same as for the decision. */
extern void write_ask_results(DecidedWrite *write, const AskedWrite *asked, const StoredObject *stored);

/*
 * Returns the body of the answer.  version: the version that the write got, 0 when nothing was stored.  now: seconds
 * since 1970.
 */
extern JsonText write_answer(DecidedWrite *write, const AskedWrite *asked, int64_t version, int64_t now);

extern void write_free(DecidedWrite *write);

#endif							/* DECIDE_WRITE_H */
