/*-------------------------------------------------------------------------
 *
 * pg_connect.c
 *	  Opens connections to the database.
 *
 * Opening a connection has four steps: the host's name is resolved, libpq
 * connects, the session gets its settings, and api_hello() says whether the
 * connection leads to the store that this proxy serves.  The last two steps
 * are the greeting.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_connect.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "db/pg_password.h"
#include "db/pg_pipeline.h"
#include "db/pg_pooler.h"

#define CONNECT_MS 10000		/* for connecting, authentication and api_hello */
#define RESOLVE_MS 1000			/* how long a connection waits for new addresses when it knows old ones */

/* Identity of the store that the primary reported last; "": none yet. */
static char store[40];
static PgVariant variant;		/* variant of the extension in that store */

bool		pg_announces;
static char announcement[512];

/* The reason of a failed greeting that was logged last. */
static char told_trouble[512];

static void connection_step(void *state);

/* ---------- connection strings ---------- */

void
pg_check_connection_string(const char *flag, const char *text)
{
	PQconninfoOption *options;
	char	   *why = NULL;

	/* libpq takes a text in neither form for the name of a database. */
	if (strchr(text, '=') == NULL && strncmp(text, "postgresql://", 13) != 0 && strncmp(text, "postgres://", 11) != 0)
		return;
	options = PQconninfoParse(text, &why);
	if (options == NULL)
	{
		if (why != NULL)
			why[strcspn(why, "\n")] = '\0';
		/* The message leaves out the string, which may contain a password. */
		config_refuse(flag, why != NULL ? why : "out of memory");
	}
	PQconninfoFree(options);
}

/* ---------- the greeting ---------- */

/* Sets the announcement of the database for the log, once. */
static void
announce(const Connection *connection, const PgResult *hello)
{
	PGconn	   *conn = connection->conn;
	const char *version = PQparameterStatus(conn, "server_version");

	if (!pg_announces || connection->pool->standby || announcement[0] != '\0')
		return;
	snprintf(announcement, sizeof(announcement),
			 "database \"%s\" at %s port %s as role \"%s\"; PostgreSQL %s, extension %s",
			 PQdb(conn), PQhost(conn), PQport(conn), PQuser(conn), version != NULL ? version : "of unknown version",
			 pg_text(hello, 0, 5).bytes);
}

PgVariant
pg_variant(void)
{
	return variant;
}

const char *
pg_announcement(void)
{
	return announcement[0] != '\0' ? announcement : NULL;
}

/*
 * Returns why a greeting failed.  When an operator must set up the server, this function logs the necessary steps,
 * once, and later attempts are less frequent.
 */
static const char *
greeting_trouble(Connection *connection, const PgError *error)
{
	static char why[512];
	static char advice[300];
	PGconn	   *conn = connection->conn;
	const char *hint = error->hint;

	snprintf(why, sizeof(why), "%s", error->message);
	if (strcmp(error->sqlstate, "3F000") == 0)
	{
		snprintf(why, sizeof(why), "database \"%s\" does not have the extension: %s", PQdb(conn), error->message);
		hint = "In that database its owner runs: CREATE EXTENSION kube_reports; or kube_reports--install.sql, where no "
			"extension can be installed. If the schema was renamed, rename it back";
	}
	else if (strcmp(error->sqlstate, "42883") == 0)
	{
		snprintf(why, sizeof(why),
				 "database \"%s\" has the extension in another version than this proxy's, which is %s",
				 PQdb(conn), KUBE_REPORTS_VERSION);
		hint = "In that database its owner runs: ALTER EXTENSION kube_reports UPDATE";
	}
	else if (strcmp(error->sqlstate, "42501") == 0 && hint == NULL)
	{
		snprintf(advice, sizeof(advice), "The owner grants it: SELECT kube_reports.grant_proxy('%s', '%s')",
				 PQuser(conn), config.cluster_id);
		hint = advice;
	}
	connection->misled = hint != NULL;
	if (hint != NULL && strcmp(told_trouble, why) != 0)
		log_line(pg_announces ? LOG_ERROR : LOG_WARNING, "%s. %s", why, hint);
	snprintf(told_trouble, sizeof(told_trouble), "%s", why);
	return why;
}

