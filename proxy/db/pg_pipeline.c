/*-------------------------------------------------------------------------
 *
 * pg_pipeline.c
 *	  Sends calls over one connection and receives their results.
 *
 * Each connection is in libpq's pipeline mode and has a short queue of steps,
 * in the order in which they were sent: one for each statement to prepare and
 * one for each call.  Each step stands between two Syncs of its own.  So a
 * CALL that commits inside is alone in its implicit transaction, and an error
 * never affects the next call.
 *
 * No connection is closed while its results are being handed out: a connection
 * to be closed is marked, and the sweep of pg_pool.c, which runs every 100 ms,
 * closes it.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/log.h"
#include "base/metrics.h"
#include "db/pg_fault.h"
#include "db/pg_pooler.h"

#define ABANDONED_MS 1000		/* how long the query of an abandoned call may continue */
#define INTERRUPT_MS 2000		/* how long cancelling may take before the connection is closed */
#define BACK_OFF_MIN_MS 100
#define BACK_OFF_MAX_MS 2000
#define BACK_OFF_SETUP_MS 5000	/* pause before the next attempt when an operator must first set up the server */
#define TROUBLE_LOG_MS 60000	/* shortest time between two equal log lines about a connection */

/* Why the last connection failed, or the last attempt to connect. */
static char trouble[512] = "not connected yet";

static void connection_writable(void *state);

void
connection_count(const Connection *connection, MetricGauge gauge, long delta)
{
	if (!connection->pool->standby)
		metrics_gauge_add(gauge, delta);
}

/* ---------- the end of a connection ---------- */

static void
connection_close(Connection *connection)
{
	Pool	   *pool = connection->pool;

	if (connection->state == CONNECTION_READY)
	{
		connection_count(connection, GAUGE_DB_CONNECTIONS, -1);
		if (--pool->ready == 0)
			pool->away_since = loop_now();
	}
	if (connection->call_count > 0)
		connection_count(connection, GAUGE_DB_BUSY, -1);
	metrics_gauge_add(pool->use, -1);
	if (connection->interrupt != NULL)
		pg_interrupt_forget(connection->interrupt);
	if (connection->socket != NULL)
		loop_socket_close(connection->socket);
	if (connection->result != NULL)
		PQclear(connection->result);
	PQfinish(connection->conn);
	connection->interrupt = NULL;
	connection->victim = NULL;
	connection->socket = NULL;
	connection->result = NULL;
	connection->conn = NULL;
	connection->state = CONNECTION_CLOSED;
	connection->flushing = false;
	connection->doomed = false;
	connection->unprepared[0] = '\0';
	memset(connection->prepared, 0, sizeof(connection->prepared));
}

static void
connection_retry(void *state)
{
	Connection *connection = state;

	connection->pool->open(connection);
}

void
connection_end(Connection *connection)
{
	Pool	   *pool = connection->pool;
	Step		steps[STEP_LIMIT];
	size_t		count = connection->step_count;
	bool		broken = connection->broken;
	uint64_t	now = loop_now();

	for (size_t i = 0; i < count; i++)
		steps[i] = connection->steps[(connection->first_step + i) % STEP_LIMIT];
	connection_close(connection);
	connection->broken = false;
	connection->first_step = connection->step_count = connection->call_count = 0;

	if (connection->wanted)
	{
		uint64_t	most = connection->misled ? BACK_OFF_SETUP_MS : BACK_OFF_MAX_MS;

		connection->back_off = connection->back_off == 0 ? BACK_OFF_MIN_MS : connection->back_off * 2;
		if (connection->back_off > most)
			connection->back_off = most;
		loop_timer_start(&connection->retry, connection->back_off, connection_retry, connection);
	}

	/* Backwards, so that the calls keep their order in the queue. */
	for (size_t i = count; i-- > 0;)
	{
		PgCall	   *call = steps[i].call;

		if (call == NULL)
			continue;
		if (call->internal)
			call->done = NULL;
		if (call->done == NULL)
			pg_call_finish(call, PG_LOST, NULL, NULL);
		else if (!broken && pg_statements[call->statement].brief && now < call->deadline)
			pool_requeue(pool, call);
		else
			pg_call_finish(call, now >= call->deadline ? PG_EXPIRED : PG_LOST, NULL, NULL);
	}
	pool_dispatch(pool);
}

