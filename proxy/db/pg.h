/*-------------------------------------------------------------------------
 *
 * pg.h
 *	  Calls of the extension's functions over a pool of connections.
 *
 * --database-connections is the most that a proxy opens.  The upkeep process
 * has two of them, one for its steps and one for everything that must not wait for
 * them; workers share the rest evenly.  Each worker has two pools, reads and writes,
 * so that batches that wait for a commit never starve reads: 2 of 3 connections
 * are for reads, 3 of 4 or 5, all but 2 of more.  One of those for reads is kept from
 * lists, and from 3 on one more is for urgent calls alone.  A third pool goes to a standby
 * when there is one (--read-database), with one connection less than the one for reads; what it cannot answer is
 * asked of the primary.  Connections are opened when they are first needed, one of each pool always.  A call waits in
 * its pool's queue (at most 1,000 requests, then PG_BUSY) until a
 * connection is free; brief reads may follow each other on one connection
 * without waiting for the answer (at most 4).  Every statement is prepared,
 * schema-qualified and binary; no text is ever pasted into SQL.
 *
 * A connection that is lost fails the calls that were on it with PG_LOST:
 * for a write, the outcome is then unknown.  While a pool has no connection
 * calls wait for at most 2 seconds, then they fail with PG_AWAY; once it has
 * been away that long, at once.  A call that outlasts its time, or whose
 * asker has gone for a second, is stopped at the server, and its connection is used again.  One that
 * is not stopped within two seconds costs the connection: the server notices the
 * closed socket within a second (client_connection_check_interval).
 * Reads of workers wait for no lock longer than 3 seconds.
 *
 * Only pg*.c include libpq-fe.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_H
#define PG_H

#include "engine/base/json.h"

typedef enum PgStatement
{
	PG_WHO,						/* these three are pg.c's own, on every new connection */
	PG_SETTINGS,
	PG_HELLO,
	PG_REGISTRY,
	PG_DOCUMENTS,
	PG_GET,
	PG_LIST,
	PG_WRITE,
	PG_DELETE_COLLECTION,
	PG_EXPORT,
	PG_WATCH,
	PG_CHANGES,
	PG_BOOKMARK,
	PG_POLL,
	PG_COUNTS,
	PG_RESULT_COUNTS,
	PG_WEBHOOK_NEXT,
	PG_WEBHOOK_DONE,
	PG_WEBHOOKS,
	PG_PENDING,
	PG_MAINTAIN,
	PG_CATCH_UP,
	PG_AGGREGATE,
	PG_ACTIVE_POLICIES,
	PG_NAMESPACES,
	PG_NAMESPACE,
	PG_SWEEP,
	PG_STATEMENT_COUNT
} PgStatement;

typedef enum PgOutcome
{
	PG_OK,
	PG_FAILED,					/* an SQL error: see PgError */
	PG_LOST,					/* the connection broke while the call was on it */
	PG_EXPIRED,					/* its time was up */
	PG_AWAY,					/* no connection to the database */
	PG_BUSY						/* the queue is full */
} PgOutcome;

typedef struct PgError
{
	char		sqlstate[6];
	const char *message;
	const char *hint;			/* what to do about it; NULL: the server does not say */
} PgError;

typedef struct PgCall PgCall;
typedef struct PgResult PgResult;

/*
 * Runs once, never from inside pg_send().  result is NULL unless the outcome is PG_OK, and then belongs to the
 * callee, who ends it with pg_result_free(); it has at least one row when the statement is one that answers with one.
 */
typedef void (*PgDone) (void *state, PgOutcome outcome, PgResult *result, const PgError *error);

/* How long the call took whose PgDone is running, in seconds: until there was a connection for it, and on that. */
typedef struct PgTimes
{
	double		waited;
	double		taken;
} PgTimes;

extern PgTimes pg_times(void);

/* Called by the parent before it forks.  Ends the proxy where libpq does not understand a connection string. */
extern void pg_init(void);

extern void pg_start_worker(int worker);
extern void pg_start_upkeep(void);

/* True when a connection for reads is up; otherwise *why (may be NULL) says what is wrong, for the log and readyz. */
extern bool pg_connected(const char **why);

/*
 * What the connections lead to, for the log: database, host, role, versions.  NULL in all processes but the first
 * worker, so that a proxy says once what concerns all of it.
 */
extern const char *pg_announcement(void);

/* For how long reads of objects have been waiting for locks in vain; 0: the last one did not. */
extern uint64_t pg_blocked_ms(void);

/* Parameters are added in order; the cluster, which is the first one of every statement, is added by pg_call_new. */
extern PgCall *pg_call_new(PgStatement statement);
extern void pg_add_null(PgCall *call);
extern void pg_add_bytes(PgCall *call, const char *bytes, size_t len);	/* text and bytea */
extern void pg_add_text(PgCall *call, const char *text);
extern void pg_add_int4(PgCall *call, int32_t value);
extern void pg_add_int8(PgCall *call, int64_t value);
extern void pg_add_int4_array(PgCall *call, const int32_t *values, size_t count);
extern void pg_add_text_array(PgCall *call, const JsonText *values, size_t count);
extern void pg_add_bytea_array(PgCall *call, const JsonText *values, size_t count);

/*
 * A standby may be behind: the asker must be able to tell from the answer, and to ask again without this.  The store
 * of the standby is known to be the same one.
 */
extern bool pg_standby_ready(void);
extern void pg_use_standby(PgCall *call);

/*
 * The queue has another 1,000 places for such calls: system:masters must get through to a proxy that is too busy for
 * others.
 */
extern void pg_exempt(PgCall *call);

/* What a piece of a list or an export is expected to take, a bit more than a megabyte. */
#define PG_PIECE_BYTES ((size_t) 1280 * 1024)

/*
 * The answer is for a client of this user, and counts from the moment at which the call is on a connection
 * (answer_room.h); before that the call waits for room, at most 10 seconds, then it fails with PG_BUSY.  The callee
 * goes on to hold what has come.
 */
extern void pg_answer_for(PgCall *call, uint64_t user);

/*
 * urgent calls (the feeds') go before all others, are not counted by the limit of the queue, and when brief have a
 * connection kept for them.
 */
extern void pg_send(PgCall *call, bool urgent, uint64_t timeout_ms, PgDone done, void *state);

/* done will not run.  What has been sent may still take effect. */
extern void pg_cancel(PgCall *call);

extern size_t pg_rows(const PgResult *result);
extern bool pg_is_null(const PgResult *result, size_t row, int column);

/* text and bytea; empty for NULL; NUL-terminated */
extern JsonText pg_text(const PgResult *result, size_t row, int column);
extern int32_t pg_int4(const PgResult *result, size_t row, int column); /* 0 for NULL */
extern int64_t pg_int8(const PgResult *result, size_t row, int column);
extern bool pg_bool(const PgResult *result, size_t row, int column);
extern size_t pg_result_bytes(const PgResult *result);	/* all that it takes */
extern void pg_result_free(PgResult *result);

/* Reads a one-dimensional array, element by element. */
typedef struct PgArray
{
	const char *next;
	const char *end;
	size_t		left;			/* elements not yet read */
} PgArray;

extern PgArray pg_array(const PgResult *result, size_t row, int column);	/* no element for NULL */

/* False at the end; a NULL element has value->bytes NULL. */
extern bool pg_array_next(PgArray *array, JsonText *value);
extern int32_t pg_array_int4(JsonText value);
extern int64_t pg_array_int8(JsonText value);

#endif							/* PG_H */
