/*-------------------------------------------------------------------------
 *
 * pg.h
 *	  Calls of the extension's functions over a pool of connections.
 *
 * A proxy opens at most --database-connections connections.  The upkeep
 * process has two of them: one for its steps, one for work that must not wait
 * for the steps.  The feed process has one.  The workers share the rest
 * evenly.  Each worker has two pools, reads and writes, so that batches that
 * wait for a commit never starve reads: 2 of 3 connections are for reads, 3 of
 * 4 or 5, all but 2 of more.
 *
 * One of the connections for reads is not used for lists; if there are 3 or
 * more, another one is only used for urgent calls.  With --read-database, a
 * third pool leads to the standby, with one connection less than the pool for
 * reads, but at least two.  When the standby cannot answer, the call goes to
 * the primary.  One connection of each pool is always open, the others are
 * opened when first needed.  A call waits in the queue of its pool (at most
 * 1,000 requests, then PG_BUSY) until a connection is free.  Up to 4 brief
 * reads may be sent on one connection without waiting for answers.  Every
 * statement is prepared, schema-qualified and binary; no text is ever pasted
 * into SQL.
 *
 * When a connection is lost, its calls fail with PG_LOST; the outcome of a
 * write is then unknown.  While a pool has no connection, calls wait at most 2
 * seconds and then fail with PG_AWAY; after these 2 seconds, new calls fail at
 * once.  A call is cancelled at the server when its time is over, or one
 * second after its caller has left; its connection is then used again.  If
 * cancelling takes longer than two seconds, the connection is closed: the
 * server notices that within a second (client_connection_check_interval).
 * Reads of workers wait at most 3 seconds for a lock.
 *
 * This header hides the types of libpq; .ci/layers says which files see them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_H
#define PG_H

#include "engine/base/json.h"

typedef enum PgStatement
{
	PG_WHO,						/* pg_connect.c sends this and the next two on each new connection */
	PG_SETTINGS,
	PG_HELLO,
	PG_REGISTRY,
	PG_DOCUMENTS,
	PG_GET,
	PG_LIST,
	PG_WRITE,
	PG_LOAD,					/* this and the next two: variant sql */
	PG_COMMIT,
	PG_LOAD_COLLECTION,
	PG_DELETE_COLLECTION,
	PG_EXPORT,
	PG_WATCH,
	PG_CHANGES,
	PG_READ_OBJECT,				/* variant sql: these four replace get, list, watch and changes */
	PG_READ_LIST,
	PG_READ_WATCH,
	PG_READ_CHANGES,
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
	PG_ENGINE_STEP,				/* variant sql: replaces the three above */
	PG_ACTIVE_POLICIES,
	PG_NAMESPACES,
	PG_NAMESPACE,
	PG_SWEEP,
	PG_FORWARD_SENDER,
	PG_FORWARD,
	PG_STATEMENT_COUNT
} PgStatement;

typedef enum PgOutcome
{
	PG_OK,
	PG_FAILED,					/* an SQL error: see PgError */
	PG_LOST,					/* the connection broke while the call was on it */
	PG_EXPIRED,					/* the time of the call was over */
	PG_AWAY,					/* no connection to the database */
	PG_BUSY						/* the queue is full */
} PgOutcome;

typedef struct PgError
{
	char		sqlstate[6];
	const char *message;
	const char *hint;			/* remedy; NULL: the server gave none */
} PgError;

typedef struct PgCall PgCall;
typedef struct PgResult PgResult;

/*
 * Gets the outcome of a call.  It runs once, never inside pg_send().  result is NULL unless the outcome is PG_OK; then
 * it belongs to this function, which frees it with pg_result_free(), and has at least one row if the statement always
 * returns a row.  error is set for PG_FAILED, else NULL.
 */
typedef void (*PgDone) (void *state, PgOutcome outcome, PgResult *result, const PgError *error);

/* Times of the call whose PgDone is running, in seconds: waiting for a connection, and on the connection. */
typedef struct PgTimes
{
	double		waited;
	double		taken;
} PgTimes;

extern PgTimes pg_times(void);

/* The parent calls this before it forks.  Exits when libpq does not understand a connection string. */
extern void pg_init(void);

/* A worker, the upkeep process and the feed process call these when their loop exists: they open the connections. */
extern void pg_start_worker(int worker);
extern void pg_start_upkeep(void);
extern void pg_start_feed(void);

/* For a process that only stores what senders forward: one connection for reads, the others for writes; at least 2. */
extern void pg_start_receiver(void);

/* Whether a connection for reads is open; if not, *why (why may be NULL) is the reason, for the log and readyz. */
extern bool pg_connected(const char **why);

