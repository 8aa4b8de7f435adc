/*-------------------------------------------------------------------------
 *
 * sql_read.c
 *	  SQL functions that plan reads and render answers.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "access/xact.h"
#include "funcapi.h"
#include "engine/answers/read_plan.h"
#include "engine/answers/render.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(sql_get_plan);
PG_FUNCTION_INFO_V1(sql_list_plan);
PG_FUNCTION_INFO_V1(sql_render_object);
PG_FUNCTION_INFO_V1(sql_render_item);
PG_FUNCTION_INFO_V1(sql_render_change);
PG_FUNCTION_INFO_V1(sql_render_list);
PG_FUNCTION_INFO_V1(sql_render_bookmark);
PG_FUNCTION_INFO_V1(sql_continue_token);
PG_FUNCTION_INFO_V1(sql_status_document);
PG_FUNCTION_INFO_V1(sql_not_found_document);

static void parse_transform(Datum datum, Transform *transform);
static JsonText argument_text(FunctionCallInfo fcinfo, int number);
static text *text_of_buffer(StrBuf *buf);
static int64_t statement_time(void);

Datum
sql_get_plan(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	TupleDesc	row = result_row(fcinfo);
	Arena		arena;
	ApiRequest	request;
	ReadPlan	plan;
	HeapTuple	tuple;

	(void) definition_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	arena_init_for(&arena, argument_bytes(fcinfo, 2, -1));
	read_request(&arena, PG_GETARG_DATUM(2), &request);
	(void) read_plan_get(&arena, &request, &plan);
	{
		Datum		values[] = {
			Int32GetDatum(plan.code),
			plan.code != 200 ? PointerGetDatum(text_of_buffer(&plan.status)) : (Datum) 0,
			CStringGetTextDatum(transform_token(&arena, &plan.transform)),
			Int64GetDatum(plan.version)
		};
		bool		nulls[] = {false, plan.code == 200, false, false};

		tuple = heap_form_tuple(row, values, nulls);
	}
	arena_free(&arena);
	PG_RETURN_DATUM(HeapTupleGetDatum(tuple));
}

Datum
sql_list_plan(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	const Definition *definition = definition_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	TupleDesc	row = result_row(fcinfo);
	Arena		arena;
	ApiRequest	request;
	ReadPlan	plan;
	HeapTuple	tuple;
	Datum		values[21];
	bool		nulls[21] = {false};

	arena_init_for(&arena, argument_bytes(fcinfo, 2, -1));
	read_request(&arena, PG_GETARG_DATUM(2), &request);
	if (!read_plan_list(&arena, definition, &request, &plan))
	{
		memset(nulls, true, sizeof(nulls));
		values[0] = Int32GetDatum(plan.code);
		values[1] = PointerGetDatum(text_of_buffer(&plan.status));
		nulls[0] = nulls[1] = false;
	}
	else
	{
		static const char match_letter[] = {
			[VERSION_MOST_RECENT] = 'r',[VERSION_ANY] = 'a',[VERSION_NOT_OLDER] = 'n',[VERSION_EXACT] = 'e'
		};
		const ListOptions *options = &plan.options;

		values[0] = Int32GetDatum(200);
		nulls[1] = true;
		values[2] = CStringGetTextDatum(transform_token(&arena, &plan.transform));
		values[3] = BoolGetDatum(plan.needs_body);
		values[4] = CStringGetTextDatum(options->label_selector);
		values[5] = text_array_value(plan.terms, plan.term_count);
		values[6] = CStringGetTextDatum(options->field_selector);
		nulls[7] = options->field_name == NULL;
		values[7] = options->field_name != NULL ? CStringGetTextDatum(options->field_name) : (Datum) 0;
		values[8] = Int64GetDatum(options->limit);
		values[9] = BoolGetDatum(options->has_continue);
		values[10] = Int64GetDatum(options->continue_version);
		nulls[11] = options->continue_namespace == NULL;
		values[11] = options->continue_namespace != NULL ? CStringGetTextDatum(options->continue_namespace) :
			(Datum) 0;
		nulls[12] = options->continue_name == NULL;
		values[12] = options->continue_name != NULL ? CStringGetTextDatum(options->continue_name) : (Datum) 0;
		values[13] = CharGetDatum(match_letter[options->match]);
		values[14] = Int64GetDatum(options->version);
		values[15] = BoolGetDatum(options->initial_events);
		values[16] = BoolGetDatum(options->initial_bookmark);
		values[17] = BoolGetDatum(options->from_now);
		values[18] = BoolGetDatum(options->bookmarks);
		values[19] = Int64GetDatum(options->timeout_seconds);
		nulls[20] = !render_splices(&plan.transform);
		values[20] = CStringGetTextDatum(arena_printf(&arena, "%s %s %s", transform_token(&arena, &plan.transform),
													  definition->api_version, definition->kind));
	}
	tuple = heap_form_tuple(row, values, nulls);
	arena_free(&arena);
	PG_RETURN_DATUM(HeapTupleGetDatum(tuple));
}

/* The time for ages in tables: the start of the statement.  A STABLE function must answer the same throughout it. */
static int64_t
statement_time(void)
{
	return (int64_t) timestamptz_to_time_t(GetCurrentStatementStartTimestamp());
}

