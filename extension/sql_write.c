/*-------------------------------------------------------------------------
 *
 * sql_write.c
 *	  SQL functions that decide on writes.
 *
 * They see documents only.  store/write.sql handles locks, versions and
 * tables.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include <time.h>

#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "engine/api/status.h"
#include "engine/writes/write.h"

PG_FUNCTION_INFO_V1(sql_write_admit);
PG_FUNCTION_INFO_V1(sql_write_decide);
PG_FUNCTION_INFO_V1(sql_write_document);

static void fill_context(WriteContext *context, FunctionCallInfo fcinfo, int fill_summary);
static char action_letter(Arena *arena, const ApiRequest *request, const WriteOutcome *outcome);
static Datum warning_array(const JsonNode *warnings);

/* A question to the engine.  With decide, stored is the stored object, or NULL if there is none. */
typedef struct SqlWrite
{
	const Definition *definition;
	ApiRequest	request;
	JsonText	document;
	WriteContext context;
	bool		decide;
	StoredObject *stored;
	WriteResults results;
	size_t		bytes;			/* of all documents */
} SqlWrite;

static Datum ask_engine(Arena *arena, SqlWrite *asked, TupleDesc row);
static Datum outcome_row(Arena *arena, TupleDesc row, SqlWrite *asked, const WriteOutcome *outcome);

/* The arguments from mapping_id to costly begin with number first. */
static void
begin_results(SqlWrite *asked, FunctionCallInfo fcinfo, int first)
{
	results_begin(&asked->results, fcinfo, first);
	if (!PG_ARGISNULL(first + 3))
		asked->results.costly = (size_t) PG_GETARG_INT32(first + 3);
	arena_init_for(&asked->results.arena, asked->bytes);
}

Datum
sql_write_admit(PG_FUNCTION_ARGS)
{
	SqlWrite	asked = {.document = {"", 0}};
	Arena		arena;
	TupleDesc	row = result_row(fcinfo);
	Datum		result;

	require_arguments(fcinfo, 0, 2);
	asked.definition = definition_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	asked.bytes = argument_bytes(fcinfo, 3, -1);
	begin_results(&asked, fcinfo, 5);
	arena_init_for(&arena, asked.bytes);
	read_request(&arena, PG_GETARG_DATUM(2), &asked.request);
	if (!PG_ARGISNULL(3))
		asked.document = datum_text(PG_GETARG_DATUM(3));
	fill_context(&asked.context, fcinfo, 4);
	result = ask_engine(&arena, &asked, row);
	arena_free(&asked.results.arena);
	arena_free(&arena);
	PG_RETURN_DATUM(result);
}

Datum
sql_write_decide(PG_FUNCTION_ARGS)
{
	SqlWrite	asked = {.document = {"", 0}, .decide = true};
	Arena		arena;
	StoredObject stored = {0};
	TupleDesc	row = result_row(fcinfo);
	Datum		result;

	require_arguments(fcinfo, 0, 2);
	asked.definition = definition_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	asked.bytes = argument_bytes(fcinfo, 3, 4, 5, -1);
	begin_results(&asked, fcinfo, 8);
	arena_init_for(&arena, asked.bytes);
	read_request(&arena, PG_GETARG_DATUM(2), &asked.request);
	if (!PG_ARGISNULL(3))
		asked.document = datum_text(PG_GETARG_DATUM(3));
	if (!PG_ARGISNULL(6))
	{
		require_arguments(fcinfo, 4, 5);
		stored.metadata = datum_text(PG_GETARG_DATUM(4));
		stored.body = datum_text(PG_GETARG_DATUM(5));
		stored.version = PG_GETARG_INT64(6);
		asked.stored = &stored;
	}
	fill_context(&asked.context, fcinfo, 7);
	result = ask_engine(&arena, &asked, row);
	arena_free(&asked.results.arena);
	arena_free(&arena);
	PG_RETURN_DATUM(result);
}

static void
perform(Arena *arena, SqlWrite *asked, WriteOutcome *outcome)
{
	WriteOutcome admitted;

	memset(outcome, 0, sizeof(*outcome));

	/*
	 * A decision repeats the admission: this is cheaper than passing a parsed document from one SQL function to the
	 * next.
	 */
	write_admit(arena, asked->definition, &asked->request, asked->document.bytes, asked->document.len,
				&asked->context, outcome);
	if (!asked->decide)
		return;
	/* The name that the first admission generated is already taken; take it from the stored object. */
	if (asked->stored != NULL && strcmp(asked->request.verb, "create") == 0)
	{
		asked->stored->parsed_metadata = parse_document(arena, asked->stored->metadata);
		outcome->name = json_get_cstring(arena, asked->stored->parsed_metadata, "name");
	}
	if (outcome->action != WRITE_PENDING)
		return;
	if (asked->stored != NULL && asked->stored->parsed_metadata == NULL && asked->results.mapping != NULL)
	{
		arena_begin_work(asked->bytes);
		results_read_stored(&asked->results, arena, asked->stored);
		arena_begin_work(asked->bytes);
	}
	admitted = *outcome;
	write_decide(arena, asked->definition, &asked->request, asked->document.bytes, asked->document.len, &asked->context,
				 &admitted, asked->stored, outcome);
}

