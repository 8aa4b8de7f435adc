/*-------------------------------------------------------------------------
 *
 * pg_pooler.h
 *	  Poolers between the proxy and the database: whether they keep sessions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_POOLER_H
#define PG_POOLER_H

#include <libpq-fe.h>

typedef enum PoolerMode
{
	POOLER_NOT_KNOWN,			/* it is being found out: to be asked again soon */
	POOLER_OF_SESSIONS,			/* a connection has one session of the server for itself, until it ends */
	POOLER_OF_TRANSACTIONS		/* or of statements: each may be in another session */
} PoolerMode;

/* How a connection is pooled that does not end at the server itself.  database: its connection string. */
extern PoolerMode pg_pooler_mode(const PGconn *conn, const char *database);

/* Something has shown that it is, or may be, another mode by now. */
extern void pg_pooler_changed(void);

#endif							/* PG_POOLER_H */
