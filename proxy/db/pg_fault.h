/*-------------------------------------------------------------------------
 *
 * pg_fault.h
 *	  Errors of calls that concern the whole store, not one request.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_FAULT_H
#define PG_FAULT_H

#include "db/pg_call.h"

/*
 * pg_pipeline.c calls this with the answer to each call: reads of objects show whether the store can be read.
 * error: NULL if the call succeeded.
 */
extern void pg_fault_note(PgStatement statement, const PgError *error);

/*
 * Whether an error shows a damaged store and is to be logged as an error: a table was renamed or altered, a right was
 * taken away, a page cannot be read, a function has a defect.  True at most once a minute for each statement.
 */
extern bool pg_fault_is_new(PgStatement statement, const char *sqlstate);

#endif							/* PG_FAULT_H */
