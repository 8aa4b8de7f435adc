/*-------------------------------------------------------------------------
 *
 * pg_fault.h
 *	  Errors that concern the whole store or a connection, not one request.
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

/*
 * Whether an error says that the database has changed since the greeting.  After an update of the extension a prepared
 * statement may have the old result type (0A000), or its function may be gone (42883).  The extension may have been
 * dropped (3F000), its schema renamed (42P01), the cluster unregistered or a grant revoked (42501); a pooler may have
 * given the connection another session (26000); or a connection for writes may not write any more (25006).  The
 * connection is then to be closed: the greeting of a new connection asks which protocols the database supports, and
 * logs what is missing.
 *
 * writes: whether the connection is for writes.  source: the function of the server that raised the error, or NULL;
 * messages are in the server's language.
 */
extern bool pg_fault_outdates(const PgError *error, bool writes, const char *source);

/* Counts that the server had no room for a connection, and logs it at most once a minute; why is libpq's message. */
extern void pg_fault_refused(const char *why);

#endif							/* PG_FAULT_H */
