/*-------------------------------------------------------------------------
 *
 * write.c
 *	  Writes of one object each, gathered into batches.
 *
 * A Write lives in its exchange's arena and is either in the queue of its
 * lane or in the batch in flight; whichever holds it is told when the
 * exchange ends.  A batch outlives the exchanges of its members.
 *
 * When a batch hangs, those that wait behind it are told to come again, as
 * they are by other workers, where the lock's timeout sees to it.
 *
 *-------------------------------------------------------------------------
 */
#include "api/write.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "api/feed.h"
#include "base/metrics.h"
#include "upkeep/namespaces.h"
#include "api/reply.h"
#include "base/wakeup.h"

#define BATCH_WRITES 64
#define BATCH_BYTES (4 * 1024 * 1024)
#define WAITING_WRITES 4096
#define WAITING_BYTES (64 * 1024 * 1024)
#define EXEMPT_FACTOR 2			/* what system:masters may go up to */
#define LOOK_AHEAD 256			/* waiting writes looked at for one batch */
#define NAMESPACE_MOVES 5		/* how often a create is sent again because its namespace is another one */
#define GATHER_MS 1				/* after a batch of several, for their clients to come back */
#define PATIENCE_MS 4000		/* behind a batch: longer than one that waits for locks takes */

typedef struct Write Write;
typedef struct Batch Batch;
typedef struct WriteLane WriteLane;

struct Write
{
	Exchange   *exchange;
	WriteLane  *lane;
	uint64_t	key;			/* hash of the object's namespace and name; 0 when it will get a name of its own */
	bool		alone;			/* not together with any other */
	JsonText	body;
	Batch	   *batch;			/* NULL while it waits */
	size_t		index;			/* in the batch */
	Write	   *previous;		/* in the queue */
	Write	   *next;
};

struct Batch
{
	WriteLane  *lane;
	size_t		count;
	Write	   *writes[BATCH_WRITES];	/* NULL when its client has gone */
};

/* One for each lane that was ever written by this worker. */
struct WriteLane
{
	int			lane;
	Write	   *first;
	Write	   *last;
	size_t		waiting;		/* writes between them */
	Batch	   *batch;			/* in flight */
	size_t		expected;		/* writes of the last batch, while their clients may come back at once */
	LoopTimer	gather;			/* how long they are expected */
	LoopTimer	patience;		/* with the batch in flight */
	bool		hangs;			/* the batch in flight: nobody waits for it any more */
	bool		deferred;		/* to be sent at the end of this turn of the loop */
	WriteLane  *next;
};

static WriteLane *lanes;
static size_t waiting_writes;
static size_t waiting_bytes;

static void lane_ready(WriteLane *lane);

static void *
allocate(size_t size)
{
	void	   *pointer = calloc(1, size);

	if (pointer == NULL)
		abort();
	return pointer;
}

static WriteLane *
lane_find(int number)
{
	WriteLane  *lane;

	for (lane = lanes; lane != NULL; lane = lane->next)
	{
		if (lane->lane == number)
			return lane;
	}
	lane = allocate(sizeof(WriteLane));
	lane->lane = number;
	lane->next = lanes;
	lanes = lane;
	return lane;
}

/* ---------- the queue of a lane ---------- */

static size_t
write_size(const Write *write)
{
	return write->body.len + write->exchange->request.len;
}

static void
queue_insert(Write *write, bool front)
{
	WriteLane  *lane = write->lane;

	write->batch = NULL;
	write->previous = front ? NULL : lane->last;
	write->next = front ? lane->first : NULL;
	if (write->previous != NULL)
		write->previous->next = write;
	else
		lane->first = write;
	if (write->next != NULL)
		write->next->previous = write;
	else
		lane->last = write;
	lane->waiting++;
	waiting_writes++;
	waiting_bytes += write_size(write);
}

static void
queue_remove(Write *write)
{
	WriteLane  *lane = write->lane;

	if (write->previous != NULL)
		write->previous->next = write->next;
	else
		lane->first = write->next;
	if (write->next != NULL)
		write->next->previous = write->previous;
	else
		lane->last = write->previous;
	write->previous = write->next = NULL;
	lane->waiting--;
	waiting_writes--;
	waiting_bytes -= write_size(write);
}

/* Takes the write out of whatever holds it. */
static void
write_detach(Exchange *exchange)
{
	Write	   *write = exchange->work;

	if (write == NULL)
		return;
	if (write->batch != NULL)
		write->batch->writes[write->index] = NULL;
	else
		queue_remove(write);
	exchange->work = NULL;
}

static void
write_expired(Exchange *exchange)
{
	write_detach(exchange);
	reply_timeout(exchange);
}

/* ---------- batches ---------- */

