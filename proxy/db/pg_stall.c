/*-------------------------------------------------------------------------
 *
 * pg_stall.c
 *	  Logs once that a task of the upkeep process does not succeed, with the cause, and once that it succeeds again.
 *
 * A task is a statement that the upkeep process sends repeatedly.  No client
 * waits for it, so only the log can tell that its calls fail.  When the
 * database cannot be reached, pg_connect.c logs that, and the count of
 * failures here ends.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_stall.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"

/* A task is stalled when it has failed for so long, without a success in between. */
#define STALLED_MS 10000

/* Shortest time between two log lines about one task, which may fail and succeed by turns. */
#define SAY_AGAIN_MS 300000

typedef struct Task
{
	const char *name;			/* name in metrics; NULL: no metric, because the task runs only on demand */
	const char *what;			/* text for the log: the work that is not done while it fails; NULL: no task */
} Task;

static const Task tasks[PG_STATEMENT_COUNT] = {
	[PG_MAINTAIN] = {"maintenance", "log, history and unused rows are not maintained"},
	[PG_CATCH_UP] = {"catching_up", "counts are not folded, and pending results are not made"},
	[PG_AGGREGATE] = {"merging", "reports are not merged"},
	[PG_COUNTS] = {"counting", "stored objects are not counted for metrics"},
	[PG_PENDING] = {"measuring", "waiting work is not measured for metrics"},
	[PG_RESULT_COUNTS] = {NULL, "results are not counted for metrics"},
	[PG_WEBHOOKS] = {NULL, "webhooks have no metrics"},
	[PG_WEBHOOK_NEXT] = {NULL, "webhooks are not sent"},
	[PG_WEBHOOK_DONE] = {NULL, "the state of webhooks is not kept, and events are sent again"},
	[PG_ACTIVE_POLICIES] = {NULL, "the active policies are not stored"},
	[PG_NAMESPACES] = {NULL, "namespaces with reports are not compared with those of the cluster"},
	[PG_NAMESPACE] = {NULL, "the state of namespaces is not stored"},
	[PG_SWEEP] = {NULL, "reports of deleted namespaces are not deleted"},
};

typedef struct TaskState
{
	bool		failing;
	bool		said;			/* the log has that the task is stalled */
	uint64_t	failing_since;
	uint64_t	said_at;
} TaskState;

static bool watching;
static TaskState states[PG_STATEMENT_COUNT];

void
pg_stall_watch(void)
{
	watching = true;
}

static void
say(const Task *task, uint64_t failing_ms, PgOutcome outcome, const PgError *error)
{
	unsigned long long seconds = failing_ms / 1000;

	if (outcome == PG_FAILED)
		log_line(LOG_ERROR, "upkeep is stalled: %s, for %llu s now: %s (SQLSTATE %s)%s%s", task->what, seconds,
				 error->message, error->sqlstate, error->hint != NULL ? ". HINT: " : "",
				 error->hint != NULL ? error->hint : "");
	else
		log_line(LOG_ERROR, "upkeep is stalled: %s, for %llu s now: %s", task->what, seconds,
				 outcome == PG_EXPIRED ? "the database does not answer in time; another session may hold a lock, "
				 "see the view kube_reports.lock_status" :
				 outcome == PG_LOST ? "the connection is lost during each call, see the log of the database" :
				 "too many calls wait for a connection");
}

void
pg_stall_note(PgStatement statement, PgOutcome outcome, const PgError *error)
{
	const Task *task = &tasks[statement];
	TaskState  *state = &states[statement];
	uint64_t	now = loop_now();

	if (!watching || task->what == NULL)
		return;
	if (task->name != NULL)
		metrics_task_tried((size_t) statement, task->name, outcome == PG_OK);
	if (outcome == PG_OK)
	{
		if (state->said)
			log_line(LOG_NOTICE, "upkeep goes on after %llu s without it: %s no longer",
					 (unsigned long long) (now - state->failing_since) / 1000, task->what);
		state->failing = false;
		state->said = false;
	}
	else if (outcome == PG_AWAY)
	{
		if (!state->said)
			state->failing = false;
	}
	else if (!state->failing)
	{
		state->failing = true;
		state->failing_since = now;
	}
	else if (!state->said && now - state->failing_since >= STALLED_MS &&
			 (state->said_at == 0 || now - state->said_at >= SAY_AGAIN_MS))
	{
		state->said = true;
		state->said_at = now;
		say(task, now - state->failing_since, outcome, error);
	}
}
