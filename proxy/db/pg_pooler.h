/*-------------------------------------------------------------------------
 *
 * pg_pooler.h
 *	  Finds out whether a pooler between the proxy and the database keeps sessions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_POOLER_H
#define PG_POOLER_H

#include <libpq-fe.h>

typedef enum PoolerMode
{
	POOLER_NOT_KNOWN,			/* not known yet: call again soon */
	POOLER_OF_SESSIONS,			/* a connection keeps one session of the server until it ends */
	POOLER_OF_TRANSACTIONS		/* the pooler may run each transaction, or statement, in another session */
} PoolerMode;

/*
 * Returns the mode of the pooler of a connection that does not lead to the server directly.  database: its connection
 * string.
 */
extern PoolerMode pg_pooler_mode(const PGconn *conn, const char *database);

/* Forgets the known modes, because a pooler may have changed: they are found out again. */
extern void pg_pooler_changed(void);

#endif							/* PG_POOLER_H */