/*
 * The answer to a document that exceeds its budget is a Status of code 413, so that the other requests of its batch do
 * not fail.  The error can be caught without a subtransaction: only the engine runs here, and its only state is the
 * arena.
 */
static Datum
ask_engine(Arena *arena, SqlWrite *asked, TupleDesc row)
{
	MemoryContext caller = CurrentMemoryContext;
	WriteOutcome outcome;
	Datum		result;

	PG_TRY();
	{
		perform(arena, asked, &outcome);
		result = outcome_row(arena, row, asked, &outcome);
	}
	PG_CATCH();
	{
		ErrorData  *error;
		StrBuf		status;
		WriteOutcome refusal = {.action = WRITE_ANSWER, .code = 413};

		MemoryContextSwitchTo(caller);
		if (geterrcode() != ERRCODE_PROGRAM_LIMIT_EXCEEDED)
			PG_RE_THROW();
		error = CopyErrorData();
		FlushErrorState();
		strbuf_init(&status, arena);
		status_failure(&status, 413, "RequestEntityTooLarge",
					   error->detail != NULL ? arena_printf(arena, "Request entity too large: %s: %s",
															error->message, error->detail) :
					   arena_printf(arena, "Request entity too large: %s", error->message), NULL);
		refusal.status = status.bytes;
		refusal.status_len = status.len;
		result = outcome_row(arena, row, asked, &refusal);
	}
	PG_END_TRY();
	return result;
}

/*
 * The key columns decide about name and namespace.  A document with another value is refused; a document without a
 * value gets the value of the column.
 */
static void
agree_on_key(Arena *arena, JsonNode *metadata, const char *member, Datum column, FieldErrorList *errors)
{
	JsonText	text = datum_text(column);
	JsonNode   *given = json_get(metadata, member);

	if (given == NULL && text.len > 0)
		json_set(arena, metadata, member, json_new_string(arena, text.bytes, text.len));
	else if (given != NULL && (given->kind != JSON_KIND_STRING || json_text_compare(given->u.string, text) != 0))
		field_error_at(errors, FIELD_INVALID, arena_printf(arena, "metadata.%s", member), given,
					   "does not match the row's column");
}

Datum
sql_write_document(PG_FUNCTION_ARGS)
{
	const Definition *definition;
	Arena		arena;
	JsonNode   *metadata;
	JsonNode   *body;
	JsonNode   *uid;
	FieldErrorList errors;
	StoredObject stored = {0};
	WriteContext context;
	TupleDesc	row = result_row(fcinfo);
	HeapTuple	tuple;

	require_arguments(fcinfo, 0, 3);
	definition = definition_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	arena_init_for(&arena, argument_bytes(fcinfo, 4, 5, 6, 7, -1));
	field_errors_init(&errors, &arena);
	metadata = PG_ARGISNULL(4) ? json_new_object(&arena) : parse_document(&arena, datum_text(PG_GETARG_DATUM(4)));
	body = PG_ARGISNULL(5) ? json_new_object(&arena) : parse_document(&arena, datum_text(PG_GETARG_DATUM(5)));
	agree_on_key(&arena, metadata, "namespace", PG_GETARG_DATUM(2), &errors);
	agree_on_key(&arena, metadata, "name", PG_GETARG_DATUM(3), &errors);
	if (!PG_ARGISNULL(6))
	{
		require_arguments(fcinfo, 7, 7);
		stored.metadata = datum_text(PG_GETARG_DATUM(6));
		stored.body = datum_text(PG_GETARG_DATUM(7));
	}
	fill_context(&context, fcinfo, 8);
	if (errors.count > 0 ||
		!write_document(&arena, definition, metadata, body, PG_ARGISNULL(6) ? NULL : &stored, &context, &errors))
		raise_invalid(&arena, definition->kind, definition->group, TextDatumGetCString(PG_GETARG_DATUM(3)), &errors);
	uid = json_get(metadata, "uid");
	{
		Datum		values[] = {
			PointerGetDatum(text_value_of_json(&arena, metadata)),
			PointerGetDatum(text_value_of_json(&arena, body)),
			uuid_datum(arena_strndup(&arena, uid->u.string.bytes, uid->u.string.len))
		};
		bool		nulls[] = {false, false, false};

		tuple = heap_form_tuple(row, values, nulls);
	}
	arena_free(&arena);
	PG_RETURN_DATUM(HeapTupleGetDatum(tuple));
}

