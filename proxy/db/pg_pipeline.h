/*-------------------------------------------------------------------------
 *
 * pg_pipeline.h
 *	  Sends calls over one connection and receives their results.
 *
 * Private to pg.c, which owns pools and connections, pg_connect.c, which opens
 * connections, and pg_pipeline.c, which uses and ends them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_PIPELINE_H
#define PG_PIPELINE_H

#include "db/pg_choice.h"

extern void connection_send(Connection *connection, PgCall *call);

/* Bytes from the server have arrived. */
extern void connection_readable(void *state);

/* Records why a connection cannot be used (NULL: already recorded); the next sweep closes it. */
extern void connection_doom(Connection *connection, const char *why);

/* The same for a reason that is already in the log; readyz still shows it. */
extern void connection_refuse(Connection *connection, const char *why);

/*
 * Ends a connection.  If this side closed it because a call took too long, its other brief reads with time left are
 * queued again.
 */
extern void connection_end(Connection *connection);

/*
 * Checks the deadlines of all calls, not only of the first: calls of the feeds wait behind others, and a statement may
 * hang while it is prepared.  An abandoned call matters only while it runs.
 */
extern void connection_check_calls(Connection *connection, uint64_t now);

/* The reason of the last connection_doom() or connection_refuse() that had one. */
extern const char *connection_trouble(void);

/* pg.c: sends waiting calls over the connections of a pool. */
extern void pool_dispatch(Pool *pool);

/* pg.c: puts a call that was sent in vain in front of the queue. */
extern void pool_requeue(Pool *pool, PgCall *call);

#endif							/* PG_PIPELINE_H */
