/*-------------------------------------------------------------------------
 *
 * upkeep.c
 *	  The upkeep process: background work for the store and the cluster.
 *
 * The steps of this file are small calls, one after the other, on one of the
 * two connections of the process.  Webhooks and other work that must not wait
 * for the steps use the other connection (pg_pool.c).
 *
 *-------------------------------------------------------------------------
 */
#include "upkeep/upkeep.h"

#include <stdlib.h>

#include "base/loop.h"
#include "base/metrics.h"
#include "db/pg.h"
#include "upkeep/api_service.h"
#include "upkeep/database_event.h"
#include "upkeep/engine_step.h"
#include "api/namespaces.h"
#include "upkeep/policies.h"
#include "api/result_metrics.h"
#include "upkeep/webhook.h"

/* How often maintenance runs; sooner after a failure.  While there is more to do, further steps follow. */
#define MAINTAIN_MS 60000
#define MAINTAIN_AGAIN_MS 12000
#define STEP_TIMEOUT_MS 30000

/*
 * How often the objects are counted: between every second, while the numbers change much, and every minute.  An empty
 * store is counted at least every COUNT_EMPTY_MS: it does not stay empty for long, and counting it takes no time.
 */
#define COUNT_MS 1000
#define COUNT_EMPTY_MS 4000
#define COUNT_MOST_MS 60000

/* How often waiting work is measured, for metrics; beside the steps. */
#define PENDING_MS 15000

/*
 * How often counts of results are folded (readers add the counts that are not folded yet), and due reports are merged.
 */
#define CATCH_UP_MS 1000

static LoopTimer maintain_timer;
static LoopTimer count_timer;
static LoopTimer catch_up_timer;
static LoopTimer pending_timer;
static bool catch_up_more;
static bool ending;
static int	steps_under_way;
static uint64_t maintain_step_begun;
static uint64_t count_pause = COUNT_MS;
static int64_t counted_objects;

static void maintain_step(void *state);
static void count_begin(void *state);
static void catch_up_begin(void *state);
static void pending_look(void *state);

void
upkeep_start(void)
{
	pg_start_upkeep();
	namespaces_start(true);
	webhooks_start();
	api_services_start();
	database_events_start();
	result_metrics_serve();
	loop_timer_start(&maintain_timer, MAINTAIN_MS / 60, maintain_step, NULL);
	loop_timer_start(&count_timer, COUNT_MS, count_begin, NULL);
	loop_timer_start(&catch_up_timer, CATCH_UP_MS, catch_up_begin, NULL);
	loop_timer_start(&pending_timer, CATCH_UP_MS, pending_look, NULL);
}

void
upkeep_end(void)
{
	ending = true;
	loop_timer_stop(&maintain_timer);
	loop_timer_stop(&count_timer);
	loop_timer_stop(&catch_up_timer);
	loop_timer_stop(&pending_timer);
	webhooks_end();
}

bool
upkeep_drained(void)
{
	return steps_under_way == 0 && !webhooks_under_way();
}

static void
step_send(PgCall *call, PgDone done)
{
	steps_under_way++;
	pg_send(call, false, STEP_TIMEOUT_MS, done, NULL);
}

/* Makes a step in which the database may need the engine: in the SQL variant, the database asks this process. */
static void
work_send(PgStatement statement, PgDone done)
{
	if (pg_variant() == PG_VARIANT_C)
	{
		step_send(pg_call_new(statement), done);
		return;
	}
	steps_under_way++;
	engine_step_send(statement, NULL, STEP_TIMEOUT_MS, done);
}

static void
step_later(LoopTimer *timer, uint64_t delay_ms, void (*begin) (void *state))
{
	if (!ending)
		loop_timer_start(timer, delay_ms, begin, NULL);
}

/* ---------- maintenance ---------- */

static void
maintained(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	bool		more = outcome == PG_OK && pg_bool(result, 0, 0);

	steps_under_way--;
	pg_result_free(result);
	/* The pause between steps is as long as the last step: so clients' writes have at least half of a processor. */
	step_later(&maintain_timer, more ? loop_now() - maintain_step_begun :
			   outcome == PG_OK ? MAINTAIN_MS : MAINTAIN_AGAIN_MS, maintain_step);
}

static void
maintain_step(void *state)
{
	maintain_step_begun = loop_now();
	work_send(PG_MAINTAIN, maintained);
}

/* ---------- counts of objects ---------- */

static void
counted(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	int64_t		objects = 0;

	steps_under_way--;
	for (size_t row = 0; outcome == PG_OK && row < pg_rows(result); row++)
	{
		metrics_stored_objects(pg_text(result, row, 0).bytes, pg_text(result, row, 1).bytes,
							   (long) pg_int8(result, row, 2));
		objects += pg_int8(result, row, 2);
	}
	pg_result_free(result);
	if (outcome == PG_OK)
	{
		uint64_t	most = objects == 0 ? COUNT_EMPTY_MS : COUNT_MOST_MS;

		/* A change by more than a tenth is much. */
		if (llabs(objects - counted_objects) > counted_objects / 10)
			count_pause = COUNT_MS;
		else
			count_pause = count_pause * 2 < most ? count_pause * 2 : most;
		counted_objects = objects;
	}
	step_later(&count_timer, count_pause, count_begin);
}

static void
count_begin(void *state)
{
	step_send(pg_call_new(PG_COUNTS), counted);
}

/* ---------- catching up, folding, merging ---------- */

static void
aggregated(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	bool		more = outcome == PG_OK && pg_bool(result, 0, 0);

	steps_under_way--;
	if (outcome == PG_OK)
		policies_follow(pg_bool(result, 0, 1), pg_bool(result, 0, 2));
	pg_result_free(result);
	step_later(&catch_up_timer, more || catch_up_more ? 0 : CATCH_UP_MS, catch_up_begin);
}

static void
caught_up(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	PgCall	   *call;
	int64_t		version;
	bool		known;

	steps_under_way--;
	/* Merge reports even when there is much to catch up with. */
	catch_up_more = outcome == PG_OK && pg_bool(result, 0, 0);
	pg_result_free(result);
	if (ending)
		return;
	known = policies_known(&version);
	if (pg_variant() == PG_VARIANT_SQL)
	{
		steps_under_way++;
		engine_step_send(PG_AGGREGATE, known ? &version : NULL, STEP_TIMEOUT_MS, aggregated);
		return;
	}
	call = pg_call_new(PG_AGGREGATE);
	if (known)
		pg_add_int8(call, version);
	else
		pg_add_null(call);
	step_send(call, aggregated);
}

static void
catch_up_begin(void *state)
{
	work_send(PG_CATCH_UP, caught_up);
}

/* ---------- waiting work ---------- */

static void
pending_known(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	steps_under_way--;
	for (size_t row = 0; outcome == PG_OK && row < pg_rows(result); row++)
		metrics_pending(pg_text(result, row, 0).bytes, (unsigned long) pg_int8(result, row, 1),
						(double) pg_int8(result, row, 2) / 1000);
	pg_result_free(result);
	step_later(&pending_timer, PENDING_MS, pending_look);
}

static void
pending_look(void *state)
{
	step_send(pg_call_new(PG_PENDING), pending_known);
}
