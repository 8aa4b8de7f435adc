/*-------------------------------------------------------------------------
 *
 * pg_pooler.c
 *	  Finds out whether a pooler between the proxy and the database keeps sessions.
 *
 * A pooler does not tell its mode.  So two test connections through it ask for
 * the process ID of the server process that serves them.  If each connection
 * has its own session, the two IDs differ and never change.  If the pooler
 * reassigns sessions between transactions, the second connection gets the
 * session that the first one has just left, or the first one gets another
 * session later: on an idle pooler at once, on a busy one within a few rounds.
 *
 * The test connections block, so they are used on a separate thread, which
 * ends when the mode is known.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_pooler.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "db/pg_password.h"

#define ROUNDS 5
#define ANSWER_MS 3000			/* time limit of each question */
#define AGE_MS 4000				/* how long the mode POOLER_OF_TRANSACTIONS is remembered */
#define PLACES 4				/* limit of remembered poolers; a proxy has fewer databases */

typedef struct Place
{
	char		host[256];
	char		address[64];
	char		port[16];
	char	   *database;
	bool		asking;			/* asking, mode and known_at are read and written with the lock held */
	PoolerMode	mode;
	uint64_t	known_at;
} Place;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Place places[PLACES];
static size_t place_count;

static PGconn *
connect_to(const Place *place)
{
	const char *keywords[] = {"application_name", "connect_timeout", "dbname", "host", "password", "hostaddr", "port",
	NULL};
	const char *values[] = {"kube-reports-proxy", "5", place->database, place->host, NULL, place->address, place->port,
	NULL};
	PGconn	   *conn = NULL;
	Arena		arena;
	const char *why;

	/* A Unix-domain socket has no address. */
	if (place->address[0] == '\0')
	{
		keywords[5] = "port";
		values[5] = place->port;
	}
	arena_init(&arena);
	if (pg_password_read(&arena, place->database, &values[4], &why))
		conn = PQconnectdbParams(keywords, values, 1);
	arena_free(&arena);
	return conn;
}

/* Sends a question and reads the first value of the answer; false when there is no answer in time. */
static bool
ask_server(PGconn *conn, const char *question, char *value, size_t size)
{
	uint64_t	until = loop_now() + ANSWER_MS;
	PGresult   *result;
	bool		good = false;

	if (PQsendQuery(conn, question) != 1)
		return false;
	while (PQisBusy(conn))
	{
		uint64_t	now = loop_now();
		struct pollfd socket = {.fd = PQsocket(conn), .events = POLLIN};

		if (now >= until || poll(&socket, 1, (int) (until - now)) <= 0 || PQconsumeInput(conn) != 1)
			return false;
	}
	while ((result = PQgetResult(conn)) != NULL)
	{
		if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
		{
			snprintf(value, size, "%s", PQgetvalue(result, 0, 0));
			good = true;
		}
		good |= PQresultStatus(result) == PGRES_COMMAND_OK;
		PQclear(result);
	}
	return good;
}

static PoolerMode
find_mode(const Place *place)
{
	static const char who[] = "SELECT pg_catalog.pg_backend_pid()";
	PGconn	   *first = connect_to(place);
	PGconn	   *second = connect_to(place);
	PoolerMode	mode = POOLER_OF_SESSIONS;
	char		mine[16];
	char		again[16];
	char		other[16];

	if (PQstatus(first) != CONNECTION_OK || PQstatus(second) != CONNECTION_OK ||
		!ask_server(first, who, mine, sizeof(mine)))
		mode = POOLER_NOT_KNOWN;
	for (int i = 0; i < ROUNDS && mode == POOLER_OF_SESSIONS; i++)
	{
		if (!ask_server(second, "BEGIN", other, sizeof(other)))
		{
			/*
			 * An error: the pooler pools statements.  No answer: all sessions are in use, one of them by the first
			 * connection, so the pooler pools sessions.
			 */
			if (PQtransactionStatus(second) != PQTRANS_ACTIVE)
				mode = POOLER_OF_TRANSACTIONS;
			break;
		}
		if (!ask_server(second, who, other, sizeof(other)) || !ask_server(first, who, again, sizeof(again)))
			mode = POOLER_NOT_KNOWN;
		else if (strcmp(mine, other) == 0 || strcmp(mine, again) != 0)
			mode = POOLER_OF_TRANSACTIONS;
		else if (!ask_server(second, "COMMIT", other, sizeof(other)))
			mode = POOLER_NOT_KNOWN;
	}
	PQfinish(first);
	PQfinish(second);
	return mode;
}

static void *
run(void *state)
{
	Place	   *place = state;
	PoolerMode	mode = find_mode(place);

	pthread_mutex_lock(&lock);
	place->mode = mode;
	place->known_at = loop_now();
	place->asking = false;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Starts the thread that asks.  The caller holds the lock. */
static void
begin_asking(Place *place)
{
	sigset_t	all;
	sigset_t	before;
	pthread_t	thread;

	/* The new thread blocks all signals: the thread of the loop handles them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	place->asking = pthread_create(&thread, NULL, run, place) == 0;
	if (place->asking)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Only the loop calls this.  Returns the place of a connection, a new one if needed; NULL when there are too many. */
static Place *
find_place(const PGconn *conn, const char *database)
{
	const char *host = PQhost(conn);
	const char *address = host[0] == '/' ? "" : PQhostaddr(conn);
	Place	   *place = places;

	for (size_t i = 0; i < place_count; i++, place++)
		if (strcmp(place->host, host) == 0 && strcmp(place->port, PQport(conn)) == 0 &&
			strcmp(place->database, database) == 0)
			return place;
	if (place_count == PLACES)
		return NULL;
	snprintf(place->host, sizeof(place->host), "%s", host);
	snprintf(place->address, sizeof(place->address), "%s", address);
	snprintf(place->port, sizeof(place->port), "%s", PQport(conn));
	place->database = strdup(database);
	if (place->database == NULL)
		abort();
	place_count++;
	return place;
}

PoolerMode
pg_pooler_mode(const PGconn *conn, const char *database)
{
	Place	   *place = find_place(conn, database);
	PoolerMode	mode;

	/* Too many poolers, because a name has many hosts: assume sessions.  If that is wrong, the first call fails. */
	if (place == NULL)
		return POOLER_OF_SESSIONS;
	pthread_mutex_lock(&lock);
	if (place->mode == POOLER_OF_TRANSACTIONS && loop_now() - place->known_at > AGE_MS)
		place->mode = POOLER_NOT_KNOWN;
	mode = place->mode;
	if (mode == POOLER_NOT_KNOWN && !place->asking)
		begin_asking(place);
	pthread_mutex_unlock(&lock);
	return mode;
}

void
pg_pooler_changed(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < place_count; i++)
		places[i].mode = POOLER_NOT_KNOWN;
	pthread_mutex_unlock(&lock);
}