/*
 * Whether a connection leads to the store that this proxy serves.  A copy of the reports on another server may look the
 * same but count its versions differently.
 */
static bool
is_same_store(const Connection *connection, const PgResult *hello)
{
	static bool told;
	const char *shown = pg_text(hello, 0, 1).bytes;
	bool		same;

	if (!connection->pool->standby)
	{
		snprintf(store, sizeof(store), "%s", shown);
		variant = json_text_is(pg_text(hello, 0, 6), "sql") ? PG_VARIANT_SQL : PG_VARIANT_C;
		return true;
	}
	same = strcmp(store, shown) == 0;
	/* Until the primary has answered, a difference is not an error. */
	if (!same && !told && store[0] != '\0')
		log_line(LOG_ERROR, "--read-database is no standby of the database: it is not used");
	told = !same && store[0] != '\0';
	return same;
}

/*
 * Whether this proxy and the extension have a common protocol; if not, *why names the remedy, and the log has it once.
 */
static bool
is_understood(const PgResult *hello, const char **why)
{
	static char refusal[200];
	static bool told;
	int32_t		oldest = pg_int4(hello, 0, 3);
	int32_t		newest = pg_int4(hello, 0, 4);

	if (oldest <= PROTOCOL_NEWEST && newest >= PROTOCOL_OLDEST)
	{
		told = false;
		return true;
	}
	snprintf(refusal, sizeof(refusal), "this proxy is too %s for the extension in the database: it speaks protocols "
			 "%d to %d, the extension %d to %d: %s",
			 newest < PROTOCOL_OLDEST ? "new" : "old", PROTOCOL_OLDEST, PROTOCOL_NEWEST, oldest, newest,
			 newest < PROTOCOL_OLDEST ? "update the extension (ALTER EXTENSION kube_reports UPDATE)" :
			 "use a newer proxy");
	/* Every attempt fails in the same way: log it once. */
	if (!told)
		log_line(LOG_ERROR, "%s", refusal);
	told = true;
	*why = refusal;
	return false;
}

/*
 * The server of the pool for writes may be read-only: a standby, or default_transaction_read_only is on.  Then reads
 * are answered, and writes fail with this error.
 */
static const PgError read_only_error = {"25006", "the database is read-only", NULL};

static void
note_read_only(Pool *pool, bool read_only)
{
	bool		news = read_only != (pool->refusal != NULL);

	pool->refusal = read_only ? &read_only_error : NULL;
	if (news && pg_announces)
		log_line(read_only ? LOG_ERROR : LOG_NOTICE, read_only ?
				 "the database is read-only (a standby, or default_transaction_read_only): writes are refused" :
				 "the database accepts writes again");
}

/* api_hello() has answered: the role has its rights and the cluster is known. */
static void
connection_greeted(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Connection *connection = state;
	const char *refusal = NULL;
	bool		understood = outcome != PG_OK || is_understood(result, &refusal);
	bool		same = outcome == PG_OK && understood && is_same_store(connection, result);
	bool		read_only = outcome == PG_OK && pg_bool(result, 0, 2);

	if (outcome == PG_OK)
		announce(connection, result);
	pg_result_free(result);
	if (!understood)
	{
		connection_refuse(connection, refusal);
		return;
	}
	/* On a read-only server, the greeting skipped the steps that must precede the first write. */
	if (connection->pool->for_writes && outcome == PG_OK)
		note_read_only(connection->pool, read_only);
	if (read_only && connection->pool->for_writes)
	{
		connection_refuse(connection, read_only_error.message);
		return;
	}
	if (!same)
	{
		connection_doom(connection, error != NULL ? greeting_trouble(connection, error) :
						outcome != PG_OK ? "connection lost while greeting" :
						"not a standby of the database, or that is not known yet");
		return;
	}
	connection->misled = false;
	told_trouble[0] = '\0';
	connection->state = CONNECTION_READY;
	connection->back_off = 0;
	connection->pool->ready++;
	connection->pool->away_since = 0;
	connection_count(connection, GAUGE_DB_CONNECTIONS, 1);
	pool_dispatch(connection->pool);
}

