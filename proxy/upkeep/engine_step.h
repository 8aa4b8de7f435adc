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

/* What a step does, as api_engine_step() names it. */
#define ENGINE_CATCH_UP "catch_up"
#define ENGINE_MAINTAIN "maintain"
#define ENGINE_AGGREGATE "aggregate"

/*
 * Takes a step, with as many calls as it has rounds of questions.  told: see api_may_merge(); NULL: nothing.  done() gets
 * the result of the last call: more, follow_policies, policies_stored.
 */
extern void engine_step_send(const char *work, const int64_t *told, uint64_t timeout_ms, PgDone done);

#endif							/* ENGINE_STEP_H */
