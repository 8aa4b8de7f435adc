/*-------------------------------------------------------------------------
 *
 * pg_resolve.h
 *	  Resolves the host names of a connection string.
 *
 * Private to pg.c.  libpq resolves names when it begins to connect, which
 * would block the loop as long as DNS hangs.  So a thread resolves them.
 * libpq gets the addresses together with the names, by which it still verifies
 * certificates.  The last good addresses are kept in memory that all processes
 * of the proxy share: so connections can be opened while DNS is down, also by
 * a process that replaces another.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_RESOLVE_H
#define PG_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

/* The hosts of one connection string.  Lives as long as the process. */
typedef struct PgTarget PgTarget;

/* Values for libpq that replace those of the connection string; lists separated by commas. */
typedef struct PgAddresses
{
	const char *host;
	const char *hostaddr;
	const char *port;
} PgAddresses;

/* The parent calls this before it forks. */
extern void pg_targets_init(void);

/*
 * standby: the string is --read-database, else --database.  The loop calls resolved() whenever names were resolved or
 * could not be.  NULL when there is nothing to resolve: sockets, addresses, or a string that libpq will refuse.
 */
extern PgTarget *pg_target_new(const char *database, bool standby, void (*resolved) (void *state), void *state);

/* Begins to resolve the names again, unless this is in progress.  Returns its start, by loop_now(). */
extern uint64_t pg_target_resolve(PgTarget *target);

/* Returns the known addresses, even if old; false and *why when there is no address.  Valid until the next call. */
extern bool pg_target_addresses(PgTarget *target, PgAddresses *addresses, const char **why);

#endif							/* PG_RESOLVE_H */
