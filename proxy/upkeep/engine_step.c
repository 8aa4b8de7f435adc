/*-------------------------------------------------------------------------
 *
 * engine_step.c
 *	  Steps of upkeep in the SQL variant: the database asks, the engine answers.
 *
 * When a step needs the engine, its call changes nothing and returns
 * questions.  The next call passes all answers so far.  If documents were
 * changed meanwhile, that call may return other questions.
 *
 *-------------------------------------------------------------------------
 */
#include "upkeep/engine_step.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/log.h"
#include "db/pg_stall.h"
#include "decide/answer.h"

/*
 * Limits of the rounds of questions, and of the bytes of answers, of one step.  At a limit the step fails without an
 * effect, and begins again after the pause that follows a failure.  Without limits, a step whose documents change in
 * each round would never end.
 */
#define MAX_ROUNDS 100
#define MAX_BYTES ((size_t) 256 << 20)

/*
 * Bytes of answers that are kept for the next call, beside those of the last round.  Above, the oldest are dropped:
 * mostly they are about documents that have changed since.  A step that asks a dropped question again needs more at
 * once, and keeps all of its answers from then on, up to MAX_BYTES.
 */
#define MAX_KEPT ((size_t) 8 << 20)

/* A question begins with its hash. */
#define HASH_LENGTH 32

typedef struct EngineStep
{
	PgStatement task;
	bool		has_told;
	int64_t		told;
	uint64_t	timeout_ms;
	PgDone		done;
	Arena		arena;			/* memory of the hashes and the two arrays */
	JsonText   *hashes;
	JsonText   *answers;		/* each allocated by itself */
	size_t		count;
	size_t		dropped;		/* so many of the first answers are not kept any more */
	size_t		hash_capacity;
	size_t		answer_capacity;
	size_t		bytes;			/* of the answers that are kept */
	int			rounds;
	bool		keeps_all;		/* the step has asked a dropped question again */
	bool		endless;		/* the step has asked more than the limits allow */
} EngineStep;

static void stepped(void *state, PgOutcome outcome, PgResult *result, const PgError *error);

/* Returns the name by which api_engine_step() knows the work of a step. */
static const char *
work_name(PgStatement task)
{
	return task == PG_MAINTAIN ? "maintain" : task == PG_CATCH_UP ? "catch_up" : "aggregate";
}

static void
step_call(EngineStep *step)
{
	PgCall	   *call = pg_call_new(PG_ENGINE_STEP);

	pg_add_text(call, work_name(step->task));
	if (step->has_told)
		pg_add_int8(call, step->told);
	else
		pg_add_null(call);
	pg_add_text_array(call, step->hashes + step->dropped, step->count - step->dropped);
	pg_add_text_array(call, step->answers + step->dropped, step->count - step->dropped);
	pg_send(call, false, step->timeout_ms, stepped, step);
}

/* The oldest answer is dropped: its hash stays, so that the question is known when it is asked again. */
static void
drop_answer(EngineStep *step)
{
	JsonText   *oldest = &step->answers[step->dropped++];

	step->bytes -= oldest->len;
	free((char *) oldest->bytes);
	*oldest = (JsonText) {NULL, 0};
}

static bool
was_dropped(const EngineStep *step, const char *hash)
{
	for (size_t i = 0; i < step->dropped; i++)
		if (memcmp(step->hashes[i].bytes, hash, HASH_LENGTH) == 0)
			return true;
	return false;
}

static void
answer_one(EngineStep *step, JsonText question)
{
	Arena		scratch;
	JsonText	answer;
	char	   *kept;

	step->hashes = arena_grow(&step->arena, step->hashes, step->count, sizeof(JsonText), &step->hash_capacity);
	step->answers = arena_grow(&step->arena, step->answers, step->count, sizeof(JsonText), &step->answer_capacity);
	arena_init(&scratch);
	answer = engine_answer(&scratch, (JsonText) {question.bytes + HASH_LENGTH, question.len - HASH_LENGTH});
	/* One byte more: an answer may be empty, and still is no null. */
	kept = allocate(answer.len + 1);
	if (answer.len > 0)
		memcpy(kept, answer.bytes, answer.len);
	step->hashes[step->count] = (JsonText) {arena_strndup(&step->arena, question.bytes, HASH_LENGTH), HASH_LENGTH};
	step->answers[step->count] = (JsonText) {kept, answer.len};
	step->count++;
	step->bytes += answer.len;
	arena_free(&scratch);
}

/* Answers the questions of a call; false when there were none, or when the step has had too many. */
static bool
answer_all(EngineStep *step, const PgResult *result)
{
	PgArray		questions = pg_array(result, 0, 3);
	JsonText	question;
	size_t		before = step->count;

	while (pg_array_next(&questions, &question))
	{
		if (question.bytes == NULL || question.len < HASH_LENGTH)
			continue;
		step->keeps_all = step->keeps_all || was_dropped(step, question.bytes);
		answer_one(step, question);
	}
	if (step->count == before)
		return false;
	while (!step->keeps_all && step->bytes > MAX_KEPT && step->dropped < before)
		drop_answer(step);
	if (++step->rounds <= MAX_ROUNDS && step->bytes <= MAX_BYTES)
		return true;
	log_line(LOG_WARNING, "a step of upkeep (%s) needs too many answers of the engine, and begins again",
			 work_name(step->task));
	step->endless = true;
	return false;
}

static void
stepped(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	static const PgError too_much = {.sqlstate = "54000", .message = "its step asks the engine too much"};
	EngineStep *step = state;

	if (outcome == PG_OK && answer_all(step, result))
	{
		pg_result_free(result);
		step_call(step);
		return;
	}
	/* The row of a call with questions says that there is more to do.  Passed to done(), it would prevent the pause. */
	if (step->endless)
	{
		pg_result_free(result);
		result = NULL;
		outcome = PG_FAILED;
		error = &too_much;
	}
	pg_stall_note(step->task, outcome, error);
	while (step->dropped < step->count)
		drop_answer(step);
	arena_free(&step->arena);
	step->done(NULL, outcome, result, error);
	free(step);
}

void
engine_step_send(PgStatement task, const int64_t *told, uint64_t timeout_ms, PgDone done)
{
	EngineStep *step = allocate(sizeof(EngineStep));

	step->task = task;
	step->has_told = told != NULL;
	step->told = told != NULL ? *told : 0;
	step->timeout_ms = timeout_ms;
	step->done = done;
	arena_init(&step->arena);
	step_call(step);
}
