/*-------------------------------------------------------------------------
 *
 * list.c
 *	  Lists of any size in bounded memory.
 *
 * The first piece sets status and headers.  A list of one piece is an ordinary
 * answer with its length.  A longer list is chunked.  When a later piece
 * fails, the connection is reset, so that no client takes half a list for a
 * whole one.
 *
 * An export may take long: each of its pieces has the time of a request.
 * http_server.c cuts clients that do not read.
 *
 * The pieces of a deletecollection are steps without a body.  The answer of
 * the deletecollection is the answer of the last step, or of the first step
 * that failed.
 *
 *-------------------------------------------------------------------------
 */
#include "api/list.h"

#include <stdlib.h>
#include <string.h>

#include "api/reading.h"
#include "base/allocate.h"
#include "base/log.h"
#include "api/list_items.h"
#include "api/reply.h"

#define ENCODING_BYTES ((size_t) 256 * 1024)	/* memory that an Encoding takes */
#define COLUMN_CODE 0
#define COLUMN_CURSOR 5
#define SEND_BYTES ((size_t) 256 * 1024)
#define SPLICED_BYTES 1048576	/* bytes of the objects of a piece when their stored texts are copied */
#define PARSED_BYTES 262144		/* bytes of them when they must be parsed: other clients wait meanwhile */

/* ---------- pieces ---------- */

/* Updates the room that the list holds: for the pieces that have arrived and for the call in flight. */
static void
pieces_hold(Pieces *pieces)
{
	size_t		bytes = pieces->encoded ? 2 * pieces->taken + ENCODING_BYTES : pieces->taken;

	if (pieces->statement == PG_DELETE_COLLECTION)
		return;
	if (pieces->ready != NULL)
		bytes += pg_result_bytes(pieces->ready);
	if (pieces->begun && pieces->call != NULL)
		bytes += answer_room_expected(PG_PIECE_BYTES);
	if (pieces->begun && !pieces->complete && bytes < answer_room_expected(PG_PIECE_BYTES))
		bytes = answer_room_expected(PG_PIECE_BYTES);
	answer_room_hold(&pieces->holding, bytes);
}

static void
piece_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Pieces	   *pieces = state;
	size_t		last_row;

	pieces->call = NULL;
	exchange_note_database(pieces->exchange);
	if (pieces->on_standby && (outcome != PG_OK || pg_int4(result, 0, COLUMN_CODE) != 200))
	{
		/* The standby does not have the version, or refuses the request; only the primary may refuse it. */
		pg_result_free(result);
		pieces->try_standby = false;
		pieces_fetch(pieces);
		return;
	}
	if (outcome != PG_OK)
	{
		pieces->failed(pieces->state, outcome, error);
		return;
	}
	pieces->ready = result;
	pieces->begun = true;
	last_row = pg_rows(result) - 1;
	pieces->complete = pg_is_null(result, last_row, COLUMN_CURSOR);
	replace_text(&pieces->cursor, pieces->complete ? NULL : pg_text(result, last_row, COLUMN_CURSOR).bytes);
	pieces_hold(pieces);
	pieces->arrived(pieces->state);
}

static void
add_bool(PgCall *call, bool value)
{
	pg_add_int4(call, value ? 1 : 0);
}

/* Adds the parameters of a planned list except the cursor. */
static void
query_add(PgCall *call, const ListQuery *query)
{
	const ListOptions *options = &query->plan.options;
	bool		continued = options->has_continue;
	int64_t		at_version = continued ? options->continue_version : 0;

	if (at_version <= 0 && options->match == VERSION_EXACT)
		at_version = options->version;
	pg_add_type(call, query->type);
	pg_add_optional(call, query->namespace_name);
	add_bool(call, query->plan.needs_body);
	pg_add_text(call, options->label_selector);
	pg_add_text_array(call, query->plan.terms, query->plan.term_count);
	pg_add_text(call, options->field_selector);
	if (options->field_name != NULL)
		pg_add_text(call, options->field_name);
	else
		pg_add_null(call);
	pg_add_int8(call, options->limit);
	if (at_version > 0)
		pg_add_int8(call, at_version);
	else
		pg_add_null(call);
	pg_add_int8(call, options->version);
	add_bool(call, continued ? options->continue_version < 0 : options->match == VERSION_MOST_RECENT);
	add_bool(call, continued);
	/* A continue token is valid only for the namespace of its request. */
	pg_add_text(call, query->namespace_name[0] != '\0' ? query->namespace_name :
				options->continue_namespace != NULL ? options->continue_namespace : "");
	pg_add_text(call, continued ? options->continue_name : "");
	pg_add_int8(call, render_splices(&query->form.form.transform) ? SPLICED_BYTES : PARSED_BYTES);
}

