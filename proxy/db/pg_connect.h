/*-------------------------------------------------------------------------
 *
 * pg_connect.h
 *	  Opens connections to the database.
 *
 * Private to pg.c, which owns pools and connections, and pg_connect.c, which
 * opens them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CONNECT_H
#define PG_CONNECT_H

#include "db/pg_choice.h"

/*
 * Whether an error says that the database has changed since the greeting.  After an update of the extension a prepared
 * statement may have the old result type (0A000), or its function may be gone (42883).  The extension may have been
 * dropped (3F000), its schema renamed (42P01), the cluster unregistered or a grant revoked (42501); a pooler may have
 * given the connection another session (26000); or a connection for writes may not write any more (25006).  The
 * connection is then closed: the greeting of a new connection asks
 * which protocols the database supports, and logs what is missing.
 *
 * source: the function of the server that raised the error, or NULL; messages are in the server's language.
 */
extern bool connection_outdated(const Connection *connection, const PgError *error, const char *source);

/* Begins to open a closed connection, which later becomes CONNECTION_READY or doomed. */
extern void connection_open(Connection *connection);

/*
 * Lets connections of a pool that wait for addresses go on: with fresh addresses (fresh), or with old ones when they
 * have waited long enough.
 */
extern void pool_resolved(Pool *pool, bool fresh);

/*
 * Exits with code 2, as for a wrong command line, when libpq does not understand a connection string.  A text without
 * "=" is the name of a database.
 */
extern void pg_check_connection_string(const char *flag, const char *text);

/* Counts that the server had no room for a connection, and logs it at most once a minute; why is libpq's message. */
extern void connection_refused(const char *why);

/* Whether this process (the first worker, or a receiver) writes the log lines that concern the whole proxy. */
extern bool pg_announces;

#endif							/* PG_CONNECT_H */
