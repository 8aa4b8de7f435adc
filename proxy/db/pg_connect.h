/*-------------------------------------------------------------------------
 *
 * pg_connect.h
 *	  Opens connections to the database.
 *
 * Private to pg_pool.c, which owns pools and connections, and pg_connect.c, which
 * opens them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CONNECT_H
#define PG_CONNECT_H

#include "db/pg_choice.h"

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

/* Whether this process (the first worker, or a receiver) writes the log lines that concern the whole proxy. */
extern bool pg_announces;

#endif							/* PG_CONNECT_H */