ListQuery *
list_query_new(Exchange *exchange, const ReadPlan *plan)
{
	ListQuery  *query = arena_alloc0(&exchange->arena, sizeof(ListQuery));

	query->type = exchange->type;
	query->namespace_name = exchange->route->namespace_name;
	query->plan = *plan;
	query->form.form.definition = exchange->type->served->definition;
	query->form.form.transform = plan->transform;
	query->form.events = plan->options.initial_events;
	return query;
}

void
pieces_fetch(Pieces *pieces)
{
	PgCall	   *call;

	if (pieces->call != NULL || pieces->ready != NULL || pieces->complete)
		return;
	call = pg_call_new(pieces->statement);
	if (pieces->query != NULL)
		query_add(call, pieces->query);
	else
		pg_add_bytes(call, pieces->request.bytes, pieces->request.len);
	if (pieces->statement == PG_DELETE_COLLECTION)
		pg_add_bytes(call, pieces->body.bytes, pieces->body.len);
	if (pieces->cursor != NULL)
		pg_add_text(call, pieces->cursor);
	else
		pg_add_null(call);
	pieces->on_standby = pieces->try_standby && pg_standby_ready();
	if (pieces->on_standby)
		pg_use_standby(call);
	if (pieces->exempt)
		pg_exempt(call);
	if (!pieces->begun && pieces->statement != PG_DELETE_COLLECTION)
		pg_answer_for(call, pieces->holding.user);
	pieces->call = call;
	pieces_hold(pieces);
	pg_send(call, false, pieces->time_left(pieces->state), piece_done, pieces);
}

static ListForm *
query_form(ListQuery *query)
{
	return query != NULL ? &query->form : NULL;
}

PgResult *
pieces_take(Pieces *pieces)
{
	PgResult   *result = pieces->ready;

	pieces->ready = NULL;
	pieces->taken = result != NULL ? piece_room(result, query_form(pieces->query)) : 0;
	pieces_hold(pieces);
	/* Without room, the next piece is fetched only when nothing is left to send. */
	if (result == NULL || pieces->statement == PG_DELETE_COLLECTION ||
		answer_room_has(pieces->holding.user, answer_room_expected(PG_PIECE_BYTES), true))
		pieces_fetch(pieces);
	return result;
}

void
pieces_end(Pieces *pieces)
{
	if (pieces->call != NULL)
		pg_cancel(pieces->call);
	pg_result_free(pieces->ready);
	free(pieces->cursor);
	pieces->call = NULL;
	pieces->ready = NULL;
	pieces->cursor = NULL;
	pieces->complete = true;
	pieces->taken = 0;
	pieces_hold(pieces);
}

JsonText
piece_take(PieceSending *sending, PgResult *piece, ListQuery *query)
{
	JsonText	bytes;

	arena_init(&sending->arena);
	bytes = piece_bytes(piece, &sending->arena, query_form(query), &sending->error);
	if (pg_rows(piece) > 1)
	{
		pg_result_free(piece);
		piece = NULL;
	}
	sending->result = piece;
	sending->busy = true;
	return bytes;
}

void
piece_drop(PieceSending *sending)
{
	if (!sending->busy)
		return;
	sending->busy = false;
	pg_result_free(sending->result);
	sending->result = NULL;
	arena_free(&sending->arena);
}

bool
piece_send_more(PieceSending *sending, HttpRequest *http)
{
	size_t		len = sending->rest.len < SEND_BYTES ? sending->rest.len : SEND_BYTES;
	const char *bytes = sending->rest.bytes;

	if (len == 0)
	{
		piece_drop(sending);
		return false;
	}
	sending->rest.bytes += len;
	sending->rest.len -= len;
	http_stream_send(http, bytes, len);
	return true;
}

void
piece_send(PieceSending *sending, JsonText bytes, HttpRequest *http)
{
	sending->rest = bytes;
	piece_send_more(sending, http);
}

/* ---------- lists ---------- */

