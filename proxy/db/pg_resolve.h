/*-------------------------------------------------------------------------
 *
 * pg_resolve.h
 *	  Addresses of the hosts that a connection string names.
 *
 * Private to pg.c.  libpq resolves names in the function that begins to
 * connect, and that would stop the loop for as long as DNS hangs.  So a thread
 * resolves them, and libpq is given the addresses beside the names, which it
 * still verifies certificates by.  The last good addresses are kept, in memory that
 * all processes of the proxy share: connections are made while DNS is away, also
 * by a process that takes the place of another.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_RESOLVE_H
#define PG_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

/* What one connection string leads to.  Lives as long as the process. */
typedef struct PgTarget PgTarget;

/* For libpq, in place of what the connection string says; lists separated by commas. */
typedef struct PgAddresses
{
	const char *host;
	const char *hostaddr;
	const char *port;
} PgAddresses;

/* Called by the parent before it forks. */
extern void pg_targets_init(void);

/*
 * standby: the string is --read-database, else --database.  resolved is called from the loop whenever names have been
 * resolved, or could not be.  NULL when there is nothing to resolve: sockets, addresses, or a string that libpq has
 * to complain about.
 */
extern PgTarget *pg_target_new(const char *database, bool standby, void (*resolved) (void *state), void *state);

/* Begins to resolve the names anew, unless that is under way; when it began, by loop_now(). */
extern uint64_t pg_target_resolve(PgTarget *target);

/*
 * What is known by now, be it old; false when there is no address, and then *why says why.  Valid until the next
 * call.
 */
extern bool pg_target_addresses(PgTarget *target, PgAddresses *addresses, const char **why);

#endif							/* PG_RESOLVE_H */
