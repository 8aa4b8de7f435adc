/*-------------------------------------------------------------------------
 *
 * answer.h
 *	  Answers of the engine to questions of SQL: see sql/types/engine_sql.sql.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "engine/base/json.h"

/*
 * The answer to a question, a JSON object; or an error: an exclamation mark, an SQLSTATE, a message.  Never fails:
 * the answer to an unknown question is an error.
 */
extern JsonText engine_answer(Arena *arena, JsonText question);

#endif							/* ANSWER_H */