typedef struct List
{
	Exchange   *exchange;
	Pieces		pieces;
	PieceSending sending;
	Encoding   *encoding;		/* NULL: none */
	bool		begun;			/* the head of a chunked answer was sent */
	uint64_t	patience;		/* for an export, how long it waits for a piece, in milliseconds; else 0 */
} List;

static void list_advance(List *list);

static void
list_abort(List *list, const char *why)
{
	log_line(LOG_WARNING, "a list is cut off: %s", why);
	exchange_cancel_job(list->exchange);
	pieces_end(&list->pieces);
	http_abort(list->exchange->http);
}

/* Starts or stops the deadline of an export: it counts only waits for the database, and starts anew for each piece. */
static void
list_set_clock(List *list)
{
	LoopTimer  *deadline = &list->exchange->deadline;

	if (list->patience == 0)
		return;
	if (list->sending.busy || list->exchange->job != NULL)
		loop_timer_stop(deadline);
	else
		loop_timer_start(deadline, list->patience, deadline->fire, deadline->state);
}

/* A piece that is being encoded. */
typedef struct EncodingJob
{
	OffloadJob	job;
	List	   *list;			/* not used by the thread */
	PieceSending sending;		/* sending and encoding are the list's; the job has them while it runs */
	Encoding   *encoding;
	JsonText	bytes;
	bool		last;
	bool		encoded;
} EncodingJob;

static void
encode_piece(OffloadJob *job)
{
	EncodingJob *piece = (EncodingJob *) job;

	piece->encoded = encoding_next(piece->encoding, piece->bytes, piece->last, &piece->bytes);
}

static void
send_encoded(List *list, bool encoded, JsonText bytes)
{
	if (encoded)
		piece_send(&list->sending, bytes, list->exchange->http);
	else
	{
		piece_drop(&list->sending);
		list_abort(list, "a piece could not be encoded");
	}
}

static void
piece_encoded(OffloadJob *job, bool cancelled)
{
	EncodingJob piece = *(EncodingJob *) job;

	free(job);
	if (cancelled)
	{
		piece_drop(&piece.sending);
		encoding_free(piece.encoding);
		return;
	}
	piece.list->exchange->job = NULL;
	piece.list->sending = piece.sending;
	piece.list->encoding = piece.encoding;
	send_encoded(piece.list, piece.encoded, piece.bytes);
	if (piece.encoded)
		list_advance(piece.list);
}

/*
 * Encodes a small piece at once, a larger one in a thread.  The thread queue may be full: the answer has begun, so the
 * job waits.
 */
static bool
list_encode(List *list, JsonText bytes, bool last)
{
	EncodingJob *job;

	if (bytes.len < ENCODE_AT_ONCE)
	{
		bool		encoded = encoding_next(list->encoding, bytes, last, &bytes);

		send_encoded(list, encoded, bytes);
		return encoded;
	}
	job = malloc(sizeof(EncodingJob));
	if (job == NULL)
		abort();
	*job = (EncodingJob) {
		.job = {.run = encode_piece, .done = piece_encoded},
		.list = list,
		.sending = list->sending,
		.encoding = list->encoding,
		.bytes = bytes,
		.last = last,
	};
	memset(&list->sending, 0, sizeof(list->sending));
	list->encoding = NULL;
	list->exchange->job = &job->job;
	offload_submit(&job->job);
	return true;
}

/* Sends the pieces that have arrived; ends the answer after the last one. */
static void
list_advance(List *list)
{
	while (!list->sending.busy && list->exchange->job == NULL)
	{
		bool		last = list->pieces.complete;
		PgResult   *result = pieces_take(&list->pieces);
		JsonText	bytes;

		if (result == NULL)
		{
			if (last)
			{
				loop_timer_stop(&list->exchange->deadline);
				http_stream_end(list->exchange->http);
			}
			else
				list_set_clock(list);
			return;
		}
		if (pg_int4(result, 0, 0) != 200)
		{
			pg_result_free(result);
			list_abort(list, "a later piece was refused");
			return;
		}
		bytes = piece_take(&list->sending, result, list->pieces.query);
		if (bytes.bytes == NULL)
		{
			piece_drop(&list->sending);
			list_abort(list, list->sending.error->message);
			return;
		}
		if (list->encoding == NULL)
			piece_send(&list->sending, bytes, list->exchange->http);
		else if (!list_encode(list, bytes, last))
			return;
	}
	list_set_clock(list);
}

