/*-------------------------------------------------------------------------
 *
 * pg_fault.c
 *	  Errors that concern the whole store or a connection, not one request.
 *
 * Clients cannot cause such errors: an administrator locked or altered a
 * table, or took a right away.  They would affect all requests, so readyz
 * fails, and its reason names the error.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_fault.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"

#define REFUSAL_LOG_MS 60000	/* shortest time between two log lines about a server without room */
#define FAULT_LOG_MS 60000		/* shortest time between two faults of a statement in the log */

/* Since when reads of objects fail; 0: the last one did not fail. */
static uint64_t reads_fail_since;
static char reads_fail_with[400];

static bool
reads_objects(PgStatement statement)
{
	return statement == PG_GET || statement == PG_LIST || statement == PG_WATCH ||
		statement == PG_READ_OBJECT || statement == PG_READ_LIST || statement == PG_READ_WATCH;
}

/* Whether an error of a read would affect each read: a lock on a table, or a missing table, column or right. */
static bool
affects_each_read(const PgError *error)
{
	return strcmp(error->sqlstate, "55P03") == 0 || strncmp(error->sqlstate, "42", 2) == 0;
}

void
pg_fault_note(PgStatement statement, const PgError *error)
{
	if (!reads_objects(statement))
		return;
	if (error == NULL || !affects_each_read(error))
	{
		reads_fail_since = 0;
		return;
	}
	if (reads_fail_since == 0)
		reads_fail_since = loop_now();
	if (strcmp(error->sqlstate, "55P03") == 0)
		snprintf(reads_fail_with, sizeof(reads_fail_with), "reads have waited too long for a lock in the database");
	else
		snprintf(reads_fail_with, sizeof(reads_fail_with), "reads fail with SQLSTATE %s: %s", error->sqlstate,
				 error->message);
}

const char *
pg_read_fault(uint64_t *since)
{
	*since = reads_fail_since;
	return reads_fail_since != 0 ? reads_fail_with : NULL;
}

bool
pg_fault_is_new(PgStatement statement, const char *sqlstate)
{
	static const char *const classes[] = {"42", "XX", "22", "23", "21", "P0"};
	static uint64_t said_at[PG_STATEMENT_COUNT];
	bool		fault = false;

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		fault |= strncmp(sqlstate, classes[i], 2) == 0;
	if (!fault || (said_at[statement] != 0 && loop_now() - said_at[statement] < FAULT_LOG_MS))
		return false;
	said_at[statement] = loop_now();
	return true;
}

bool
pg_fault_outdates(const PgError *error, bool writes, const char *source)
{
	static const char *const sqlstates[] = {"26000", "3F000", "42501", "42883", "42P01"};

	for (size_t i = 0; i < sizeof(sqlstates) / sizeof(sqlstates[0]); i++)
	{
		if (strcmp(error->sqlstate, sqlstates[i]) == 0)
			return true;
	}
	if (writes && strcmp(error->sqlstate, "25006") == 0)
		return true;
	/* "cached plan must not change result type", in the language of lc_messages. */
	return strcmp(error->sqlstate, "0A000") == 0 && source != NULL && strcmp(source, "RevalidateCachedQuery") == 0;
}

void
pg_fault_refused(const char *why)
{
	static uint64_t told_at;
	uint64_t	now = loop_now();

	if (strstr(why, " 53300: ") == NULL)
		return;
	metrics_count(COUNTER_DB_REFUSALS, 1);
	if (told_at != 0 && now - told_at < REFUSAL_LOG_MS)
		return;
	told_at = now;
	log_line(LOG_ERROR, "the database refuses further connections (SQLSTATE 53300): raise max_connections, or the "
			 "limit of the role or the database, "
			 "or lower --database-connections, which is %d for this proxy; requests wait for the connections that "
			 "are open", config.connections);
}
