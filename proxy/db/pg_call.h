/*-------------------------------------------------------------------------
 *
 * pg_call.h
 *	  Calls of the extension's functions: statements and the state of a call.
 *
 * Private to pg_pool.c, which queues calls, pg_pipeline.c, which sends them over
 * connections, and pg_call.c, which has the statements and the binary forms of
 * parameters and results.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALL_H
#define PG_CALL_H

#include <libpq-fe.h>

#include "base/answer_room.h"
#include "db/pg.h"

#define PG_PARAMETERS 20		/* limit of the parameters of one statement */

/*
 * This proxy works with the protocols from PROTOCOL_OLDEST to PROTOCOL_NEWEST.  The extension reports the protocols
 * that it supports (kube_reports_internal.protocols()).  docs/contributing.md says when a new one is needed.
 */
#define PROTOCOL_NEWEST 1
#define PROTOCOL_OLDEST 1

struct PgConnection;

typedef struct PgStatementText
{
	const char *name;
	const char *text;
	int			columns;		/* the answer has at least this many */
	bool		one_row;
	bool		writes;			/* goes to the pool for writes */
	bool		brief;			/* may be pipelined */
} PgStatementText;

extern const PgStatementText pg_statements[PG_STATEMENT_COUNT];

/* The expected size of an answer in bytes if it may be large; else 0. */
extern const size_t pg_answer_bytes[PG_STATEMENT_COUNT];

struct PgCall
{
	PgStatement statement;
	PgDone		done;			/* NULL when the call was abandoned */
	void	   *state;
	struct PgConnection *connection;	/* NULL while it waits */
	bool		urgent;
	bool		standby;		/* goes to the standby's pool */
	bool		exempt;			/* may use the additional places in the queue */
	bool		refused;		/* PG_BUSY or PG_AWAY is on its way */
	bool		internal;		/* part of a connection's greeting: ends with the connection */
	bool		roomless;		/* waits for room for its answer */
	uint64_t	turn;			/* calls with the same number are sent one after another; 0: at any time */
	AnswerHolding holding;		/* the room held for its answer, while it is on a connection */
	size_t		room;			/* bytes that its answer needs; 0: not counted */
	uint64_t	queued_at;
	uint64_t	made_at;		/* made_at and sent_at are in microseconds */
	uint64_t	sent_at;		/* 0: not sent yet */
	uint64_t	deadline;
	uint64_t	abandoned_at;
	PgOutcome	outcome;		/* outcome of a refused call */
	const PgError *error;		/* of a refused call with PG_FAILED; a constant */
	PgCall	   *previous;		/* previous and next call in the queue */
	PgCall	   *next;
	int			parameter_count;
	int			formats[PG_PARAMETERS];
	int			lengths[PG_PARAMETERS]; /* -1 is NULL */
	size_t		offsets[PG_PARAMETERS];
	char	   *buffer;
	size_t		size;
	size_t		capacity;
};

/* Records that a call is sent. */
extern void pg_call_sent(PgCall *call);

/* Hands the outcome to the callback, unless pg_cancel() was called, and frees the call.  result: only with PG_OK. */
extern void pg_call_finish(PgCall *call, PgOutcome outcome, PGresult *result, const PgError *error);

/*
 * Finishes a call without sending it.  The loop runs its PgDone later, because pg_send() must not run it.  error: a
 * constant for PG_FAILED, else NULL.
 */
extern void pg_call_refuse(PgCall *call, PgOutcome outcome, const PgError *error);

extern void pg_call_free(PgCall *call);

#endif							/* PG_CALL_H */