/*
 * The arguments of every rendering function begin with (definition_id, definition, transform).  The macro takes the
 * numbers of the arguments that are documents.
 */
#define RENDER_BEGIN(...) \
	const Definition *definition; \
	Arena		arena; \
	StrBuf		buf; \
	Transform	transform; \
	text	   *result; \
	\
	require_arguments(fcinfo, 0, 2); \
	definition = definition_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1)); \
	parse_transform(PG_GETARG_DATUM(2), &transform); \
	arena_init_for(&arena, argument_bytes(fcinfo, __VA_ARGS__, -1)); \
	strbuf_init(&buf, &arena)

#define RENDER_END() \
	result = text_of_buffer(&buf); \
	arena_free(&arena); \
	PG_RETURN_DATUM(PointerGetDatum(result))

Datum
sql_render_object(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(3))
		PG_RETURN_NULL();
	{
		RENDER_BEGIN(3, 4);
		render_object(&buf, definition, &transform, false, argument_text(fcinfo, 3), argument_text(fcinfo, 4),
					  PG_ARGISNULL(5) ? 0 : PG_GETARG_INT64(5), statement_time());
		strbuf_putc(&buf, '\n');
		RENDER_END();
	}
}

Datum
sql_render_item(PG_FUNCTION_ARGS)
{
	RENDER_BEGIN(5, 6);
	require_arguments(fcinfo, 3, 5);
	require_arguments(fcinfo, 7, 7);
	if (PG_GETARG_BOOL(4))
		strbuf_puts(&buf, render_list_separator(&transform));
	if (PG_GETARG_BOOL(3))
		render_event(&buf, "ADDED", definition, &transform, argument_text(fcinfo, 5), argument_text(fcinfo, 6),
					 PG_GETARG_INT64(7), statement_time());
	else
		render_item(&buf, definition, &transform, argument_text(fcinfo, 5), argument_text(fcinfo, 6),
					PG_GETARG_INT64(7), statement_time());
	RENDER_END();
}

Datum
sql_render_change(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(3))
		PG_RETURN_NULL();
	{
		RENDER_BEGIN(3, 4);
		require_arguments(fcinfo, 5, 5);
		render_object(&buf, definition, &transform, true, argument_text(fcinfo, 3), argument_text(fcinfo, 4),
					  PG_GETARG_INT64(5), statement_time());
		RENDER_END();
	}
}

Datum
sql_render_list(PG_FUNCTION_ARGS)
{
	RENDER_BEGIN(5);
	require_arguments(fcinfo, 3, 4);
	switch (PG_GETARG_CHAR(3))
	{
		case 'h':
			render_list_head(&buf, definition, &transform);
			break;
		case 's':
			strbuf_puts(&buf, render_list_separator(&transform));
			break;
		case 't':
			render_list_tail(&buf, definition, &transform, PG_GETARG_INT64(4),
							 PG_ARGISNULL(5) ? "" : TextDatumGetCString(PG_GETARG_DATUM(5)),
							 PG_ARGISNULL(6) ? -1 : PG_GETARG_INT64(6));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("unknown part of a list: \"%c\"", PG_GETARG_CHAR(3)),
					 errhint("Parts are h, s and t.")));
	}
	RENDER_END();
}

