/*-------------------------------------------------------------------------
 *
 * pg_call.h
 *	  Calls of the extension's functions, as pg.c sees them.
 *
 * Private to pg.c, which moves calls over connections, and pg_call.c, which
 * knows the statements and the binary forms of what goes in and comes out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALL_H
#define PG_CALL_H

#include "base/answer_room.h"
#include "db/pg.h"

#define PG_PARAMETERS 8			/* of one statement, at most */

/*
 * Which versions of the extension the statements are for, those too that PROTOCOL_OLDEST stands for: the extension
 * tells which protocols it understands (kube_reports_internal.protocols()).  docs/contributing.md says when there is
 * a new one.
 */
#define PROTOCOL_NEWEST 1
#define PROTOCOL_OLDEST 1

struct PgConnection;

typedef struct PgStatementText
{
	const char *name;
	const char *text;
	int			columns;		/* at least so many in the answer */
	bool		one_row;
	bool		writes;			/* goes to the pool for writes */
	bool		brief;			/* may be pipelined */
} PgStatementText;

extern const PgStatementText pg_statements[PG_STATEMENT_COUNT];

/* Bytes expected of an answer, where that may be large; else 0. */
extern const size_t pg_answer_bytes[PG_STATEMENT_COUNT];

struct PgCall
{
	PgStatement statement;
	PgDone		done;			/* NULL when nobody wants the answer any more */
	void	   *state;
	struct PgConnection *connection;	/* NULL while it waits */
	bool		urgent;
	bool		standby;		/* goes to the standby's pool */
	bool		exempt;			/* has further places in the queue */
	bool		refused;		/* PG_BUSY or PG_AWAY is on its way */
	bool		internal;		/* part of a connection's greeting: ends with it */
	bool		roomless;		/* it waits until others give back what they hold of answers */
	AnswerHolding holding;		/* the room for its answer, while it is on a connection */
	size_t		room;			/* that it needs; 0: its answer is not counted */
	uint64_t	queued_at;
	uint64_t	made_at;		/* these two in microseconds */
	uint64_t	sent_at;		/* 0: it has not been */
	uint64_t	deadline;
	uint64_t	abandoned_at;
	PgOutcome	outcome;		/* of a refused call */
	PgCall	   *previous;		/* in the queue */
	PgCall	   *next;
	int			parameter_count;
	int			formats[PG_PARAMETERS];
	int			lengths[PG_PARAMETERS]; /* -1 is NULL */
	size_t		offsets[PG_PARAMETERS];
	char	   *buffer;
	size_t		size;
	size_t		capacity;
};

/* The call goes to a connection; it has ended, with or without an answer. */
extern void pg_call_sent(PgCall *call);
extern void pg_call_ended(const PgCall *call);

extern void pg_call_free(PgCall *call);

#endif							/* PG_CALL_H */
