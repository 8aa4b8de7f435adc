/*-------------------------------------------------------------------------
 *
 * ledger.c
 *	  Calls of the database about evidence: the functions api_evidence_*.
 *
 * A few connections serve all threads.  When a thread gets no connection
 * within WAIT_SECONDS, the answer is 503, and the client should try again.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/ledger.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/allocate.h"
#include "base/log.h"
#include "evidence/options.h"

#define WAIT_SECONDS 5
#define STATEMENT_SECONDS 20
#define LOG_SECONDS 5
#define MAX_READERS 4
#define LIFETIME_MARGIN 600		/* seconds after --upload-timeout when a file counts as abandoned */

static struct
{
	pthread_mutex_t lock;
	pthread_cond_t returned;
	PGconn	  **idle;			/* the free places of the pool; an element NULL is a place without a connection */
	int			idle_count;
	int			readers;		/* number of logins of readers in progress */
	time_t		logged_at;
}			pool =

{
	.lock = PTHREAD_MUTEX_INITIALIZER, .returned = PTHREAD_COND_INITIALIZER
};

static void
log_failure(const char *what)
{
	time_t		now = time(NULL);
	bool		due;

	pthread_mutex_lock(&pool.lock);
	due = now - pool.logged_at >= LOG_SECONDS;
	if (due)
		pool.logged_at = now;
	pthread_mutex_unlock(&pool.lock);
	if (due)
		log_line(LOG_ERROR, "database: %.*s", (int) strcspn(what, "\n"), what);
}

/* ---------- connections ---------- */

static PGconn *
connect_to(const char *user, const char *password)
{
	static const char *const names[] = {"dbname", "fallback_application_name", "connect_timeout", "tcp_user_timeout",
	"client_encoding", "user", "password", "passfile", "sslcert", "sslkey", "gssencmode", NULL};
	const char *values[] = {options.database, "kube-reports-evidence", "5", "20000",
	"UTF8", user, password, "/dev/null", "/nonexistent", "/nonexistent", "disable", NULL};
	const char *as_given[sizeof(names) / sizeof(names[0])];

	memcpy(as_given, names, sizeof(names));
	/* The role of --database may use each of these parameters; a reader can only log in by a password. */
	if (user == NULL)
		as_given[5] = NULL;
	return PQconnectdbParams(as_given, values, 1);
}

void
ledger_open(void)
{
	pool.idle = allocate((size_t) options.connections * sizeof(PGconn *));
	pool.idle_count = options.connections;
}

/*
 * Takes a place of the pool; *connection is NULL when the place has no connection yet.  False when no place becomes
 * free within WAIT_SECONDS.
 */
static bool
borrow(PGconn **connection)
{
	struct timespec until;
	int			waited = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_SECONDS;
	pthread_mutex_lock(&pool.lock);
	while (pool.idle_count == 0 && waited == 0)
		waited = pthread_cond_timedwait(&pool.returned, &pool.lock, &until);
	if (pool.idle_count == 0)
	{
		pthread_mutex_unlock(&pool.lock);
		return false;
	}
	*connection = pool.idle[--pool.idle_count];
	pthread_mutex_unlock(&pool.lock);
	return true;
}

static void
give_back(PGconn *connection)
{
	if (connection != NULL && PQstatus(connection) != CONNECTION_OK)
	{
		PQfinish(connection);
		connection = NULL;
	}
	pthread_mutex_lock(&pool.lock);
	pool.idle[pool.idle_count++] = connection;
	pthread_cond_signal(&pool.returned);
	pthread_mutex_unlock(&pool.lock);
}

/* Waits for the result of a statement; NULL when the connection fails or the time is over: then it is unusable. */
static PGresult *
await_result(PGconn *connection)
{
	time_t		until = time(NULL) + STATEMENT_SECONDS;
	PGresult   *result = NULL;
	PGresult   *next;

	while (PQisBusy(connection))
	{
		struct pollfd socket = {.fd = PQsocket(connection), .events = POLLIN};
		time_t		left = until - time(NULL);

		if (left <= 0 || socket.fd < 0 || (poll(&socket, 1, (int) left * 1000) < 0 && errno != EINTR) ||
			!PQconsumeInput(connection))
			return NULL;
	}
	while ((next = PQgetResult(connection)) != NULL)
	{
		PQclear(result);
		result = next;
	}
	return result;
}