/*
 * Describes the database for the log: name, host, role, versions.  NULL in all processes except the first worker, so
 * that the proxy logs it once.
 */
extern const char *pg_announcement(void);

/* The variant of the extension that the primary reported last.  In the variant in SQL the proxy runs the engine. */
typedef enum PgVariant
{
	PG_VARIANT_C,
	PG_VARIANT_SQL
} PgVariant;

extern PgVariant pg_variant(void);

/*
 * Returns why each read of objects fails, with the time of the first failure (loop_now()): a lock, or a missing table,
 * column or right.  NULL: the last read did not fail in this way.
 */
extern const char *pg_read_fault(uint64_t *since);

/*
 * Make a call and add its parameters in their order.  pg_call_new() adds the cluster, the first parameter of every
 * statement.  The values are copied.
 */
extern PgCall *pg_call_new(PgStatement statement);
extern void pg_add_null(PgCall *call);
extern void pg_add_bytes(PgCall *call, const char *bytes, size_t len);	/* text and bytea */
extern void pg_add_text(PgCall *call, const char *text);
extern void pg_add_int4(PgCall *call, int32_t value);
extern void pg_add_int8(PgCall *call, int64_t value);
extern void pg_add_int4_array(PgCall *call, const int32_t *values, size_t count);
extern void pg_add_text_array(PgCall *call, const JsonText *values, size_t count);
extern void pg_add_int8_array(PgCall *call, const int64_t *values, size_t count);
extern void pg_add_text_or_null_array(PgCall *call, const JsonText *values, size_t count);	/* bytes NULL: null */
extern void pg_add_bytea_array(PgCall *call, const JsonText *values, size_t count);

/*
 * pg_use_standby() sends the call to the standby.  A standby may lag: the caller must detect that from the answer and
 * call again without pg_use_standby().  pg_standby_ready(): whether a connection to a standby of the same store is
 * open.
 */
extern bool pg_standby_ready(void);
extern void pg_use_standby(PgCall *call);

/*
 * Marks a call of system:masters, who must be served even when the proxy is too busy for others.  The queue has another
 * 1,000 places for such calls.
 */
extern void pg_exempt(PgCall *call);

/* The expected size of a piece of a list or an export, in bytes. */
#define PG_PIECE_BYTES ((size_t) 1280 * 1024)

/*
 * Marks a call whose answer is for a client of this user.  The call waits for room for answers (answer_room.h), at most
 * 10 seconds, and then fails with PG_BUSY.  From the moment at which the call is sent, the answer counts against the
 * room.  When PgDone runs, the call no longer holds the room: PgDone must hold it for the result.
 */
extern void pg_answer_for(PgCall *call, uint64_t user);

/*
 * Marks a call for a sender.  Calls with the same number, which is not 0, are sent one after another; when one is sent,
 * those that wait go to the end of the queue.  At most 64 of them wait in a pool: a further one fails with PG_BUSY.
 */
extern void pg_in_turn(PgCall *call, uint64_t turn);

/*
 * Sends a call, or queues it.  Urgent calls (calls of the feeds) precede all others and do not count for the limit of
 * the queue; a connection is kept for brief urgent calls.  timeout_ms: time limit from now, with the wait.
 */
extern void pg_send(PgCall *call, bool urgent, uint64_t timeout_ms, PgDone done, void *state);

/* Abandons a call: its PgDone will not run.  A statement that was sent may still take effect. */
extern void pg_cancel(PgCall *call);

extern int	pg_columns(const PgResult *result);
extern size_t pg_rows(const PgResult *result);
extern bool pg_is_null(const PgResult *result, size_t row, int column);

/* Values of a row.  pg_text(): text and bytea, NUL-terminated; for an SQL null, "".  Numbers and booleans: 0, false. */
extern JsonText pg_text(const PgResult *result, size_t row, int column);
extern int32_t pg_int4(const PgResult *result, size_t row, int column);
extern int64_t pg_int8(const PgResult *result, size_t row, int column);
extern bool pg_bool(const PgResult *result, size_t row, int column);

/* Returns the memory that a result takes, in bytes. */
extern size_t pg_result_bytes(const PgResult *result);
extern void pg_result_free(PgResult *result);

/* Reads a one-dimensional array, element by element. */
typedef struct PgArray
{
	const char *next;
	const char *end;
	size_t		left;			/* elements not yet read */
} PgArray;

/* Returns the array of a column; for an SQL null, an array without elements. */
extern PgArray pg_array(const PgResult *result, size_t row, int column);

/* Reads the next element; false at the end.  For a null element, value->bytes is NULL. */
extern bool pg_array_next(PgArray *array, JsonText *value);
extern int32_t pg_array_int4(JsonText value);
extern int64_t pg_array_int8(JsonText value);

#endif							/* PG_H */
