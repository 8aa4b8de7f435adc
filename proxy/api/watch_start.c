/*-------------------------------------------------------------------------
 *
 * watch_start.c
 *	  Where a watch starts, and what it selects.
 *
 * In the variant c the extension plans a watch, in the variant sql the proxy.
 *
 *-------------------------------------------------------------------------
 */
#include "api/watch_start.h"

#include <string.h>

#include "api/reading.h"
#include "engine/answers/render.h"

/* Columns of api_watch(); api_read_watch() has the first three. */
enum
{
	COLUMN_LANE = 5,
	COLUMN_VERSION,
	COLUMN_CURSOR,
	COLUMN_NAMESPACE,
	COLUMN_LABELS,
	COLUMN_FIELDS,
	COLUMN_FIRST_REPRESENTATION,
	COLUMN_REPRESENTATION,
	COLUMN_BOOKMARKS,
	COLUMN_END_BOOKMARK,
	COLUMN_TIMEOUT
};

/* Reads the start of a watch that the extension has planned. */
static WatchStart
start_told(const PgResult *result)
{
	WatchStart	start = {
		.lane = pg_int4(result, 0, COLUMN_LANE),
		.version = pg_int8(result, 0, COLUMN_VERSION),
		.cursor = pg_is_null(result, 0, COLUMN_CURSOR) ? NULL : pg_text(result, 0, COLUMN_CURSOR).bytes,
		.namespace_name = pg_text(result, 0, COLUMN_NAMESPACE),
		.labels = pg_text(result, 0, COLUMN_LABELS),
		.fields = pg_text(result, 0, COLUMN_FIELDS),
		.first_representation = pg_text(result, 0, COLUMN_FIRST_REPRESENTATION),
		.representation = pg_text(result, 0, COLUMN_REPRESENTATION),
		.bookmarks = pg_bool(result, 0, COLUMN_BOOKMARKS),
		.end_bookmark = pg_text(result, 0, COLUMN_END_BOOKMARK),
		.timeout = pg_int4(result, 0, COLUMN_TIMEOUT),
	};

	return start;
}

static JsonText
text_of(const char *string)
{
	return (JsonText) {string, strlen(string)};
}

/* Returns the start of a watch that the proxy has planned. */
static WatchStart
start_planned(Exchange *exchange, const PgResult *result)
{
	Arena	   *arena = &exchange->arena;
	const ReadPlan *plan = exchange->watch_plan;
	const Definition *definition = exchange->type->served->definition;
	Transform	later = plan->transform;
	WatchStart	start = {
		.lane = pg_int4(result, 0, COLUMN_LANE),
		.version = pg_int8(result, 0, COLUMN_VERSION),
		.namespace_name = text_of(exchange->route->namespace_name),
		.labels = text_of(plan->options.label_selector),
		.fields = text_of(plan->options.field_selector),
		.bookmarks = plan->options.bookmarks,
		.timeout = (int32_t) (plan->options.timeout_seconds < INT32_MAX ? plan->options.timeout_seconds : INT32_MAX),
	};

	if (!pg_is_null(result, 0, COLUMN_CURSOR))
	{
		start.cursor = pg_text(result, 0, COLUMN_CURSOR).bytes;
		start.query = list_query_new(exchange, plan);
	}
	/* A representation names the served version and the transform.  Only the first event of a table has its columns. */
	later.columns = false;
	start.first_representation = text_of(arena_printf(arena, "%s %s", exchange->type->version,
													  transform_token(arena, &plan->transform)));
	start.representation = text_of(arena_printf(arena, "%s %s", exchange->type->version,
												transform_token(arena, &later)));
	if (plan->options.initial_bookmark)
	{
		StrBuf		frame;

		strbuf_init(&frame, arena);
		render_bookmark(&frame, definition, &plan->transform, start.version, true);
		start.end_bookmark = (JsonText) {frame.bytes, frame.len};
	}
	return start;
}

bool
watch_start_read(Exchange *exchange, const PgResult *result, WatchStart *start)
{
	if (pg_is_null(result, 0, COLUMN_LANE))
		return false;
	*start = exchange->watch_plan != NULL ? start_planned(exchange, result) : start_told(result);
	return true;
}

PgCall *
watch_call(Exchange *exchange)
{
	PgCall	   *call;

	if (exchange->type->served != NULL)
	{
		ReadPlan   *plan = arena_alloc0(&exchange->arena, sizeof(ReadPlan));

		if (!get_plan(exchange, plan))
			return NULL;
		exchange->watch_plan = plan;
		call = pg_call_new(PG_READ_WATCH);
		pg_add_type(call, exchange->type);
		pg_add_optional(call, exchange->route->namespace_name);
		if (plan->options.from_now)
			pg_add_null(call);
		else
			pg_add_int8(call, plan->options.version);
		pg_add_int4(call, plan->options.initial_events ? 1 : 0);
	}
	else
	{
		call = pg_call_new(PG_WATCH);
		pg_add_bytes(call, exchange->request.bytes, exchange->request.len);
	}
	return call;
}
