/*-------------------------------------------------------------------------
 *
 * answer.c
 *	  Answers of the engine to questions of SQL: see sql/types/engine_sql.sql.
 *
 *-------------------------------------------------------------------------
 */
#include "decide/answer.h"

#include <string.h>

#include "decide/definitions.h"
#include "decide/result_rows.h"

#define TOO_LARGE "54000"
#define NOT_UNDERSTOOD "0A000"

/* An answer to one kind of question.  NULL with *why: an error, of SQLSTATE 54000. */
typedef JsonText (*Answer) (Arena *arena, const JsonNode *question, const char **why);

static JsonText
refusal(Arena *arena, const char *sqlstate, const char *message)
{
	const char *text = arena_printf(arena, "!%s%s", sqlstate, message);

	return (JsonText) {text, strlen(text)};
}

/* Without bytes when the member is null or absent. */
static JsonText
member(const JsonNode *question, const char *name)
{
	const JsonNode *node = json_get(question, name);

	return node != NULL && node->kind == JSON_KIND_STRING ? node->u.string : (JsonText) {NULL, 0};
}

static JsonText
answer_results(Arena *arena, const JsonNode *question, const char **why)
{
	const JsonNode *cluster = json_get(question, "cluster");
	const ResultMapping *mapping = mapping_read(arena, member(question, "mapping"), why);
	ResultStates states = {member(question, "oldMetadata"), member(question, "oldBody"), member(question, "metadata"),
	member(question, "body")};
	ResultRows	rows = {{NULL, 0}, {NULL, 0}};

	if (mapping != NULL && cluster != NULL && cluster->kind == JSON_KIND_INTEGER)
		result_rows(arena, mapping, (int) cluster->u.integer, &states, &rows, why);
	return rows.rows;
}

static JsonText
answer_time(Arena *arena, const JsonNode *question, const char **why)
{
	const ResultMapping *mapping = mapping_read(arena, member(question, "mapping"), why);
	JsonText	time = {NULL, 0};

	if (mapping != NULL)
		result_evaluated_at(arena, mapping, member(question, "metadata"), member(question, "body"), &time, why);
	return time;
}

static const struct
{
	const char *name;
	Answer		answer;
}			answers[] = {
	{"results", answer_results},
	{"time", answer_time},
};

JsonText
engine_answer(Arena *arena, JsonText question)
{
	JsonError	error;
	JsonNode   *asked = json_parse(arena, question.bytes, question.len, NULL, NULL, &error);
	const char *why = NULL;

	for (size_t i = 0; asked != NULL && i < sizeof(answers) / sizeof(answers[0]); i++)
	{
		JsonText	answer;

		if (!json_string_is(json_get(asked, "ask"), answers[i].name))
			continue;
		answer = answers[i].answer(arena, asked, &why);
		return answer.bytes != NULL ? answer :
			refusal(arena, TOO_LARGE, why != NULL ? why : "the engine has no answer");
	}
	return refusal(arena, NOT_UNDERSTOOD, "the proxy does not know this question: its version is another one");
}