/* Logs once that the pooler does not pool sessions; later attempts are less frequent. */
static void
refuse_pooler(Connection *connection)
{
	char		why[300];

	snprintf(why, sizeof(why),
			 "the pooler at %s port %s pools transactions or statements: this proxy needs session pooling"
			 " (pool_mode = session), because its sessions have settings and prepared statements",
			 PQhost(connection->conn), PQport(connection->conn));
	connection->misled = true;
	if (strcmp(told_trouble, why) != 0)
		log_line(pg_announces ? LOG_ERROR : LOG_WARNING, "%s", why);
	snprintf(told_trouble, sizeof(told_trouble), "%s", why);
	connection_refuse(connection, why);
}

static void
connection_set(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	pg_result_free(result);

	/*
	 * A new session has no prepared statements, and keeps the statements that it prepares.  So these errors mean that
	 * the connection has another session now.
	 */
	if (error != NULL && (strcmp(error->sqlstate, "26000") == 0 || strcmp(error->sqlstate, "42P05") == 0))
		refuse_pooler(state);
	else if (outcome != PG_OK)
		connection_doom(state, error != NULL ? error->message : "connection lost while greeting");
}

/* Sends a call of the greeting. */
static void
greet_with(Connection *connection, PgCall *call, PgDone done)
{
	call->done = done;
	call->state = connection;
	call->internal = true;
	call->urgent = true;
	call->deadline = connection->connect_deadline;
	connection_send(connection, call);
}

static void
connection_set_up(Connection *connection)
{
	PgCall	   *settings = pg_call_new(PG_SETTINGS);
	PgCall	   *hello = pg_call_new(PG_HELLO);

	pg_add_text(settings, connection->pool->lock_timeout);
	pg_add_text(hello, config.cluster_name != NULL ? config.cluster_name : "");
	pg_add_int4(hello, PROTOCOL_NEWEST);
	greet_with(connection, settings, connection_set);
	greet_with(connection, hello, connection_greeted);
}

/*
 * The server has returned the process ID of the session.  If it differs from the ID that libpq knows, there is a pooler
 * between the proxy and the server.
 */
static void
connection_identified(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Connection *connection = state;
	bool		pooled = outcome == PG_OK && pg_int4(result, 0, 0) != PQbackendPID(connection->conn);
	PoolerMode	mode = pooled ? pg_pooler_mode(connection->conn, connection->pool->database) : POOLER_OF_SESSIONS;

	pg_result_free(result);
	if (outcome != PG_OK)
		connection_doom(connection, error != NULL ? error->message : "connection lost while greeting");
	else if (mode == POOLER_NOT_KNOWN)
		connection_refuse(connection, "there is a pooler in between, and its mode is not known yet");
	else if (mode == POOLER_OF_TRANSACTIONS)
		refuse_pooler(connection);
	else
		connection_set_up(connection);
}

static void
connection_greet(Connection *connection)
{
	connection->state = CONNECTION_GREETING;
	PQsetErrorVerbosity(connection->conn, PQERRORS_DEFAULT);
	if (PQsetnonblocking(connection->conn, 1) != 0 || PQenterPipelineMode(connection->conn) != 1)
		connection_doom(connection, PQerrorMessage(connection->conn));
	greet_with(connection, pg_call_new(PG_WHO), connection_identified);
}

/* Watches libpq's socket; false when no descriptor is left. */
static bool
connection_watch(Connection *connection, void (*readable) (void *state))
{
	connection->socket = loop_socket_open(PQsocket(connection->conn), readable, connection);
	if (connection->socket == NULL)
		connection_doom(connection, "no descriptor is left for the connection");
	return connection->socket != NULL;
}

/* ---------- connecting ---------- */

