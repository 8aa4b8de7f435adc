/*-------------------------------------------------------------------------
 *
 * pg_session.h
 *	  A blocking connection to a database, for commands.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_SESSION_H
#define PG_SESSION_H

#include "engine/base/json.h"

typedef struct PgSession PgSession;

typedef struct PgFailure
{
	char		sqlstate[6];	/* "" when the server sent none */
	const char *message;		/* one line with detail and hint; in the arena */
} PgFailure;

/* A parameter: a text or a text array; NULL when neither is set. */
typedef struct PgParameter
{
	const char *text;
	const JsonText *items;
	size_t		count;
} PgParameter;

/* Rows of an answer, as text; valid until pg_rows_free(). */
typedef struct PgRows PgRows;

/*
 * Opens a connection.  conninfo is a connection string of libpq; "": libpq takes all parameters from the environment.
 * NULL with *failure when connecting fails.
 */
extern PgSession *pg_session_open(Arena *arena, const char *conninfo, bool read_only, PgFailure *failure);
extern void pg_session_close(PgSession *session);

/* Returns the name of the database, for messages. */
extern const char *pg_session_database(PgSession *session);

/*
 * Runs a statement in a transaction of its own; NULL with *failure when it fails.  After a temporary failure, such as a
 * lost connection, a deadlock or a lock time-out, the statement is run again, a few times, one second apart.  So
 * callers must pass only statements that may run twice.
 */
extern PgRows *pg_session_query(PgSession *session, Arena *arena, const char *statement, const PgParameter *parameters,
								size_t count, PgFailure *failure);

extern int	pg_rows_count(const PgRows *rows);

/* Returns the text of a value; NULL for an SQL null. */
extern const char *pg_rows_value(const PgRows *rows, int row, int column);

/*
 * Returns the value, a number from 1 to count, minus one.  Aborts for any other value: then the database is not one of
 * kube-reports.
 */
extern size_t pg_rows_place(const PgRows *rows, int row, int column, size_t count);
extern void pg_rows_free(PgRows *rows);

#endif							/* PG_SESSION_H */
