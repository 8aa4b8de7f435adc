/*-------------------------------------------------------------------------
 *
 * pg_choice.h
 *	  Which connection of a pool a call goes to.
 *
 * Private to pg.c, which owns pools and connections, pg_connect.c, which opens
 * connections, and pg_choice.c, which changes neither.
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

/* What a connection has been asked; the first one is being answered. */
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
	bool		broken;			/* by the peer, not by us */
	bool		flushing;		/* waits until the socket takes bytes */
	bool		wanted;			/* reconnect when closed */
	bool		misled;			/* the last attempt met a server that has to be set up first */
	bool		prepared[PG_STATEMENT_COUNT];
	char		unprepared[6];	/* SQLSTATE of a preparation that failed, for the call behind it; "" */
	char		unprepared_why[256];
	Step		steps[STEP_LIMIT];
	size_t		first_step;
	size_t		step_count;
	size_t		call_count;		/* steps that are calls */
	PGresult   *result;			/* of the first step */
	PgCall	   *victim;			/* the first step's, which is being stopped; NULL: none */
	PgInterrupt *interrupt;		/* on its way; NULL: none.  What comes next might be hit */
	uint64_t	interrupted_at;
	uint64_t	resolving_since;
	uint64_t	connect_deadline;
	uint64_t	back_off;
	LoopTimer	retry;
};

struct Pool
{
	const char *database;		/* connection string */
	const char *lock_timeout;	/* NULL: the server's own */
	bool		standby;
	bool		for_writes;
	PgTarget   *target;			/* NULL: there is nothing to resolve */
	MetricGauge use;
	Connection *connections;
	int			count;
	int			kept;			/* connections that not every call may take: see rank_limit() */
	int			ready;			/* connections that can take calls */
	PgCall	   *first;
	PgCall	   *last;
	size_t		waiting;		/* calls that count against the limit */
	uint64_t	away_since;		/* 0 when a connection is ready */
};

/* Which calls may take the last connections: the higher ones. */
typedef enum CallRank
{
	RANK_LASTING,				/* lists, and whatever else is not brief */
	RANK_BRIEF,
	RANK_URGENT,				/* brief, and urgent */
	RANK_COUNT
} CallRank;

extern CallRank call_rank(const PgCall *call);

/*
 * The connection for a call of this rank: an idle one, else one that can be given another brief read; NULL when it
 * has to wait.  *closed: one that may be opened because all that the call could have are busy, or NULL.
 */
extern Connection *pool_choose(const Pool *pool, CallRank rank, Connection **closed);

/*
 * Whether a lasting call that has no connection may have one as soon as one is idle: then it waits for others, not
 * for its own kind.
 */
extern bool pool_owes_idle(const Pool *pool);

#endif							/* PG_CHOICE_H */