/* One step of connecting.  libpq may have changed the socket, so the loop watches it anew. */
static void
connection_poll(Connection *connection)
{
	PostgresPollingStatusType status = PQconnectPoll(connection->conn);

	if (connection->socket != NULL)
		loop_socket_close(connection->socket);
	connection->socket = NULL;
	if (status == PGRES_POLLING_FAILED)
	{
		connection_doom(connection, PQerrorMessage(connection->conn));
		return;
	}
	if (status == PGRES_POLLING_OK)
	{
		if (connection_watch(connection, connection_readable))
			connection_greet(connection);
		return;
	}
	if (connection_watch(connection, connection_step) && status == PGRES_POLLING_WRITING)
		loop_socket_notify_write(connection->socket, connection_step);
}

static void
connection_step(void *state)
{
	Connection *connection = state;

	if (!connection->doomed && connection->state == CONNECTION_CONNECTING)
		connection_poll(connection);
}

/* Logs what libpq would print to standard error: every line of the log must be JSON. */
static void
connection_notice(void *state, const char *message)
{
	log_line(LOG_WARNING, "database: %.*s", (int) strcspn(message, "\n"), message);
}

/* Begins to connect to the known addresses. */
static void
connection_start(Connection *connection)
{
	/* An empty value counts as a parameter that is not given. */
	const char *keywords[] = {"fallback_application_name", "keepalives_idle", "keepalives_interval", "keepalives_count",
	"tcp_user_timeout", "client_encoding", "dbname", "password", "host", "hostaddr", "port", NULL};
	const char *values[] = {"kube-reports-proxy", "10", "5", "3", "10000", "UTF8", connection->pool->database, NULL,
	NULL, NULL, NULL, NULL};
	PgAddresses addresses;
	Arena		arena;
	const char *why;

	arena_init(&arena);
	if (!pg_password_read(&arena, connection->pool->database, &values[7], &why))
	{
		connection_doom(connection, why);
		arena_free(&arena);
		return;
	}
	if (connection->pool->target == NULL)
		keywords[8] = NULL;
	else if (pg_target_addresses(connection->pool->target, &addresses, &why))
	{
		/* These values override the connection string, because they follow it. */
		values[8] = addresses.host;
		values[9] = addresses.hostaddr;
		values[10] = addresses.port;
	}
	else
	{
		connection_doom(connection, why);
		arena_free(&arena);
		return;
	}
	connection->state = CONNECTION_CONNECTING;
	connection->conn = PQconnectStartParams(keywords, values, 1);
	arena_free(&arena);
	if (connection->conn == NULL || PQstatus(connection->conn) == CONNECTION_BAD)
	{
		connection_doom(connection, connection->conn != NULL ? PQerrorMessage(connection->conn) : "out of memory");
		return;
	}
	PQsetNoticeProcessor(connection->conn, connection_notice, NULL);
	/* Only verbose messages contain the SQLSTATE of a refusal. */
	PQsetErrorVerbosity(connection->conn, PQERRORS_VERBOSE);
	if (connection_watch(connection, connection_step))
		loop_socket_notify_write(connection->socket, connection_step);
}

void
connection_open(Connection *connection)
{
	loop_timer_stop(&connection->retry);
	metrics_gauge_add(connection->pool->use, 1);
	connection->wanted = true;
	connection->connect_deadline = loop_now() + CONNECT_MS;
	connection->interrupted_at = 0;
	if (connection->pool->target == NULL)
	{
		connection_start(connection);
		return;
	}
	connection->state = CONNECTION_RESOLVING;
	connection->resolving_since = pg_target_resolve(connection->pool->target);
}

/* Connections of a pool that wait for addresses go on with new addresses, or after RESOLVE_MS with old ones. */
void
pool_resolved(Pool *pool, bool fresh)
{
	PgAddresses addresses;
	const char *why;

	for (int i = 0; i < pool->count; i++)
	{
		Connection *connection = &pool->connections[i];

		if (connection->state == CONNECTION_RESOLVING && !connection->doomed &&
			(fresh || (loop_now() - connection->resolving_since >= RESOLVE_MS &&
					   pg_target_addresses(pool->target, &addresses, &why))))
			connection_start(connection);
	}
}