/* Stores libpq's message as the trouble, in one line, without the LOCATION in the server's source. */
static void
note_trouble(const char *why)
{
	size_t		len = 0;

	while (*why != '\0' && len + 1 < sizeof(trouble))
	{
		size_t		line = strcspn(why, "\n");

		if (strncmp(why, "LOCATION:", 9) != 0)
			len += (size_t) snprintf(trouble + len, sizeof(trouble) - len, "%s%.*s", len > 0 ? " " : "",
									 (int) line, why);
		why += line + strspn(why + line, "\n");
	}
}

/* Whether the trouble of a connection is to be logged: repeated attempts often fail alike, so only once a minute. */
static bool
is_news(const Connection *connection)
{
	static char said[sizeof(trouble)];
	static uint64_t said_at;
	uint64_t	now = loop_now();

	if (connection->state != CONNECTION_READY && strcmp(said, trouble) == 0 && now - said_at < TROUBLE_LOG_MS)
		return false;
	snprintf(said, sizeof(said), "%s", trouble);
	said_at = now;
	return true;
}

void
connection_doom(Connection *connection, const char *why)
{
	if (connection->doomed)
		return;
	connection->doomed = true;
	connection->broken = true;
	if (why != NULL)
	{
		note_trouble(why);
		if (is_news(connection))
			log_line(LOG_WARNING, "database: %s", trouble);
		if (connection->state == CONNECTION_CONNECTING)
			pg_fault_refused(trouble);
	}
	if (connection->state == CONNECTION_READY)
	{
		/* The connection must not take another call before the sweep. */
		connection_count(connection, GAUGE_DB_CONNECTIONS, -1);
		if (--connection->pool->ready == 0)
			connection->pool->away_since = loop_now();
		connection->state = CONNECTION_GREETING;
	}
}

void
connection_refuse(Connection *connection, const char *why)
{
	note_trouble(why);
	connection_doom(connection, NULL);
}

/* ---------- steps ---------- */

static void
connection_flush(Connection *connection)
{
	int			rest;

	if (connection->flushing || connection->doomed)
		return;
	rest = PQflush(connection->conn);
	if (rest < 0)
		connection_doom(connection, PQerrorMessage(connection->conn));
	else if (rest > 0)
	{
		connection->flushing = true;
		loop_socket_notify_write(connection->socket, connection_writable);
	}
}

static void
connection_push_step(Connection *connection, PgCall *call, PgStatement statement)
{
	Step	   *step = &connection->steps[(connection->first_step + connection->step_count) % STEP_LIMIT];

	step->call = call;
	step->statement = statement;
	connection->step_count++;
	if (call != NULL && connection->call_count++ == 0)
		connection_count(connection, GAUGE_DB_BUSY, 1);
}

void
connection_send(Connection *connection, PgCall *call)
{
	const PgStatementText *statement = &pg_statements[call->statement];
	const char *values[PG_PARAMETERS];
	bool		sent = true;

	call->connection = connection;
	pg_call_sent(call);
	if (call->statement != PG_WHO && !connection->prepared[call->statement])
	{
		sent = PQsendPrepare(connection->conn, statement->name, statement->text, 0, NULL) == 1 &&
			PQpipelineSync(connection->conn) == 1;
		connection->prepared[call->statement] = true;
		connection_push_step(connection, NULL, call->statement);
	}
	for (int i = 0; i < call->parameter_count; i++)
		values[i] = call->lengths[i] < 0 ? NULL : call->buffer + call->offsets[i];
	sent = sent &&
		(call->statement == PG_WHO ? PQsendQueryParams(connection->conn, statement->text, 0, NULL, NULL,
													   NULL, NULL, 1) :
		 PQsendQueryPrepared(connection->conn, statement->name, call->parameter_count, values,
							 call->lengths, call->formats, 1)) == 1 &&
		PQpipelineSync(connection->conn) == 1;
	connection_push_step(connection, call, call->statement);

	/* libpq has copied the parameters.  A brief read keeps them because it may be sent again. */
	if (!statement->brief)
	{
		free(call->buffer);
		call->buffer = NULL;
	}
	if (sent)
		connection_flush(connection);
	else
		connection_doom(connection, PQerrorMessage(connection->conn));
}

static void
connection_writable(void *state)
{
	Connection *connection = state;

	connection->flushing = false;
	connection_flush(connection);
}

