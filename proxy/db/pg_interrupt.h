/*-------------------------------------------------------------------------
 *
 * pg_interrupt.h
 *	  Cancels queries at the server whose calls have expired or were abandoned.
 *
 * Private to pg_pipeline.c.  A cancel request needs its own connection, and libpq's
 * function for it blocks: a thread calls that function.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_INTERRUPT_H
#define PG_INTERRUPT_H

#include <libpq-fe.h>

typedef struct PgInterrupt PgInterrupt;

/*
 * Asks the server to cancel the query of a connection.  The loop calls done() when the request was executed or has
 * failed: after that, the request cannot cancel a later query.  NULL when too many requests are in progress.
 */
extern PgInterrupt *pg_interrupt(PGconn *conn, void (*done) (void *state), void *state);

/* Forgets the done() of a request, which is still sent. */
extern void pg_interrupt_forget(PgInterrupt *interrupt);

#endif							/* PG_INTERRUPT_H */