/* fill_summary is the number of the argument that requests the summary. */
static void
fill_context(WriteContext *context, FunctionCallInfo fcinfo, int fill_summary)
{
	uint8		random[WRITE_RANDOM_BYTES];

	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	write_context_init(context, random, (int64_t) time(NULL),
					   !PG_ARGISNULL(fill_summary) && PG_GETARG_BOOL(fill_summary));
}

/*
 * An admitted create becomes an insert; SQL itself detects an existing object.  A dry run inserts nothing, so
 * write_decide() must answer.
 */
static char
action_letter(Arena *arena, const ApiRequest *request, const WriteOutcome *outcome)
{
	switch (outcome->action)
	{
		case WRITE_ANSWER:
			return 'n';
		case WRITE_INSERT:
			return 'i';
		case WRITE_UPDATE:
			return 'u';
		case WRITE_DELETE:
			return 'd';
		case WRITE_PENDING:
			if (outcome->metadata != NULL && strcmp(request->verb, "create") == 0 &&
				request_query(arena, request, "dryRun") == NULL)
				return 'i';
			return 'p';
	}
	pg_unreachable();
}

/*
 * Hands the results of an insert, update or delete to the commit.  Returns true with the time of evaluation if the
 * object to store has one.
 */
static bool
decide_results(SqlWrite *asked, char action, const WriteOutcome *outcome, Datum metadata, Datum body, int64 *time)
{
	JsonText	none = {NULL, 0};

	if (asked->results.mapping == NULL)
		return false;
	if (action == 'i' || action == 'u')
		return results_decide(&asked->results, outcome->metadata, outcome->body, datum_text(metadata),
							  datum_text(body), time);
	if (action == 'd')
		results_decide(&asked->results, NULL, NULL, none, none, time);
	return false;
}

/* The result of sql_write_admit() and sql_write_decide(), of type admitted. */
static Datum
outcome_row(Arena *arena, TupleDesc row, SqlWrite *asked, const WriteOutcome *outcome)
{
	const ApiRequest *request = &asked->request;
	char		action = action_letter(arena, request, outcome);
	bool		object = outcome->metadata != NULL;
	Datum		metadata = object ? PointerGetDatum(text_value_of_json(arena, outcome->metadata)) : (Datum) 0;
	Datum		body = object ? PointerGetDatum(text_value_of_json(arena, outcome->body)) : (Datum) 0;
	int64		time = 0;
	bool		has_time = decide_results(asked, action, outcome, metadata, body, &time);
	Datum		values[] = {
		CharGetDatum(action),
		Int32GetDatum(outcome->code),
		outcome->namespace_name != NULL ? CStringGetTextDatum(outcome->namespace_name) : (Datum) 0,
		outcome->name != NULL ? CStringGetTextDatum(outcome->name) : (Datum) 0,
		outcome->uid != NULL ? uuid_datum(outcome->uid) : (Datum) 0,
		metadata,
		body,
		BoolGetDatum(outcome->versioned),
		outcome->status != NULL ? PointerGetDatum(text_value(outcome->status, outcome->status_len)) : (Datum) 0,
		CStringGetTextDatum(transform_token(arena, &outcome->transform)),
		Int32GetDatum(outcome->retry_after),
		outcome->warnings != NULL ? warning_array(outcome->warnings) : (Datum) 0,
		request->username[0] != '\0' ? CStringGetTextDatum(request->username) : (Datum) 0,
		TimestampTzGetDatum(time)
	};
	bool		nulls[] = {
		false, false, outcome->namespace_name == NULL, outcome->name == NULL, outcome->uid == NULL,
		!object, !object, false, outcome->status == NULL,
		false, false, outcome->warnings == NULL, request->username[0] == '\0', !has_time
	};

	return HeapTupleGetDatum(heap_form_tuple(row, values, nulls));
}

static Datum
warning_array(const JsonNode *warnings)
{
	JsonText   *texts = palloc(sizeof(JsonText) * Max(warnings->u.array.count, 1));

	for (size_t i = 0; i < warnings->u.array.count; i++)
		texts[i] = warnings->u.array.items[i]->u.string;
	return text_array_value(texts, warnings->u.array.count);
}
