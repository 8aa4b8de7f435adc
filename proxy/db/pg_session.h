/*-------------------------------------------------------------------------
 *
 * pg_session.h
 *	  One connection to a database, whose answers are waited for: for commands.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_SESSION_H
#define PG_SESSION_H

#include "engine/base/json.h"

typedef struct PgSession PgSession;

typedef struct PgFailure
{
	char		sqlstate[6];	/* "" when the server did not say one */
	const char *message;		/* with detail and hint, in one line; in the arena */
} PgFailure;

/* A parameter: a text, or a text array; neither: NULL. */
typedef struct PgParameter
{
	const char *text;
	const JsonText *items;
	size_t		count;
} PgParameter;

/* Rows of an answer, as text; they live until pg_rows_free(). */
typedef struct PgRows PgRows;

/* conninfo as libpq takes it, "" for its environment.  NULL with failure when there is no connection. */
extern PgSession *pg_session_open(Arena *arena, const char *conninfo, bool read_only, PgFailure *failure);
extern void pg_session_close(PgSession *session);

/* The name of the database, for messages. */
extern const char *pg_session_database(PgSession *session);

/*
 * Runs a statement in a transaction of its own; NULL with failure.  After a lost connection, a deadlock and a lock
 * time-out it is run again, a few times, a second apart: callers send what may be sent twice.
 */
extern PgRows *pg_session_query(PgSession *session, Arena *arena, const char *statement, const PgParameter *parameters,
								size_t count, PgFailure *failure);

extern int	pg_rows_count(const PgRows *rows);

/* NULL for a null. */
extern const char *pg_rows_value(const PgRows *rows, int row, int column);

/* A number that counts from 1 to count, less one; what is none of these ends the process: the database is not ours. */
extern size_t pg_rows_place(const PgRows *rows, int row, int column, size_t count);
extern void pg_rows_free(PgRows *rows);

#endif							/* PG_SESSION_H */