/* Keeps the cause of a failed preparation: the call that follows fails with 26000, which does not tell the cause. */
static void
preparation_failed(Connection *connection, PgStatement statement, const PGresult *result)
{
	const char *sqlstate = result != NULL ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	const char *message = result != NULL ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;

	connection->prepared[statement] = false;
	snprintf(connection->unprepared, sizeof(connection->unprepared), "%s", sqlstate != NULL ? sqlstate : "XX000");
	snprintf(connection->unprepared_why, sizeof(connection->unprepared_why), "%s",
			 message != NULL ? message : "no answer");
	/* The greeting logs its own errors, with advice. */
	if (connection->state == CONNECTION_READY)
		log_line(pg_fault_is_new(statement, connection->unprepared) ? LOG_ERROR : LOG_WARNING,
				 "database: cannot prepare %s: %s", pg_statements[statement].name, connection->unprepared_why);
}

static bool
is_outdated(const Connection *connection, const PgError *error, const PGresult *result)
{
	return connection->state == CONNECTION_READY &&
		pg_fault_outdates(error, connection->pool->for_writes, PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION));
}

/* The first step of a connection has been answered. */
static void
connection_step_done(Connection *connection)
{
	Step		step = connection->steps[connection->first_step];
	PGresult   *result = connection->result;
	ExecStatusType status = result != NULL ? PQresultStatus(result) : PGRES_FATAL_ERROR;
	const PgStatementText *statement = &pg_statements[step.statement];
	PgError		error = {"XX000", "no answer", NULL};

	connection->result = NULL;
	connection->first_step = (connection->first_step + 1) % STEP_LIMIT;
	connection->step_count--;

	if (step.call == NULL)
	{
		if (status != PGRES_COMMAND_OK)
			preparation_failed(connection, step.statement, result);
		PQclear(result);
		return;
	}

	if (--connection->call_count == 0)
		connection_count(connection, GAUGE_DB_BUSY, -1);
	if (step.call == connection->victim)
		connection->victim = NULL;
	if (status == PGRES_TUPLES_OK)
	{
		if (PQnfields(result) >= statement->columns && (!statement->one_row || PQntuples(result) >= 1))
		{
			pg_fault_note(step.statement, NULL);
			pg_call_finish(step.call, PG_OK, result, NULL);
			return;
		}
		error.message = "the function's answer has fewer columns or rows than this proxy expects";
	}
	else if (result != NULL)
	{
		const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
		const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

		if (sqlstate != NULL)
			snprintf(error.sqlstate, sizeof(error.sqlstate), "%s", sqlstate);
		if (message != NULL)
			error.message = message;
		error.hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
		if (connection->unprepared[0] != '\0' && strcmp(error.sqlstate, "26000") == 0)
		{
			memcpy(error.sqlstate, connection->unprepared, sizeof(error.sqlstate));
			error.message = connection->unprepared_why;
			error.hint = NULL;
		}

		if (strcmp(error.sqlstate, "26000") == 0)
			pg_pooler_changed();
		if (is_outdated(connection, &error, result))
		{
			connection_doom(connection, error.message);
			/* The server checks a plan before it runs: nothing was done, and the next connection has the new plan. */
			if (strcmp(error.sqlstate, "0A000") == 0)
				memcpy(error.sqlstate, "08006", sizeof(error.sqlstate));
		}
	}
	/* The cancel request hit this call instead of the previous one: queue it again. */
	if (connection->interrupted_at != 0 && step.call->done != NULL && statement->brief &&
		strcmp(error.sqlstate, "57014") == 0)
	{
		pool_requeue(connection->pool, step.call);
		PQclear(result);
		return;
	}
	pg_fault_note(step.statement, &error);
	/* pg_connect.c logs the failures of a greeting. */
	if (step.call->done != NULL && !step.call->internal)
		log_line(pg_fault_is_new(step.statement, error.sqlstate) ? LOG_ERROR : LOG_WARNING,
				 "database: %s failed with %s: %s%s%s", statement->name, error.sqlstate, error.message,
				 error.hint != NULL ? " HINT: " : "", error.hint != NULL ? error.hint : "");
	pg_call_finish(step.call, PG_FAILED, NULL, &error);
	connection->unprepared[0] = '\0';
	PQclear(result);
}

