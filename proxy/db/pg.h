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
 * One of the connections for reads is kept from lists; if there are 3 or more,
 * another one is kept for urgent calls.  With --read-database, a third pool
 * leads to the standby, with one connection less than the pool for reads; what
 * the standby cannot answer goes to the primary.  One connection of each pool
 * is always open, the others are opened when first needed.  A call waits in
 * the queue of its pool (at most 1,000 requests, then PG_BUSY) until a
 * connection is free.  Up to 4 brief reads may be sent on one connection
 * without waiting for answers.  Every statement is prepared, schema-qualified
 * and binary; no text is ever pasted into SQL.
 *
 * When a connection is lost, its calls fail with PG_LOST; the outcome of a
 * write is then unknown.  While a pool has no connection, calls wait at most 2
 * seconds and then fail with PG_AWAY; after these 2 seconds, new calls fail at
 * once.  A call is cancelled at the server when its time is up, or one second
 * after its caller has gone; its connection is then used again.  If cancelling
 * takes longer than two seconds, the connection is closed: the server notices
 * that within a second (client_connection_check_interval).  Reads of workers
 * wait at most 3 seconds for a lock.
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
	PG_WHO,						/* pg_connect.c sends this and the next two on each new connection */
	PG_SETTINGS,
	PG_HELLO,
	PG_REGISTRY,
	PG_DOCUMENTS,
	PG_GET,
	PG_LIST,
	PG_WRITE,
	PG_LOAD,					/* this and the next two: of a proxy that decides itself */
	PG_COMMIT,
	PG_LOAD_COLLECTION,
	PG_DELETE_COLLECTION,
	PG_EXPORT,
	PG_WATCH,
	PG_CHANGES,
	PG_READ_OBJECT,				/* these four in place of get, list, watch and changes where the proxy renders */
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
	PG_ENGINE_STEP,				/* the three above, in the SQL variant */
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
	PG_EXPIRED,					/* its time was up */
	PG_AWAY,					/* no connection to the database */
	PG_BUSY						/* the queue is full */
} PgOutcome;

typedef struct PgError
{
	char		sqlstate[6];
	const char *message;
	const char *hint;			/* what to do about it; NULL: none from the server */
} PgError;

typedef struct PgCall PgCall;
typedef struct PgResult PgResult;

/*
 * Runs once, never inside pg_send().  result is NULL unless the outcome is PG_OK.  It then belongs to the callee, which
 * frees it with pg_result_free(); it has at least one row if the statement always returns a row.
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

extern void pg_start_worker(int worker);
extern void pg_start_upkeep(void);
extern void pg_start_feed(void);

/* For a process that only stores what senders forward: one connection for reads, the others for writes; at least 2. */
extern void pg_start_receiver(void);

/* True when a connection for reads is open; otherwise *why (why may be NULL) is the reason, for the log and readyz. */
extern bool pg_connected(const char **why);

/*
 * Describes the database for the log: name, host, role, versions.  NULL in all processes but the first worker, so that
 * the proxy logs it once.
 */
extern const char *pg_announcement(void);

/* The variant of the extension, as the primary has said last.  In the variant in SQL the proxy runs the engine. */
typedef enum PgVariant
{
	PG_VARIANT_C,
	PG_VARIANT_SQL
} PgVariant;

extern PgVariant pg_variant(void);

/* How long reads of objects have failed with lock time-outs; 0: the last one did not. */
extern uint64_t pg_blocked_ms(void);

/* Parameters are added in order.  pg_call_new() adds the cluster, the first parameter of every statement. */
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
 * A standby may lag: the caller must detect that from the answer and ask again without pg_use_standby().
 * pg_standby_ready() is true only for a standby of the same store.
 */
extern bool pg_standby_ready(void);
extern void pg_use_standby(PgCall *call);

/*
 * The queue has another 1,000 places for such calls: system:masters must be served even when the proxy is too busy for
 * others.
 */
extern void pg_exempt(PgCall *call);

/* The expected size of a piece of a list or an export, a bit more than a megabyte. */
#define PG_PIECE_BYTES ((size_t) 1280 * 1024)

/*
 * The answer is for a client of this user.  It counts against the room for answers (answer_room.h) from the moment at
 * which the call is sent.  Before that the call waits for room, at most 10 seconds, then it fails with PG_BUSY.  After
 * that the callee holds the room for the result.
 */
extern void pg_answer_for(PgCall *call, uint64_t user);

/*
 * Urgent calls (those of the feeds) precede all others and do not count for the limit of the queue.  A connection is
 * kept for those that are brief.
 */
extern void pg_send(PgCall *call, bool urgent, uint64_t timeout_ms, PgDone done, void *state);

/* done() will not run.  A statement already sent may still take effect. */
extern void pg_cancel(PgCall *call);

extern int	pg_columns(const PgResult *result);
extern size_t pg_rows(const PgResult *result);
extern bool pg_is_null(const PgResult *result, size_t row, int column);

/* text and bytea; empty for NULL; NUL-terminated */
extern JsonText pg_text(const PgResult *result, size_t row, int column);
extern int32_t pg_int4(const PgResult *result, size_t row, int column); /* 0 for NULL */
extern int64_t pg_int8(const PgResult *result, size_t row, int column);
extern bool pg_bool(const PgResult *result, size_t row, int column);
extern size_t pg_result_bytes(const PgResult *result);	/* the memory of the result */
extern void pg_result_free(PgResult *result);

/* Iterates over a one-dimensional array. */
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
