/*-------------------------------------------------------------------------
 *
 * pg_resolve.h
 *	  Resolves the host names of a connection string.
 *
 * Private to pg_pool.c and pg_connect.c.  libpq resolves names when it begins to
 * connect, which would block the loop as long as DNS hangs.  So a thread
 * resolves the names.  libpq gets the addresses and the names, which it needs
 * to verify certificates.  The last good addresses are in memory that all
 * processes of the proxy share: so connections can be opened while DNS does
 * not answer, also by a process that was restarted.
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
 * Returns the target of a connection string: --read-database (standby) or --database.  The loop calls resolved() at the
 * end of every attempt to resolve the names.  NULL when the string has no names to resolve: it has sockets or
 * addresses, or libpq will refuse it.
 */
extern PgTarget *pg_target_new(const char *database, bool standby, void (*resolved) (void *state), void *state);

/*
 * Begins to resolve the names again, unless an attempt is in progress.  Returns the start of the attempt (loop_now()).
 */
extern uint64_t pg_target_resolve(PgTarget *target);

/* Returns the known addresses, even if old; false and *why when there is no address.  Valid until the next call. */
extern bool pg_target_addresses(PgTarget *target, PgAddresses *addresses, const char **why);

#endif							/* PG_RESOLVE_H */