static void
list_writable(void *state)
{
	List	   *list = state;

	if (!piece_send_more(&list->sending, list->exchange->http))
		list_advance(list);
}

static void
list_arrived(void *state)
{
	List	   *list = state;
	Exchange   *exchange = list->exchange;
	Reply		reply;

	if (list->begun)
	{
		list_advance(list);
		return;
	}
	reply = reply_read(&exchange->arena, list->pieces.ready, 0);
	if (reply.code != 200 || list->pieces.complete)
	{
		PgResult   *result = list->pieces.ready;
		const PgError *error;

		/* http_server.c counts the bytes of the answer; this counts the result, which also holds the body. */
		list->pieces.taken = pg_result_bytes(result);
		list->pieces.ready = NULL;
		reply.body = piece_bytes(result, &exchange->arena, query_form(list->pieces.query), &error);
		if (reply.body.bytes != NULL)
			reply_send(exchange, &reply, result);
		else
		{
			pg_result_free(result);
			reply_outcome(exchange, PG_FAILED, error);
		}
		return;
	}
	if (list->pieces.statement == PG_DELETE_COLLECTION)
	{
		pg_result_free(pieces_take(&list->pieces));
		return;
	}
	if (exchange->head)
	{
		/* Send only the headers, which are those of the chunked answer. */
		loop_timer_stop(&exchange->deadline);
		encoding_free(reply_encoding(exchange, &reply));
		reply_stream_begin(exchange, &reply, list_writable, list);
		pieces_end(&list->pieces);
		return;
	}
	list->encoding = reply_encoding(exchange, &reply);
	if (list->encoding != NULL && !offload_has_room())
	{
		pieces_end(&list->pieces);
		reply_too_many_requests(exchange);
		return;
	}
	list->begun = true;
	list->pieces.encoded = list->encoding != NULL;
	reply_stream_begin(exchange, &reply, list_writable, list);
	list_advance(list);
}

static void
list_failed(void *state, PgOutcome outcome, const PgError *error)
{
	List	   *list = state;

	if (list->begun)
		list_abort(list, error != NULL ? error->message : "the database is away");
	else
		reply_outcome(list->exchange, outcome, error);
}

static void
list_expired(Exchange *exchange)
{
	List	   *list = exchange->work;

	if (list->begun)
		list_abort(list, "--request-timeout");
	else
	{
		pieces_end(&list->pieces);
		reply_timeout(exchange);
	}
}

static void
list_closed(Exchange *exchange)
{
	List	   *list = exchange->work;

	pieces_end(&list->pieces);
	piece_drop(&list->sending);
	encoding_free(list->encoding);
}

static uint64_t
list_time_left(void *state)
{
	List	   *list = state;

	return list->patience > 0 ? list->patience : exchange_time_left(list->exchange);
}

/*
 * Whether the list names a version.  Without one it must show every write answered before, which only the primary has.
 */
static bool
names_version(const Route *route)
{
	const JsonText *version = route_parameter(route, "resourceVersion");
	const JsonText *token = route_parameter(route, "continue");

	return (version != NULL && version->len > 0) || (token != NULL && token->len > 0);
}

void
list_start(Exchange *exchange, PgStatement statement)
{
	List	   *list = arena_alloc0(&exchange->arena, sizeof(List));

	if (statement == PG_LIST && exchange->type->served != NULL)
	{
		ReadPlan	plan;

		if (!get_plan(exchange, &plan))
			return;
		list->pieces.query = list_query_new(exchange, &plan);
		statement = PG_READ_LIST;
	}
	list->exchange = exchange;
	list->pieces.statement = statement;
	list->pieces.request = exchange->request;
	list->pieces.body = exchange->body;
	list->pieces.exempt = exchange->exempt;
	list->pieces.holding.user = http_user_number(exchange->http);
	list->pieces.try_standby = (statement == PG_LIST || statement == PG_READ_LIST) && names_version(exchange->route);
	list->pieces.exchange = exchange;
	list->pieces.time_left = list_time_left;
	list->patience = statement == PG_EXPORT ? exchange_time_left(exchange) : 0;
	list->pieces.arrived = list_arrived;
	list->pieces.failed = list_failed;
	list->pieces.state = list;
	exchange_hold(exchange, list, list_closed, list_expired);
	pieces_fetch(&list->pieces);
}
