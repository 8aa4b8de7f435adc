/*-------------------------------------------------------------------------
 *
 * collection.c
 *	  A deletecollection that the proxy decides (variant sql).
 *
 * A client that leaves does not stop the dialogue in flight, so a Collection
 * may outlive its exchange.
 *
 *-------------------------------------------------------------------------
 */
#include "api/collection.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "api/dialogue.h"
#include "api/reading.h"
#include "api/reply.h"
#include "decide/write.h"

/* Columns of api_load_collection(). */
#define COLUMN_CODE 0
#define COLUMN_STATUS 1
#define COLUMN_NAMESPACE 2
#define COLUMN_NAME 3
#define COLUMN_VERSION 4
#define COLUMN_METADATA 5
#define COLUMN_BODY 6

typedef struct Collection
{
	Exchange   *exchange;		/* NULL once the client has left */
	Arena		arena;
	Registry   *registry;
	const RegistryType *type;
	ReadPlan	plan;
	ApiRequest	request;
	JsonText	document;
	const char *namespace_name;
	PgResult   *piece;
	size_t		next;			/* row of the piece that is deleted next */
	int64_t		deleted;
	bool		continued;		/* the next piece begins at the continue token */
	const char *after_namespace;
	const char *after_name;
	size_t		failed;			/* row of the first object that could not be deleted; SIZE_MAX: none */
	size_t		begun;			/* row of the first write of the dialogue */
	bool		stale;
	DialogueAnswer failure;		/* its body is in the arena */
} Collection;

static void collection_load(Collection *collection);

static void
collection_free(Collection *collection)
{
	pg_result_free(collection->piece);
	registry_release(collection->registry);
	arena_free(&collection->arena);
	free(collection);
}

/* Ends the hold of the exchange and returns the exchange; NULL when the client has left. */
static Exchange *
collection_end(Collection *collection)
{
	Exchange   *exchange = collection->exchange;

	if (exchange != NULL)
		exchange_release(exchange);
	return exchange;
}

static void
collection_left(Exchange *exchange)
{
	Collection *collection = exchange->work;

	collection->exchange = NULL;
	exchange_release(exchange);
}

static void
collection_answer(Collection *collection, int code, int retry_after, JsonText body)
{
	Exchange   *exchange = collection_end(collection);

	if (exchange != NULL)
		reply_send(exchange, &(Reply) {
			.code = code, .content_type = "application/json", .retry_after = retry_after, .body = body
		}, NULL);
	collection_free(collection);
}

static void
collection_success(Collection *collection)
{
	StrBuf		buf;

	strbuf_init(&buf, &collection->arena);
	strbuf_puts(&buf, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\",\"details\":{"
				"\"group\":");
	json_write_string(&buf, collection->type->group, strlen(collection->type->group));
	strbuf_puts(&buf, ",\"kind\":");
	json_write_string(&buf, collection->type->resource, strlen(collection->type->resource));
	strbuf_puts(&buf, "}}\n");
	collection_answer(collection, 200, 0, (JsonText) {buf.bytes, buf.len});
}

/* ---------- deleting ---------- */

/* Ignores an object that another client has deleted meanwhile.  Any other error ends the request. */
static void
object_deleted(void *state, size_t write, const DialogueAnswer *answer)
{
	Collection *collection = state;
	size_t		row = collection->begun + write;

	collection->stale = collection->stale || answer->code == DIALOGUE_STALE;
	if ((answer->code >= 200 && answer->code < 400) || answer->code == 404 || row > collection->failed)
		return;
	collection->failed = row;
	collection->failure = *answer;
	collection->failure.body.bytes = arena_strndup(&collection->arena,
												   answer->body.bytes != NULL ? answer->body.bytes : "",
												   answer->body.len);
}

static void collection_delete(Collection *collection);

static void
dialogue_over(void *state, PgOutcome outcome, const PgError *error)
{
	Collection *collection = state;
	Exchange   *exchange;

	if (outcome == PG_OK && collection->failed == SIZE_MAX && collection->exchange != NULL)
	{
		collection_delete(collection);
		return;
	}
	if (outcome == PG_OK && !collection->stale && collection->failed != SIZE_MAX && collection->failure.code >= 400)
	{
		collection_answer(collection, collection->failure.code, collection->failure.retry_after,
						  collection->failure.body);
		return;
	}
	exchange = collection_end(collection);
	if (exchange == NULL)
		 /* no client waits */ ;
	else if (outcome != PG_OK)
		reply_outcome(exchange, outcome, error);
	else if (collection->stale && exchange->registry_moves++ < 5)
		exchange_find_type_again(exchange);
	else
		reply_status(exchange, 503, "ServiceUnavailable", "the objects keep changing",
					 &(StatusDetails) {.retry_after_seconds = 1});
	collection_free(collection);
}

