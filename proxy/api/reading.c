/*-------------------------------------------------------------------------
 *
 * reading.c
 *	  What gets, lists and watches have in common: plans, parameters of calls and errors.
 *
 *-------------------------------------------------------------------------
 */
#include "api/reading.h"

#include <stdlib.h>
#include <string.h>

#include "api/reply.h"

const PgError piece_unknown = {"XX000", "a piece of the list has another form than this proxy expects", NULL};

static const PgError read_costly = {"54000", "an object takes more memory or work than its size allows", NULL};

const PgError *
read_fault(ReadOutcome outcome)
{
	return outcome == READ_COSTLY ? &read_costly : &piece_unknown;
}

void
pg_add_optional(PgCall *call, const char *text)
{
	if (text != NULL && text[0] != '\0')
		pg_add_text(call, text);
	else
		pg_add_null(call);
}

void
pg_add_type(PgCall *call, const RegistryType *type)
{
	pg_add_text(call, type->group);
	pg_add_text(call, type->version);
	pg_add_text(call, type->resource);
}

bool
get_plan(Exchange *exchange, ReadPlan *plan)
{
	const Definition *definition = exchange->type->served->definition;
	ApiRequest *asked = arena_alloc(&exchange->arena, sizeof(ApiRequest));
	Reply		reply = {.content_type = "application/json"};

	if (!request_parse(&exchange->arena, exchange->request.bytes, exchange->request.len, asked))
		abort();				/* impossible: the proxy itself has written the request */
	exchange->asked = asked;
	if (strcmp(asked->verb, "get") == 0 ? read_plan_get(&exchange->arena, asked, plan) :
		read_plan_list(&exchange->arena, definition, asked, plan))
		return true;
	reply.code = plan->code;
	reply.body = (JsonText) {plan->status.bytes, plan->status.len};
	reply_send(exchange, &reply, NULL);
	return false;
}