/* Processes all results that have arrived. */
static void
connection_drain(Connection *connection)
{
	bool		ended = false;

	while (!connection->doomed && connection->step_count > 0 && !PQisBusy(connection->conn))
	{
		PGresult   *result = PQgetResult(connection->conn);

		/*
		 * One NULL ends the results of a statement; a second NULL means that a broken connection has no more results.
		 */
		if (result == NULL)
		{
			if (ended)
				break;
			ended = true;
			continue;
		}
		ended = false;
		if (PQresultStatus(result) == PGRES_PIPELINE_SYNC)
		{
			PQclear(result);
			connection_step_done(connection);
		}
		else if (connection->result == NULL)
			connection->result = result;
		else
			PQclear(result);
	}
}

void
connection_readable(void *state)
{
	Connection *connection = state;

	if (connection->doomed)
		return;
	if (PQconsumeInput(connection->conn) == 0)
	{
		/* The server's reason (such as 57P01) may have arrived already. */
		connection_drain(connection);
		connection_doom(connection, PQerrorMessage(connection->conn));
		return;
	}
	connection_drain(connection);
	if (!connection->doomed && PQstatus(connection->conn) == CONNECTION_BAD)
		connection_doom(connection, PQerrorMessage(connection->conn));
	if (!connection->doomed)
		connection_flush(connection);
	if (connection->state == CONNECTION_READY)
		pool_dispatch(connection->pool);
}

/* ---------- time limits ---------- */

/*
 * Reports PG_EXPIRED to the caller.  A ghost, a call without a caller, takes the place of the call on the connection.
 */
static void
step_expire(Connection *connection, Step *step)
{
	PgCall	   *call = step->call;
	PgCall	   *ghost = allocate(sizeof(PgCall));

	log_line(LOG_WARNING, "database: %s is cut off after %llu ms", pg_statements[call->statement].name,
			 (unsigned long long) (loop_now() - call->queued_at));
	ghost->statement = call->statement;
	ghost->connection = connection;
	ghost->queued_at = call->queued_at;
	/* The rest of the answer still takes the room of the call. */
	ghost->holding = call->holding;
	call->holding.bytes = 0;
	/* 0: the query may be cancelled at once. */
	ghost->abandoned_at = 0;
	step->call = ghost;
	call->connection = NULL;
	pg_call_refuse(call, PG_EXPIRED, NULL);
}

static void
interrupt_sent(void *state)
{
	Connection *connection = state;

	connection->interrupt = NULL;
	if (connection->victim == NULL && connection->state == CONNECTION_READY)
		pool_dispatch(connection->pool);
}

/* Cancels the running call at the server.  If that fails, the connection is closed. */
static void
connection_interrupt(Connection *connection, PgCall *call)
{
	uint64_t	now = loop_now();

	if (connection->victim == NULL && connection->interrupt == NULL)
	{
		connection->interrupt = pg_interrupt(connection->conn, interrupt_sent, connection);
		connection->victim = call;
		connection->interrupted_at = now;
		metrics_count(COUNTER_DB_INTERRUPTS, 1);
		if (connection->interrupt != NULL)
			return;
	}
	else if (now - connection->interrupted_at <= INTERRUPT_MS)
		return;
	log_line(LOG_WARNING, "database: %s cannot be stopped, and its connection is closed",
			 pg_statements[call->statement].name);
	connection_doom(connection, NULL);
	connection->broken = false;
}

void
connection_check_calls(Connection *connection, uint64_t now)
{
	for (size_t s = 0; s < connection->step_count && !connection->doomed; s++)
	{
		Step	   *step = &connection->steps[(connection->first_step + s) % STEP_LIMIT];
		bool		runs = s == 0 || (s == 1 && connection->steps[connection->first_step].call == NULL);

		if (step->call == NULL || step->call->internal)
			continue;
		if (step->call->done != NULL && now > step->call->deadline)
			step_expire(connection, step);
		if (runs && step->call->done == NULL && now - step->call->abandoned_at > ABANDONED_MS)
			connection_interrupt(connection, step->call);
	}
	/* A cancel request that takes longer has failed. */
	if (connection->interrupt != NULL && connection->victim == NULL && now - connection->interrupted_at > INTERRUPT_MS)
	{
		connection_doom(connection, NULL);
		connection->broken = false;
	}
	if (connection->victim == NULL && connection->interrupt == NULL)
		connection->interrupted_at = 0;
}

const char *
connection_trouble(void)
{
	return trouble;
}
