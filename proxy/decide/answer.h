/*-------------------------------------------------------------------------
 *
 * answer.h
 *	  Answers of the engine to questions of SQL functions: see sql/types/engine_sql.sql.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "engine/base/json.h"

/*
 * Returns the answer to a question, which is a JSON object, in the arena.  An error is an exclamation mark, an SQLSTATE
 * and a message.  The function never fails: the answer to an unknown question is an error.
 */
extern JsonText engine_answer(Arena *arena, JsonText question);

#endif							/* ANSWER_H */
