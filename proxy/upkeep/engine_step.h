/*-------------------------------------------------------------------------
 *
 * engine_step.h
 *	  Steps of upkeep in the SQL variant: the database asks, the engine answers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include "db/pg.h"

/*
 * Makes a step, with one call for each round of questions.  task: the statement that makes the step in the other
 * variant, PG_MAINTAIN, PG_CATCH_UP or PG_AGGREGATE.  told: see api_may_merge(); NULL: nothing.  timeout_ms: for each
 * call.  done() gets the result of the last call, whose columns are more, follow_policies, policies_stored.
 */
extern void engine_step_send(PgStatement task, const int64_t *told, uint64_t timeout_ms, PgDone done);

#endif							/* ENGINE_STEP_H */
