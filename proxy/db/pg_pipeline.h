/*-------------------------------------------------------------------------
 *
 * pg_pipeline.h
 *	  Sends calls over one connection and receives their results.
 *
 * Private to pg_pool.c, which owns pools and connections, pg_connect.c, which opens
 * connections, and pg_pipeline.c, which uses and ends them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_PIPELINE_H
#define PG_PIPELINE_H

#include "db/pg_choice.h"

extern void connection_send(Connection *connection, PgCall *call);

/*
 * Adds to GAUGE_DB_CONNECTIONS or GAUGE_DB_BUSY, unless the connection is one to the standby: both are of the database
 * itself.  The number of connections to the standby is GAUGE_DB_STANDBY.
 */
extern void connection_count(const Connection *connection, MetricGauge gauge, long delta);

/* Bytes from the server have arrived. */
extern void connection_readable(void *state);

/*
 * Records why a connection cannot be used (NULL: already recorded), and logs it; the next sweep closes the connection.
 */
extern void connection_doom(Connection *connection, const char *why);

/* The same without a line in the log, for a reason that was logged already; readyz shows the reason. */
extern void connection_refuse(Connection *connection, const char *why);

/*
 * Closes a connection and ends its calls with PG_LOST or PG_EXPIRED.  If the proxy closes it because a call took too
 * long, other brief reads on it that have time left are queued again.
 */
extern void connection_end(Connection *connection);

/*
 * Checks the deadlines of all calls on a connection, not only of the first one: calls of the feeds wait behind others,
 * and a statement may hang while it is prepared.  An abandoned call is cancelled only while it runs.
 */
extern void connection_check_calls(Connection *connection, uint64_t now);

/* Returns the reason that connection_doom() or connection_refuse() recorded last. */
extern const char *connection_trouble(void);

/* pg_pool.c: sends waiting calls over the connections of a pool. */
extern void pool_dispatch(Pool *pool);

/* pg_pool.c: puts a call that was sent without an effect in front of the queue. */
extern void pool_requeue(Pool *pool, PgCall *call);

#endif							/* PG_PIPELINE_H */