/* Deletes the next objects of the piece; after the last one, loads the next piece. */
static void
collection_delete(Collection *collection)
{
	DialogueWrite writes[DIALOGUE_WRITES];
	StoredObject stored[DIALOGUE_WRITES];
	size_t		rows = pg_rows(collection->piece);
	size_t		count = 0;

	if (collection->next == rows)
	{
		JsonText	namespace_name = pg_text(collection->piece, rows - 1, COLUMN_NAMESPACE);
		JsonText	name = pg_text(collection->piece, rows - 1, COLUMN_NAME);

		collection->after_namespace = arena_strndup(&collection->arena, namespace_name.bytes, namespace_name.len);
		collection->after_name = arena_strndup(&collection->arena, name.bytes, name.len);
		collection->deleted += (int64_t) rows;
		if (collection->plan.options.limit > 0 && collection->deleted >= collection->plan.options.limit)
			collection_success(collection);
		else
			collection_load(collection);
		return;
	}
	collection->begun = collection->next;
	for (; collection->next < rows && count < DIALOGUE_WRITES; collection->next++)
	{
		size_t		row = collection->next;

		stored[count] = (StoredObject) {
			.metadata = pg_text(collection->piece, row, COLUMN_METADATA),
			.body = pg_text(collection->piece, row, COLUMN_BODY),
			.version = pg_int8(collection->piece, row, COLUMN_VERSION)
		};
		writes[count] = (DialogueWrite) {
			.registry = collection->registry, .type = collection->type,
			.namespace_name = collection->namespace_name, .name = "",
			.asked = &collection->request, .document = collection->document, .stored = &stored[count]
		};
		count++;
	}
	dialogue_start(writes, count, true, object_deleted, dialogue_over, collection);
}

/* ---------- loading ---------- */

static void
piece_loaded(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Collection *collection = state;

	pg_result_free(collection->piece);
	collection->piece = result;
	collection->next = 0;
	if (collection->exchange == NULL || outcome != PG_OK)
	{
		Exchange   *exchange = collection_end(collection);

		if (exchange != NULL)
			reply_outcome(exchange, outcome, error);
		collection_free(collection);
	}
	else if (pg_rows(result) == 0)
		collection_success(collection);
	else if (pg_int4(result, 0, COLUMN_CODE) != 200)
		collection_answer(collection, pg_int4(result, 0, COLUMN_CODE),
						  pg_int4(result, 0, COLUMN_CODE) == 504 ? 1 : 0, pg_text(result, 0, COLUMN_STATUS));
	else
		collection_delete(collection);
}

static void
collection_load(Collection *collection)
{
	const ListOptions *options = &collection->plan.options;
	PgCall	   *call = pg_call_new(PG_LOAD_COLLECTION);

	pg_add_type(call, collection->type);
	pg_add_optional(call, collection->namespace_name);
	pg_add_text_array(call, collection->plan.terms, collection->plan.term_count);
	pg_add_text(call, options->label_selector);
	pg_add_text(call, options->field_selector);
	pg_add_text(call, collection->after_namespace);
	pg_add_text(call, collection->after_name);
	pg_add_int8(call, options->limit > 0 ? options->limit - collection->deleted : 0);
	pg_add_int8(call, collection->continued ? options->continue_version : 0);
	collection->continued = false;
	pg_send(call, false, exchange_time_left(collection->exchange), piece_loaded, collection);
}

void
collection_start(Exchange *exchange)
{
	Collection *collection;
	ReadPlan	plan;
	DecidedWrite admitted;
	AskedWrite	asked = {.served = exchange->type->served, .document = exchange->body};
	bool		refused;

	if (!get_plan(exchange, &plan))
		return;
	asked.request = exchange->asked;
	/* Check the options of the deletion once, before anything is deleted. */
	arena_init(&admitted.arena);
	write_ask_admission(&admitted, &asked);
	refused = admitted.action == DECIDED_ANSWER;
	collection = allocate(sizeof(Collection));
	collection->exchange = exchange;
	collection->failed = SIZE_MAX;
	arena_init(&collection->arena);
	collection->registry = registry_hold(exchange->registry);
	collection->type = exchange->type;
	/* The plan's texts are in the exchange's arena, which ends with the exchange; then nothing is loaded any more. */
	collection->plan = plan;
	if (!request_parse(&collection->arena,
					   arena_strndup(&collection->arena, exchange->request.bytes, exchange->request.len),
					   exchange->request.len, &collection->request))
		abort();				/* impossible: get_plan() has decoded the same text */
	collection->document = (JsonText) {
		arena_strndup(&collection->arena, exchange->body.bytes != NULL ? exchange->body.bytes : "", exchange->body.len),
		exchange->body.len
	};
	collection->namespace_name = arena_strdup(&collection->arena, exchange->route->namespace_name);
	collection->continued = plan.options.has_continue;
	collection->after_namespace = collection->namespace_name;
	if (plan.options.has_continue && collection->namespace_name[0] == '\0')
		collection->after_namespace = plan.options.continue_namespace;
	collection->after_name = plan.options.has_continue ? plan.options.continue_name : "";
	exchange_hold(exchange, collection, collection_left, NULL);
	if (refused)
		collection_answer(collection, admitted.outcome.code, admitted.outcome.retry_after,
						  write_answer(&admitted, &asked, 0, 0));
	else
		collection_load(collection);
	write_free(&admitted);
}
