/*-------------------------------------------------------------------------
 *
 * pg_connect.h
 *	  How a connection to the database comes about.
 *
 * Private to pg.c, which owns pools and connections, and pg_connect.c, which
 * opens them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CONNECT_H
#define PG_CONNECT_H

#include "db/pg_choice.h"

/* pg_connect.c: begins to open a connection that is closed; it is READY some time later, or doomed. */
extern void connection_open(Connection *connection);

/*
 * Goes on with the connections of a pool that wait for addresses: with fresh ones, or when those have been waited for
 * long enough.
 */
extern void pool_resolved(Pool *pool, bool fresh);

/*
 * Ends the proxy, as a wrong command line does, where libpq does not understand a connection string; what has no "="
 * names a database.
 */
extern void pg_check_connection_string(const char *flag, const char *text);

/* Tells an operator, now and then, when the server had no room for a connection; why is what libpq said. */
extern void connection_refused(const char *why);

/* Whether this is the process that says what concerns all of the proxy. */
extern bool pg_announces;

/* pg.c: says why a connection cannot be used (NULL: that is known); it is closed by the next sweep. */
extern void connection_doom(Connection *connection, const char *why);

/* The same for what has been said in the log: readyz says it still. */
extern void connection_refuse(Connection *connection, const char *why);
extern void connection_send(Connection *connection, PgCall *call);
extern void connection_readable(void *state);
extern void pool_dispatch(Pool *pool);

#endif							/* PG_CONNECT_H */