/* The store knows another namespace under that name than this worker did. */
static void
write_moved(Exchange *exchange)
{
	exchange->closed = NULL;
	exchange->expired = NULL;
	if (exchange->namespace_moves++ < NAMESPACE_MOVES)
		namespaces_ask_again(exchange, exchange->route->namespace_name, exchange_perform);
	else
		reply_status(exchange, 503, "ServiceUnavailable", "the namespace keeps changing", &(StatusDetails) {.retry_after_seconds = 1});
}

/* Each member gets its element of the answer. */
static void
batch_answer(Batch *batch, const PgResult *result)
{
	PgArray		codes = pg_array(result, 0, 0);
	PgArray		content_types = pg_array(result, 0, 1);
	PgArray		retry_afters = pg_array(result, 0, 2);
	PgArray		warnings = pg_array(result, 0, 3);
	PgArray		replies = pg_array(result, 0, 4);
	PgArray		versions = pg_array(result, 0, 5);
	int64_t		newest = 0;

	for (size_t i = 0; i < batch->count; i++)
	{
		Write	   *write = batch->writes[i];
		JsonText	code;
		JsonText	content_type;
		JsonText	retry_after;
		JsonText	warning;
		JsonText	version;
		Reply		reply = {0};
		bool		there = pg_array_next(&codes, &code);

		pg_array_next(&content_types, &content_type);
		pg_array_next(&retry_afters, &retry_after);
		pg_array_next(&warnings, &warning);
		pg_array_next(&versions, &version);
		pg_array_next(&replies, &reply.body);
		if (pg_array_int8(version) > newest)
			newest = pg_array_int8(version);
		if (write == NULL)
			continue;

		batch->writes[i] = NULL;
		write->exchange->work = NULL;
		if (there && pg_array_int4(code) == 0)
		{
			write_moved(write->exchange);
			continue;
		}
		if (!there || pg_array_int4(code) < 200 || pg_array_int4(code) > 599)
		{
			reply_status(write->exchange, 500, "InternalError", "Internal error occurred: a batch was answered in part", NULL);
			continue;
		}
		reply.code = pg_array_int4(code);
		reply.content_type = content_type.bytes == NULL ? "application/json" :
			arena_strndup(&write->exchange->arena, content_type.bytes, content_type.len);
		reply.retry_after = pg_array_int4(retry_after);
		if (warning.len > 0)
		{
			size_t		lines = 1;

			for (size_t c = 0; c < warning.len; c++)
				lines += warning.bytes[c] == '\n';
			reply.warnings = arena_alloc(&write->exchange->arena, lines * sizeof(JsonText));
			for (const char *next = warning.bytes; reply.warning_count < lines;)
			{
				const char *end = warning.bytes + warning.len;
				const char *stop = memchr(next, '\n', (size_t) (end - next));

				if (stop == NULL)
					stop = end;
				reply.warnings[reply.warning_count].bytes = next;
				reply.warnings[reply.warning_count++].len = (size_t) (stop - next);
				next = stop + 1;
			}
		}
		reply_send(write->exchange, &reply, NULL);
	}
	if (newest > 0)
	{
		feed_wake(batch->lane->lane, newest);
		wakeup_tell(batch->lane->lane, newest);
	}
}

static void
batch_fail(Batch *batch, PgOutcome outcome, const PgError *error)
{
	bool		again = batch->count > 1 && !reply_is_transient(outcome, error);

	/* Backwards, so that they stand in their old order before all that wait. */
	for (size_t i = batch->count; i-- > 0;)
	{
		Write	   *write = batch->writes[i];

		if (write == NULL)
			continue;
		if (again)
		{
			write->alone = true;
			queue_insert(write, true);
		}
		else
		{
			write->exchange->work = NULL;
			batch->writes[i] = NULL;
			reply_outcome(write->exchange, outcome, error);
		}
	}
}

static void
lane_gathered(void *state)
{
	WriteLane  *lane = state;

	lane->expected = 0;
	lane_ready(lane);
}

static void
batch_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Batch	   *batch = state;
	WriteLane  *lane = batch->lane;

	lane->batch = NULL;
	lane->hangs = false;
	loop_timer_stop(&lane->patience);
	lane->expected = outcome == PG_OK && batch->count > 1 ? batch->count : 0;
	if (lane->expected > 0)
		loop_timer_start(&lane->gather, GATHER_MS, lane_gathered, lane);
	if (outcome == PG_OK)
		batch_answer(batch, result);
	else
		batch_fail(batch, outcome, error);
	pg_result_free(result);
	free(batch);
	lane_ready(lane);
}

static void
refuse_to_wait(Exchange *exchange)
{
	static const PgError lock_not_available = {"55P03", "the batch before does not end"};

	reply_outcome(exchange, PG_FAILED, &lock_not_available);
}

