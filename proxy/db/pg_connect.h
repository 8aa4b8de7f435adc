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
 * Whether an error says that the database is another one than in the greeting.  After an update of the extension a
 * prepared statement may have the old result type (0A000), or its function may be gone (42883).  The extension may have
 * been dropped (3F000), its schema renamed (42P01), the cluster unregistered or a grant revoked (42501); a pooler may
 * have put another session behind the connection (26000).  A new connection learns in its greeting what the database
 * supports, and logs what is missing; a failed greeting has reasons of its own.
 *
 * source: the function of the server that raised the error, or NULL; messages are in the server's language.
 */
extern bool connection_outdated(const PgError *error, const char *source);

/* pg_connect.c: begins to open a closed connection; later it is READY, or doomed. */
extern void connection_open(Connection *connection);

/*
 * Continues with the connections of a pool that wait for addresses: with fresh addresses, or with old ones after
 * waiting long enough for fresh ones.
 */
extern void pool_resolved(Pool *pool, bool fresh);

/*
 * Exits as for a wrong command line when libpq does not understand a connection string.  A text without "=" is the name
 * of a database.
 */
extern void pg_check_connection_string(const char *flag, const char *text);

/* Logs from time to time that the server had no room for a connection; why is libpq's message. */
extern void connection_refused(const char *why);

/* Whether this process logs what concerns the whole proxy. */
extern bool pg_announces;

#endif							/* PG_CONNECT_H */
