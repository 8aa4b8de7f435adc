/*-------------------------------------------------------------------------
 *
 * pg_session.c
 *	  A blocking connection to a database, for commands.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_session.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/allocate.h"
#include "db/pg_settings.h"

/* Five attempts, one second apart: a restart of the server takes no longer. */
#define ATTEMPTS 5

#define TEXT_OID 25
#define TEXT_ARRAY_OID 1009

#define MOST_PARAMETERS 10

struct PgSession
{
	PGconn	   *conn;
	bool		read_only;
};

/* Joins a message of libpq or the server into one line. */
static const char *
one_line(Arena *arena, const char *text)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	for (; *text != '\0'; text++)
	{
		if (*text != '\n')
			strbuf_putc(&buf, *text);
		else if (text[1] != '\0')
			strbuf_puts(&buf, "; ");
	}
	return buf.len > 0 ? buf.bytes : "";
}

static void
fail(Arena *arena, PgFailure *failure, const char *sqlstate, const char *message)
{
	memset(failure->sqlstate, 0, sizeof(failure->sqlstate));
	if (sqlstate != NULL)
		strncpy(failure->sqlstate, sqlstate, sizeof(failure->sqlstate) - 1);
	failure->message = one_line(arena, message);
}

static void
ignore_notice(void *state, const char *message)
{
}

/* Sets up a session, also after its connection was opened again. */
static bool
session_prepare(PgSession *session)
{
	PGresult   *result;
	bool		done;

	PQsetNoticeProcessor(session->conn, ignore_notice, NULL);
	/* A database that is only read does not have kube_reports. */
	result = PQexec(session->conn, session->read_only ? "SET default_transaction_read_only = on" :
					PG_SET_ROWS(PG_EXPECTED_SETTINGS));
	done = PQresultStatus(result) == (session->read_only ? PGRES_COMMAND_OK : PGRES_TUPLES_OK);
	PQclear(result);
	return done;
}

PgSession *
pg_session_open(Arena *arena, const char *conninfo, bool read_only, PgFailure *failure)
{
	const char *keywords[] = {"fallback_application_name", "keepalives_idle", "keepalives_interval", "keepalives_count",
	"connect_timeout", "client_encoding", "dbname", NULL};
	const char *values[] = {"kube-reports-proxy", "10", "5", "3", "10", "UTF8", conninfo, NULL};
	PgSession  *session = allocate(sizeof(*session));

	session->read_only = read_only;
	session->conn = PQconnectdbParams(keywords, values, 1);
	if (session->conn != NULL && PQstatus(session->conn) == CONNECTION_OK && session_prepare(session))
		return session;
	fail(arena, failure, NULL, session->conn != NULL ? PQerrorMessage(session->conn) : "out of memory");
	pg_session_close(session);
	return NULL;
}

void
pg_session_close(PgSession *session)
{
	PQfinish(session->conn);
	free(session);
}

const char *
pg_session_database(PgSession *session)
{
	const char *name = PQdb(session->conn);

	return name != NULL ? name : "";
}

/* ---------- parameters ---------- */

static void
append_int32(StrBuf *buf, size_t value)
{
	uint32_t	network = htonl((uint32_t) value);

	strbuf_append(buf, (const char *) &network, sizeof(network));
}

/*
 * Builds a text array in PostgreSQL's binary form: dimensions, nulls, element type, length and lower bound, elements.
 */
static JsonText
binary_array(Arena *arena, const JsonText *items, size_t count)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	append_int32(&buf, count > 0 ? 1 : 0);
	append_int32(&buf, 0);
	append_int32(&buf, TEXT_OID);
	if (count > 0)
	{
		append_int32(&buf, count);
		append_int32(&buf, 1);
	}
	for (size_t i = 0; i < count; i++)
	{
		append_int32(&buf, items[i].len);
		strbuf_append(&buf, items[i].bytes, items[i].len);
	}
	return (JsonText) {buf.bytes, buf.len};
}

/* ---------- statements ---------- */

/*
 * Whether the failure is temporary: a lost connection, a server that starts or stops, a conflict with other
 * transactions.
 */
static bool
is_passing(PGconn *conn, const char *sqlstate)
{
	static const char *const states[] = {"40001", "40P01", "55P03", "57P01", "57P02", "57P03"};

	if (PQstatus(conn) != CONNECTION_OK)
		return true;
	for (size_t i = 0; sqlstate != NULL && i < sizeof(states) / sizeof(states[0]); i++)
	{
		if (strcmp(sqlstate, states[i]) == 0)
			return true;
	}
	return false;
}

PgRows *
pg_session_query(PgSession *session, Arena *arena, const char *statement, const PgParameter *parameters, size_t count,
				 PgFailure *failure)
{
	Oid			types[MOST_PARAMETERS];
	const char *values[MOST_PARAMETERS];
	int			lengths[MOST_PARAMETERS];
	int			formats[MOST_PARAMETERS];

	for (size_t i = 0; i < count; i++)
	{
		types[i] = parameters[i].items != NULL ? TEXT_ARRAY_OID : 0;
		formats[i] = parameters[i].items != NULL;
		values[i] = parameters[i].text;
		lengths[i] = 0;
		if (parameters[i].items != NULL)
		{
			JsonText	array = binary_array(arena, parameters[i].items, parameters[i].count);

			values[i] = array.bytes;
			lengths[i] = (int) array.len;
		}
	}
	for (int attempt = 1;; attempt++)
	{
		PGresult   *result = PQexecParams(session->conn, statement, (int) count, types, values, lengths, formats, 0);
		const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

		if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK)
			return (PgRows *) result;
		fail(arena, failure, sqlstate, sqlstate != NULL ? PQresultErrorMessage(result) : PQerrorMessage(session->conn));
		if (attempt == ATTEMPTS || !is_passing(session->conn, sqlstate))
		{
			PQclear(result);
			return NULL;
		}
		PQclear(result);
		sleep(1);
		if (PQstatus(session->conn) != CONNECTION_OK)
		{
			PQreset(session->conn);
			if (PQstatus(session->conn) == CONNECTION_OK)
				session_prepare(session);
		}
	}
}

int
pg_rows_count(const PgRows *rows)
{
	return PQntuples((const PGresult *) rows);
}

const char *
pg_rows_value(const PgRows *rows, int row, int column)
{
	const PGresult *result = (const PGresult *) rows;

	return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

size_t
pg_rows_place(const PgRows *rows, int row, int column, size_t count)
{
	const char *value = pg_rows_value(rows, row, column);
	unsigned long place = value != NULL ? strtoul(value, NULL, 10) : 0;

	if (place == 0 || place > count)
		abort();
	return place - 1;
}

void
pg_rows_free(PgRows *rows)
{
	PQclear((PGresult *) rows);
}