/* Whatever its backend is stuck in: those behind it have waited for as long as anybody waits for a lock. */
static void
lane_hangs(void *state)
{
	WriteLane  *lane = state;

	lane->hangs = true;
	while (lane->first != NULL)
	{
		Exchange   *exchange = lane->first->exchange;

		queue_remove(lane->first);
		exchange->work = NULL;
		refuse_to_wait(exchange);
	}
}

static bool
batch_has_key(const Batch *batch, uint64_t key)
{
	for (size_t i = 0; i < batch->count && key != 0; i++)
	{
		if (batch->writes[i]->key == key)
			return true;
	}
	return false;
}

static void
lane_send(WriteLane *lane)
{
	JsonText	requests[BATCH_WRITES];
	JsonText	bodies[BATCH_WRITES];
	Batch	   *batch;
	PgCall	   *call;
	size_t		size = 0;
	size_t		looked = 0;
	Write	   *next;

	if (lane->first == NULL)
		return;
	batch = allocate(sizeof(Batch));
	batch->lane = lane;
	for (Write *write = lane->first; write != NULL && batch->count < BATCH_WRITES && looked++ < LOOK_AHEAD; write = next)
	{
		next = write->next;

		/* What must be alone, or is too large for the rest of this batch, is first in a later one: nothing overtakes it. */
		if (batch->count > 0 && (write->alone || size + write_size(write) > BATCH_BYTES))
			break;
		if (batch_has_key(batch, write->key))
			continue;
		queue_remove(write);
		size += write_size(write);
		requests[batch->count] = write->exchange->request;
		bodies[batch->count] = write->body;
		write->batch = batch;
		write->index = batch->count;
		batch->writes[batch->count++] = write;
		if (write->alone)
			break;
	}
	lane->batch = batch;
	loop_timer_start(&lane->patience, PATIENCE_MS, lane_hangs, lane);
	metrics_count(COUNTER_BATCHES, 1);
	metrics_count(COUNTER_BATCHED_WRITES, batch->count);
	call = pg_call_new(PG_WRITE);
	pg_add_text_array(call, requests, batch->count);
	pg_add_bytea_array(call, bodies, batch->count);
	pg_send(call, false, (uint64_t) config.request_timeout * 1000, batch_done, batch);
}

static void
lane_deferred(void *state)
{
	WriteLane  *lane = state;

	lane->deferred = false;
	if (lane->batch == NULL)
		lane_send(lane);
}

/*
 * A batch is sent at the end of the turn of the loop, with all that this turn has brought.  Right after a batch of several its clients
 * are given a moment to come back, or the first of them would start a batch of one.  An idle lane adds no wait.
 */
static void
lane_ready(WriteLane *lane)
{
	if (lane->batch != NULL || lane->first == NULL || lane->deferred || lane->waiting < lane->expected)
		return;
	loop_timer_stop(&lane->gather);
	lane->expected = 0;
	lane->deferred = true;
	loop_defer(lane_deferred, lane);
}

/* ---------- a write ---------- */

/* FNV-1a; two objects with one hash are only kept out of one batch. */
static uint64_t
hash(uint64_t seed, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		seed = (seed ^ (unsigned char) bytes[i]) * 1099511628211u;
	return seed;
}

static void
write_identify(Write *write)
{
	const Route *route = write->exchange->route;
	JsonText	name = {route->name, strlen(route->name)};

	if (name.len == 0)
	{
		switch (route_body_name(write->body.bytes, write->body.len, &name))
		{
			case BODY_NAME_GIVEN:
				break;
			case BODY_NAME_ABSENT:
				return;
			case BODY_NAME_UNKNOWN:
				write->alone = true;
				return;
		}
	}
	write->key = hash(14695981039346656037u, route->namespace_name, strlen(route->namespace_name) + 1);
	write->key = hash(write->key, name.bytes, name.len) | 1;
}

void
write_start(Exchange *exchange)
{
	Write	   *write;
	WriteLane  *lane = lane_find(exchange->type->lane);
	size_t		factor = exchange->exempt ? EXEMPT_FACTOR : 1;

	if (lane->hangs)
	{
		refuse_to_wait(exchange);
		return;
	}
	if (waiting_writes >= WAITING_WRITES * factor || waiting_bytes >= WAITING_BYTES * factor)
	{
		reply_too_many_requests(exchange);
		return;
	}
	write = arena_alloc0(&exchange->arena, sizeof(Write));
	write->exchange = exchange;
	write->lane = lane;
	write->body = exchange->body;
	write_identify(write);
	exchange->work = write;
	exchange->closed = write_detach;
	exchange->expired = write_expired;
	queue_insert(write, false);
	lane_ready(lane);
}
