/*-------------------------------------------------------------------------
 *
 * pg_stall.h
 *	  Tasks of the upkeep process that do not succeed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_STALL_H
#define PG_STALL_H

#include "db/pg.h"

/* The upkeep process calls this: from now on, pg_stall_note() counts the calls of this process. */
extern void pg_stall_watch(void);

/* pg_call.c calls this when a call has ended.  error: set for PG_FAILED. */
extern void pg_stall_note(PgStatement statement, PgOutcome outcome, const PgError *error);

#endif							/* PG_STALL_H */