/* Whether the server has ended an idle connection, for example because it was restarted. */
static bool
has_ended(PGconn *connection)
{
	struct pollfd socket = {.fd = PQsocket(connection), .events = POLLIN};

	/* A last message of the server may precede the end of the connection. */
	while (poll(&socket, 1, 0) > 0)
	{
		if (!PQconsumeInput(connection))
			return true;
		PQisBusy(connection);
	}
	return PQstatus(connection) != CONNECTION_OK;
}

/* Runs a statement; NULL when it failed, which is logged.  A statement with an unknown outcome is not repeated. */
static PGresult *
run(PGconn **connection, const char *sql, int count, const char *const *parameters)
{
	PGresult   *result;

	if (*connection != NULL && has_ended(*connection))
	{
		PQfinish(*connection);
		*connection = NULL;
	}
	if (*connection == NULL)
		*connection = connect_to(NULL, NULL);
	if (PQstatus(*connection) != CONNECTION_OK)
	{
		log_failure(PQerrorMessage(*connection));
		return NULL;
	}
	result = PQsendQueryParams(*connection, sql, count, NULL, parameters, NULL, NULL, 0) == 1 ?
		await_result(*connection) : NULL;
	if (PQresultStatus(result) == PGRES_TUPLES_OK)
		return result;
	if (result == NULL)
	{
		log_failure(PQstatus(*connection) == CONNECTION_OK ? "no answer in time" : PQerrorMessage(*connection));
		PQfinish(*connection);
		*connection = NULL;
	}
	else
		log_failure(PQresultErrorMessage(result));
	PQclear(result);
	return NULL;
}

static PGresult *
query(const char *sql, int count, const char *const *parameters)
{
	PGconn	   *connection;
	PGresult   *result;

	if (!borrow(&connection))
	{
		log_failure("all connections are in use");
		return NULL;
	}
	result = run(&connection, sql, count, parameters);
	give_back(connection);
	return result;
}

static void
copy(char *target, size_t size, const PGresult *result, int column)
{
	snprintf(target, size, "%s", PQgetvalue(result, 0, column));
}

/* Returns an integer of the first row; 0 for null. */
static int64_t
number(const PGresult *result, int column)
{
	return strtoll(PQgetvalue(result, 0, column), NULL, 10);
}

static const char *
or_null(const char *text)
{
	return text[0] == '\0' ? NULL : text;
}

/* ---------- the functions ---------- */

bool
ledger_ready(void)
{
	PGresult   *result = query("SELECT FROM kube_reports_internal.api_evidence_removed('', '{}')", 0, NULL);
	bool		ready = result != NULL;

	PQclear(result);
	return ready;
}

int
ledger_begin(const Credential *credential, FileName *name, int64_t bytes, Entry *entry, char *message)
{
	char		index[16];
	char		size[24];
	char		lifetime[16];
	const char *parameters[] = {credential->kind, credential->text, or_null(name->scan),
	name->index < 0 ? NULL : index, name->report, name->encoding, options.store, size, lifetime};
	PGresult   *result;
	int			code;

	snprintf(index, sizeof(index), "%d", name->index);
	snprintf(size, sizeof(size), "%lld", (long long) (bytes < 0 ? 0 : bytes));
	snprintf(lifetime, sizeof(lifetime), "%d", options.upload_timeout + LIFETIME_MARGIN);
	result = query("SELECT code, message, id, sender, chosen_scan, key "
				   "FROM kube_reports_internal.api_evidence_begin($1, $2, $3, $4::integer, $5, $6, $7, $8::bigint, "
				   "$9::integer)", 9, parameters);
	if (result == NULL)
		return 503;
	code = (int) number(result, 0);
	copy(message, MESSAGE_SIZE, result, 1);
	copy(entry->id, ID_SIZE, result, 2);
	copy(entry->sender, NAME_SIZE, result, 3);
	copy(name->scan, NAME_SIZE, result, 4);
	copy(entry->key, KEY_SIZE, result, 5);
	PQclear(result);
	return code;
}

