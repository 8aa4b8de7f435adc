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

/* From now on calls of this process are tasks: the upkeep process calls this. */
extern void pg_stall_watch(void);

/* A call has ended.  error: of PG_FAILED. */
extern void pg_stall_note(PgStatement statement, PgOutcome outcome, const PgError *error);

#endif							/* PG_STALL_H */