Datum
sql_render_bookmark(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	RENDER_BEGIN(2);
	render_bookmark(&buf, definition, &transform, PG_GETARG_INT64(3), PG_GETARG_BOOL(4));
	RENDER_END();
}

Datum
sql_continue_token(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Arena		arena;
	text	   *result;

	arena_init_for(&arena, argument_bytes(fcinfo, 2, 3, 4, -1));
	result = cstring_to_text(continue_token(&arena, PG_GETARG_INT64(0), PG_GETARG_BOOL(1),
											TextDatumGetCString(PG_GETARG_DATUM(2)),
											TextDatumGetCString(PG_GETARG_DATUM(3)),
											TextDatumGetCString(PG_GETARG_DATUM(4))));
	arena_free(&arena);
	PG_RETURN_TEXT_P(result);
}

Datum
sql_status_document(PG_FUNCTION_ARGS)
{
	Arena		arena;
	StrBuf		buf;
	StatusDetails details;
	text	   *result;

	require_arguments(fcinfo, 0, 2);
	arena_init_for(&arena, argument_bytes(fcinfo, 1, 2, 3, -1));
	strbuf_init(&buf, &arena);
	memset(&details, 0, sizeof(details));
	if (!PG_ARGISNULL(3))
	{
		JsonNode   *node = jsonb_node(&arena, &PG_GETARG_JSONB_P(3)->root);
		JsonNode   *causes = json_get(node, "causes");
		JsonNode   *retry = json_get(node, "retryAfterSeconds");

		details.name = json_get_cstring(&arena, node, "name");
		details.group = json_get_cstring(&arena, node, "group");
		details.kind = json_get_cstring(&arena, node, "kind");
		details.uid = json_get_cstring(&arena, node, "uid");
		if (retry != NULL && retry->kind == JSON_KIND_INTEGER)
			details.retry_after_seconds = (int) retry->u.integer;
		if (causes != NULL && causes->kind == JSON_KIND_ARRAY)
		{
			StatusCause *list = arena_alloc0(&arena, sizeof(StatusCause) * (causes->u.array.count + 1));

			for (size_t i = 0; i < causes->u.array.count; i++)
			{
				list[i].reason = json_get_cstring(&arena, causes->u.array.items[i], "reason");
				list[i].message = json_get_cstring(&arena, causes->u.array.items[i], "message");
				list[i].field = json_get_cstring(&arena, causes->u.array.items[i], "field");
			}
			details.causes = list;
			details.cause_count = causes->u.array.count;
		}
	}
	status_failure(&buf, PG_GETARG_INT32(0), TextDatumGetCString(PG_GETARG_DATUM(1)),
				   TextDatumGetCString(PG_GETARG_DATUM(2)), PG_ARGISNULL(3) ? NULL : &details);
	result = text_of_buffer(&buf);
	arena_free(&arena);
	PG_RETURN_DATUM(PointerGetDatum(result));
}

Datum
sql_not_found_document(PG_FUNCTION_ARGS)
{
	Arena		arena;
	StrBuf		buf;
	text	   *result;

	require_arguments(fcinfo, 0, 2);
	arena_init_for(&arena, argument_bytes(fcinfo, 0, 1, 2, -1));
	strbuf_init(&buf, &arena);
	status_not_found(&buf, TextDatumGetCString(PG_GETARG_DATUM(1)), TextDatumGetCString(PG_GETARG_DATUM(0)),
					 TextDatumGetCString(PG_GETARG_DATUM(2)));
	result = text_of_buffer(&buf);
	arena_free(&arena);
	PG_RETURN_TEXT_P(result);
}

static void
parse_transform(Datum datum, Transform *transform)
{
	char	   *token = TextDatumGetCString(datum);

	if (!transform_parse(token, transform))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown transform \"%s\"", token)));
	pfree(token);
}

/* The text of an argument; empty if the argument is null because the body was not read. */
static JsonText
argument_text(FunctionCallInfo fcinfo, int number)
{
	JsonText	none = {"", 0};

	return PG_ARGISNULL(number) ? none : datum_text(PG_GETARG_DATUM(number));
}

static text *
text_of_buffer(StrBuf *buf)
{
	return text_value(buf->len > 0 ? buf->bytes : "", buf->len);
}