int
ledger_commit(const Credential *credential, const FileName *name, const char *provider, const char *digest,
			  int64_t bytes, Entry *entry, char *message)
{
	char		index[16];
	char		size[24];
	const char *parameters[] = {credential->kind, credential->text, entry->id, name->scan,
	name->index < 0 ? NULL : index, name->report, name->encoding, provider, digest, size};
	PGresult   *result;
	int			code;

	snprintf(index, sizeof(index), "%d", name->index);
	snprintf(size, sizeof(size), "%lld", (long long) bytes);
	result = query("SELECT code, message, cluster, chosen_index "
				   "FROM kube_reports_internal.api_evidence_commit($1, $2, $3::uuid, $4, $5::integer, $6, $7, $8, $9, "
				   "$10::bigint)", 10, parameters);
	if (result == NULL)
		return 503;
	code = (int) number(result, 0);
	copy(message, MESSAGE_SIZE, result, 1);
	copy(entry->cluster, ID_SIZE, result, 2);
	entry->index = (int) number(result, 3);
	PQclear(result);
	return code;
}

static int
found_code(const PGresult *result, FoundFile *found)
{
	int			code = (int) number(result, 0);

	copy(found->digest, DIGEST_SIZE, result, 1);
	found->bytes = number(result, 2);
	copy(found->encoding, sizeof(found->encoding), result, 3);
	copy(found->uri, URI_SIZE, result, 4);
	return code;
}

int
ledger_find(const Credential *credential, const FileName *name, FoundFile *found)
{
	char		index[16];
	const char *parameters[] = {credential->kind, credential->text, or_null(name->cluster), name->scan, index,
	name->report};
	PGresult   *result;
	int			code;

	snprintf(index, sizeof(index), "%d", name->index);
	result = query("SELECT code, sha256, bytes, encoding, uri "
				   "FROM kube_reports_internal.api_evidence_find($1, $2, $3::uuid, $4, $5::integer, $6)",
				   6, parameters);
	if (result == NULL)
		return 503;
	code = found_code(result, found);
	PQclear(result);
	return code;
}

static bool
begin_reader(void)
{
	bool		room;

	pthread_mutex_lock(&pool.lock);
	room = pool.readers < MAX_READERS;
	if (room)
		pool.readers++;
	pthread_mutex_unlock(&pool.lock);
	return room;
}

int
ledger_find_as_reader(const char *user, const char *password, const FileName *name, FoundFile *found)
{
	char		index[16];
	const char *parameters[] = {name->cluster, name->scan, index, name->report};
	int			code = 401;
	PGconn	   *connection;

	if (!begin_reader())
		return 503;
	snprintf(index, sizeof(index), "%d", name->index);
	connection = connect_to(user, password);
	/* If the server trusts the network of this program, it accepts any role without a password: refuse that. */
	if (PQstatus(connection) == CONNECTION_OK && PQconnectionUsedPassword(connection))
	{
		PGresult   *result = PQexecParams(connection, "SELECT 200, sha256, bytes, encoding, uri "
										  "FROM kube_reports.evidence WHERE cluster = $1::uuid AND scan = $2 "
										  "AND index = $3::integer AND name = $4 AND provider <> 'sender'",
										  4, NULL, parameters, NULL, NULL, 0);

		if (PQresultStatus(result) == PGRES_TUPLES_OK)
			code = PQntuples(result) == 1 ? found_code(result, found) : 404;
		else
		{
			const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

			/* 42501: a role without a grant may not read the view, so it sees no file. */
			code = state != NULL && strcmp(state, "42501") == 0 ? 404 : 503;
		}
		PQclear(result);
	}
	PQfinish(connection);
	pthread_mutex_lock(&pool.lock);
	pool.readers--;
	pthread_mutex_unlock(&pool.lock);
	return code;
}

/* ---------- removal ---------- */

void
ledger_forget(const char *id)
{
	char		ids[ID_SIZE + 2];
	const char *parameters[] = {options.store, ids};

	snprintf(ids, sizeof(ids), "{%s}", id);
	PQclear(query("SELECT FROM kube_reports_internal.api_evidence_removed($1, $2::uuid[])", 2, parameters));
}

int
ledger_remove(bool (*remove) (const char *key))
{
	const char *parameters[] = {options.store};
	PGresult   *due = query("SELECT id, key FROM kube_reports_internal.api_evidence_removals($1)", 1, parameters);
	int			count = due == NULL ? 0 : PQntuples(due);

	for (int i = 0; i < count; i++)
	{
		if (store_key_valid(PQgetvalue(due, i, 1)) && remove(PQgetvalue(due, i, 1)))
			ledger_forget(PQgetvalue(due, i, 0));
	}
	PQclear(due);
	return count;
}
