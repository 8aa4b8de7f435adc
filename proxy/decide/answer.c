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
#include "decide/write.h"

#define INVALID_DOCUMENT "KR422"
#define TOO_LARGE "54000"
#define NOT_UNDERSTOOD "0A000"

/* Answers one kind of question.  Bytes NULL with *why on failure, which becomes an error with SQLSTATE 54000. */
typedef JsonText (*Answer) (Arena *arena, const JsonNode *question, const char **why);

static JsonText
refusal(Arena *arena, const char *sqlstate, const char *message)
{
	const char *text = arena_printf(arena, "!%s%s", sqlstate, message);

	return (JsonText) {text, strlen(text)};
}

/* Returns the text of a member; bytes NULL when the member is null or absent. */
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

/* Returns the message for a registration that is refused, in the words of the Kubernetes API. */
static JsonText
invalid(Arena *arena, const char *kind, const char *group, const char *name, const FieldErrorList *errors)
{
	JsonError	error;
	StrBuf		status;
	const char *message;

	strbuf_init(&status, arena);
	status_invalid(&status, kind, group, name, errors);
	message = json_get_cstring(arena, json_parse(arena, status.bytes, status.len, NULL, NULL, &error), "message");
	return refusal(arena, INVALID_DOCUMENT, message);
}

static JsonNode *
document_in(Arena *arena, const JsonNode *question, const char *name)
{
	JsonText	text = member(question, name);
	JsonError	error;

	return text.bytes != NULL ? json_parse(arena, text.bytes, text.len, NULL, NULL, &error) : NULL;
}


static JsonText
answer_mapping(Arena *arena, const JsonNode *question, const char **why)
{
	JsonNode   *mapping = document_in(arena, question, "document");
	FieldErrorList errors;

	if (mapping == NULL)
		return (JsonText) {NULL, 0};
	field_errors_init(&errors, arena);
	if (result_mapping_compile(arena, mapping, &errors) == NULL)
		return invalid(arena, "ResultsMapping", "", json_get_cstring(arena, question, "type"), &errors);
	return json_text_of(arena, mapping);
}

static JsonText
answer_crd(Arena *arena, const JsonNode *question, const char **why)
{
	JsonNode   *crd = document_in(arena, question, "document");
	const char *name = json_get_cstring(arena, json_get(crd, "metadata"), "name");
	FieldErrorList errors;
	JsonNode   *definitions;

	if (crd == NULL || crd->kind != JSON_KIND_OBJECT)
		return (JsonText) {NULL, 0};
	field_errors_init(&errors, arena);
	definitions = crd_definitions(arena, crd, &errors);
	if (definitions == NULL)
		return invalid(arena, "CustomResourceDefinition", "apiextensions.k8s.io", name != NULL ? name : "", &errors);
	return json_text_of(arena, definitions);
}

static void
set_text(Arena *arena, JsonNode *row, const char *column, JsonText text)
{
	json_set(arena, row, column, text.bytes != NULL ? json_new_string(arena, text.bytes, text.len) :
			 json_new_null(arena));
}

static void
set_cstring(Arena *arena, JsonNode *row, const char *column, const char *text)
{
	set_text(arena, row, column, text != NULL ? (JsonText) {text, strlen(text)} : (JsonText) {NULL, 0});
}

/* Returns a row of the SQL type admitted, as JSON; its status is a text. */
static JsonText
answer_write(Arena *arena, const JsonNode *question, const char **why)
{
	const JsonNode *fill = json_get(question, "fillSummary");
	const JsonNode *version = json_get(question, "storedVersion");
	Served		served = {.fill_summary = fill != NULL && fill->kind == JSON_KIND_BOOL && fill->u.boolean};
	JsonText	text = member(question, "request");
	ApiRequest	request;
	AskedWrite	asked = {&served, &request, member(question, "document")};
	StoredObject stored = {.metadata = member(question, "storedMetadata"), .body = member(question, "storedBody")};
	DecidedWrite write = {0};
	JsonNode   *row = json_new_object(arena);
	JsonText	answer;

	served.definition = definition_read(arena, member(question, "definition"), why);
	if (served.definition == NULL || text.bytes == NULL || !request_parse(arena, text.bytes, text.len, &request))
		return (JsonText) {NULL, 0};
	if (asked.document.bytes == NULL)
		asked.document = (JsonText) {"", 0};
	if (version != NULL && version->kind == JSON_KIND_INTEGER)
		stored.version = version->u.integer;
	arena_init(&write.arena);
	if (json_string_is(json_get(question, "ask"), "admission"))
		write_ask_admission(&write, &asked);
	else
		write_ask_decision(&write, &asked, stored.metadata.bytes != NULL ? &stored : NULL);

	set_cstring(arena, row, "action", arena_printf(arena, "%c", (char) write.action));
	json_set(arena, row, "code", json_new_integer(arena, write.outcome.code));
	set_cstring(arena, row, "namespace", write.outcome.namespace_name);
	set_cstring(arena, row, "name", write.outcome.name);
	set_cstring(arena, row, "uid", write.outcome.uid);
	set_text(arena, row, "metadata", write.metadata);
	set_text(arena, row, "body", write.body);
	json_set(arena, row, "versioned", json_new_bool(arena, write.outcome.versioned));
	set_text(arena, row, "status", (JsonText) {write.outcome.status, write.outcome.status_len});
	set_cstring(arena, row, "transform", transform_token(arena, &write.outcome.transform));
	json_set(arena, row, "retry_after", json_new_integer(arena, write.outcome.retry_after));
	json_set(arena, row, "warnings", write.outcome.warnings != NULL ? write.outcome.warnings : json_new_null(arena));
	set_cstring(arena, row, "actor", request.username[0] != '\0' ? request.username : NULL);
	answer = json_text_of(arena, row);
	write_free(&write);
	return answer;
}

/* The kinds of questions.  limited: engine_answer() sets the budget; the other functions set one themselves. */
static const struct
{
	const char *name;
	Answer		answer;
	bool		limited;
}			answers[] = {
	{"results", answer_results, false},
	{"time", answer_time, false},
	{"mapping", answer_mapping, true},
	{"crd", answer_crd, true},
	{"admission", answer_write, false},
	{"decision", answer_write, false},
};

/* The argument of a function that runs under the budget of its question. */
typedef struct Answering
{
	Arena	   *arena;
	const JsonNode *question;
	Answer		answer;
	JsonText	given;
	const char *why;
} Answering;

static void
run_answer(void *state)
{
	Answering  *answering = state;

	answering->given = answering->answer(answering->arena, answering->question, &answering->why);
}

JsonText
engine_answer(Arena *arena, JsonText question)
{
	JsonError	error;
	JsonNode   *asked = json_parse(arena, question.bytes, question.len, NULL, NULL, &error);

	for (size_t i = 0; asked != NULL && i < sizeof(answers) / sizeof(answers[0]); i++)
	{
		Answering	answering = {arena, asked, answers[i].answer, {NULL, 0}, NULL};

		if (!json_string_is(json_get(asked, "ask"), answers[i].name))
			continue;
		if (!answers[i].limited)
			run_answer(&answering);
		else if (arena_run(arena, question.len, run_answer, &answering) != ARENA_WITHIN)
			answering.given = (JsonText) {NULL, 0};
		return answering.given.bytes != NULL ? answering.given :
			refusal(arena, TOO_LARGE, answering.why != NULL ? answering.why : "the engine has no answer");
	}
	return refusal(arena, NOT_UNDERSTOOD, "this version of the proxy does not know the question");
}
