/*-------------------------------------------------------------------------
 *
 * pg_interrupt.h
 *	  Queries that nobody waits for any more, stopped at the server.
 *
 * Private to pg.c.  A query is stopped by a message over a connection of its
 * own, and libpq's function for that blocks: a thread calls it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_INTERRUPT_H
#define PG_INTERRUPT_H

#include <libpq-fe.h>

typedef struct PgInterrupt PgInterrupt;

/*
 * Tells the server to stop what a connection is doing; done runs from the loop when it has been told, or cannot be:
 * then no signal is on its way any more.  NULL when too many are under way.
 */
extern PgInterrupt *pg_interrupt(PGconn *conn, void (*done) (void *state), void *state);

/* done will not run. */
extern void pg_interrupt_forget(PgInterrupt *interrupt);

#endif							/* PG_INTERRUPT_H */
