/*-------------------------------------------------------------------------
 *
 * get.c
 *	  A get of one object.
 *
 * Where the proxy decides, it also plans the read and renders the row.
 *
 *-------------------------------------------------------------------------
 */
#include "api/get.h"

#include <time.h>

#include "api/reading.h"
#include "api/reply.h"

#define COLUMN_VERSION 5		/* first of the columns version, metadata, document of api_read_object() */

/* Renders the object as the answer; *body is in the arena of the exchange. */
static ReadOutcome
render(Exchange *exchange, const PgResult *result, JsonText *body)
{
	const ReadForm *form = exchange->form;
	ReadRow		row = {
		.version = pg_int8(result, 0, COLUMN_VERSION),
		.metadata = pg_text(result, 0, COLUMN_VERSION + 1),
		.body = pg_text(result, 0, COLUMN_VERSION + 2),
	};
	ReadRoom	room = {NULL, 0};
	StrBuf		buf;
	ReadOutcome outcome;

	strbuf_init(&buf, &exchange->arena);
	outcome = read_render(&buf, &room, form, READ_ANSWER, &row, (int64_t) time(NULL));
	read_room_free(&room);
	*body = (JsonText) {buf.bytes, buf.len};
	return outcome;
}

static void
row_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Exchange   *exchange = state;
	ReadOutcome rendered = READ_DONE;
	Reply		reply;

	if (!reply_call_ended(exchange, outcome, error))
		return;
	reply = reply_read(&exchange->arena, result, 0);
	if (reply.code == 200)
		rendered = render(exchange, result, &reply.body);
	else if (pg_is_null(result, 0, COLUMN_VERSION - 1))
	{
		StrBuf		status;

		strbuf_init(&status, &exchange->arena);
		status_not_found(&status, exchange->type->group, exchange->type->resource, exchange->route->name);
		reply.body = (JsonText) {status.bytes, status.len};
	}
	if (rendered == READ_DONE)
	{
		reply_send(exchange, &reply, result);
		return;
	}
	pg_result_free(result);
	reply_outcome(exchange, PG_FAILED, read_fault(rendered));
}

static PgCall *
row_call(const RegistryType *type, const char *namespace_name, const char *name, int64_t at_least)
{
	PgCall	   *call = pg_call_new(PG_READ_OBJECT);

	pg_add_type(call, type);
	pg_add_text(call, namespace_name);
	pg_add_text(call, name);
	pg_add_int8(call, at_least);
	return call;
}

void
get_start(Exchange *exchange)
{
	PgDone		done = reply_with_result;

	if (exchange->type->served != NULL)
	{
		ReadForm   *form = arena_alloc0(&exchange->arena, sizeof(ReadForm));
		ReadPlan	plan;

		if (!get_plan(exchange, &plan))
			return;
		form->definition = exchange->type->served->definition;
		form->transform = plan.transform;
		exchange->form = form;
		exchange->call = row_call(exchange->type, exchange->route->namespace_name, exchange->route->name, plan.version);
		done = row_done;
	}
	else
	{
		exchange->call = pg_call_new(PG_GET);
		pg_add_bytes(exchange->call, exchange->request.bytes, exchange->request.len);
	}
	pg_answer_for(exchange->call, http_user_number(exchange->http));
	if (exchange->exempt)
		pg_exempt(exchange->call);
	pg_send(exchange->call, false, exchange_time_left(exchange), done, exchange);
}

PgCall *
get_probe(const RegistryType *type)
{
	const char *namespace_name = type->namespaced ? "readyz" : "";
	PgCall	   *call;
	Arena		arena;

	if (type->served != NULL)
		return row_call(type, namespace_name, "readyz", 0);
	call = pg_call_new(PG_GET);
	arena_init(&arena);
	pg_add_text(call, arena_printf(&arena, "{\"verb\":\"get\",\"group\":\"%s\",\"version\":\"%s\","
								   "\"resource\":\"%s\"%s,\"name\":\"readyz\"}",
								   type->group, type->version, type->resource,
								   type->namespaced ? ",\"namespace\":\"readyz\"" : ""));
	arena_free(&arena);
	return call;
}
