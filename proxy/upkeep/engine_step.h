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
 * Takes a step, with as many calls as it has rounds of questions.  task: the statement that takes it in the other
 * variant, PG_MAINTAIN, PG_CATCH_UP or PG_AGGREGATE.  told: see api_may_merge(); NULL: nothing.  done() gets
 * the result of the last call: more, follow_policies, policies_stored.
 */
extern void engine_step_send(PgStatement task, const int64_t *told, uint64_t timeout_ms, PgDone done);

#endif							/* ENGINE_STEP_H */
