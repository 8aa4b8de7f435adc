/*-------------------------------------------------------------------------
 *
 * pg_choice.h
 *	  Chooses the connection of a pool for a call.
 *
 * Private to pg_pool.c, which owns pools and connections, pg_connect.c, which opens
 * connections, pg_pipeline.c, which uses them, and pg_choice.c, which changes
 * neither pools nor connections.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CHOICE_H
#define PG_CHOICE_H

#include <libpq-fe.h>

#include "base/loop.h"
#include "db/pg_call.h"
#include "base/metrics.h"
#include "db/pg_interrupt.h"
#include "db/pg_resolve.h"

#define PIPELINE_DEPTH 4		/* brief reads on one connection */
#define STEP_LIMIT (2 * PIPELINE_DEPTH + 4)

typedef struct Pool Pool;
typedef struct PgConnection Connection;

/* A step of a connection: a call, or the preparation of a statement.  The server works on the first step. */
typedef struct Step
{
	PgCall	   *call;			/* NULL: statement is being prepared */
	PgStatement statement;
} Step;

typedef enum ConnectionState
{
	CONNECTION_CLOSED,
	CONNECTION_RESOLVING,		/* waits for the host's address */
	CONNECTION_CONNECTING,
	CONNECTION_GREETING,
	CONNECTION_READY
} ConnectionState;

struct PgConnection
{
	Pool	   *pool;
	PGconn	   *conn;
	LoopSocket *socket;
	ConnectionState state;
	bool		doomed;			/* to be closed by the sweep */
	bool		broken;			/* closed by the peer, not by this side */
	bool		flushing;		/* waits until the socket takes bytes */
	bool		wanted;			/* to be opened again when closed */
	bool		misled;			/* the last attempt failed because an operator must set up the server */
	bool		prepared[PG_STATEMENT_COUNT];
	char		unprepared[6];	/* SQLSTATE of a failed preparation, for the error of the next call; "": none */
	char		unprepared_why[256];
	Step		steps[STEP_LIMIT];
	size_t		first_step;
	size_t		step_count;
	size_t		call_count;		/* number of steps that are calls */
	PGresult   *result;			/* result of the first step */
	PgCall	   *victim;			/* the call of the first step while it is being cancelled; NULL: none */
	PgInterrupt *interrupt;		/* cancel request in progress; NULL: none.  It may hit the next call */
	uint64_t	interrupted_at;
	uint64_t	resolving_since;
	uint64_t	connect_deadline;
	uint64_t	back_off;
	LoopTimer	retry;
};

struct Pool
{
	const char *database;		/* connection string */
	const char *lock_timeout;
	bool		standby;
	bool		for_writes;
	PgTarget   *target;			/* NULL: there is nothing to resolve */
	MetricGauge use;
	Connection *connections;
	int			count;
	int			kept;			/* connections kept from calls of lower ranks: see rank_limit() */
	int			ready;			/* number of connections that can take calls */
	PgCall	   *first;
	PgCall	   *last;
	size_t		waiting;		/* number of waiting calls that count for the limit of the queue */
	uint64_t	away_since;		/* time since which no connection is ready; 0: one is */
	void		(*open) (Connection *connection);	/* begins to open a closed connection: connection_open() */
	const PgError *refusal;		/* the error of calls while no connection is ready; NULL: they get PG_AWAY */
};

/* Calls of higher ranks may use connections that are kept from lower ranks. */
typedef enum CallRank
{
	RANK_LASTING,				/* lists and other calls that are not brief */
	RANK_BRIEF,
	RANK_URGENT,				/* brief, and urgent */
	RANK_COUNT
} CallRank;

extern CallRank call_rank(const PgCall *call);

/*
 * Returns the connection for a call of this rank: an idle connection, else one that can take another brief read; NULL
 * when the call has to wait.  *closed: a closed connection to open, because all suitable ones are busy; or NULL.
 */
extern Connection *pool_choose(const Pool *pool, CallRank rank, Connection **closed);

/*
 * Whether the next idle connection is for a waiting lasting call.  False when enough other lasting calls are in
 * progress already.
 */
extern bool pool_owes_idle(const Pool *pool);

#endif							/* PG_CHOICE_H */
