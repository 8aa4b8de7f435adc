/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  Writes of one object each, gathered into batches.
 *
 * A Member is one write.  It lives in the arena of its exchange, and is either
 * in a queue (of its lane, or of costly writes) or in a batch in flight.  When
 * the exchange ends, member_detach() removes the Member from there.  A batch
 * may outlive the exchanges of its members.
 *
 * When a batch hangs, the writes behind it are told to try again.  In other
 * workers the lock timeout does the same.
 *
 *-------------------------------------------------------------------------
 */
#include "api/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/config.h"
#include "api/dialogue.h"
#include "api/feed_channel.h"
#include "base/metrics.h"
#include "api/namespaces.h"
#include "api/reply.h"
#include "engine/base/hash.h"

#define BATCH_WRITES DIALOGUE_WRITES
#define BATCH_BYTES (4 * 1024 * 1024)
#define WAITING_WRITES 4096
#define WAITING_BYTES (64 * 1024 * 1024)
#define EXEMPT_FACTOR 2			/* factor for the limits of system:masters */
#define LOOK_AHEAD 256			/* waiting writes looked at for one batch */
#define NAMESPACE_MOVES 5		/* how often a create is sent again because its namespace changed */
#define REGISTRY_MOVES 5		/* how often a write is decided again because the registry changed */
#define COSTLY_BYTES (256 * 1024)	/* larger bodies are costly; costly_bytes() in store/write.sql */
#define COSTLY_WRITES 64		/* costly writes that may wait */
#define COSTLY_WAITING_BYTES (32 * 1024 * 1024)
#define COSTLY_OF_USER 16		/* costly writes of one user that may wait */
#define COSTLY_REST_MS 2000		/* the longest pause after a costly write */
#define COSTLY_TRIES 5			/* how often a costly write that loses against other writers is sent */
#define GATHER_MS 1				/* the shortest time that a lane waits for the next writes of a batch's clients */
#define GATHER_MOST_MS 20		/* the longest time that a lane waits for them */
#define GATHER_SHARE 4			/* the lane waits for this part (a quarter) of the time that the batch took */
#define GATHER_RESTS 4			/* after a lane waited too short a time, this many batches gather for GATHER_MS only */
#define PATIENCE_MS 4000		/* how long writes wait behind a batch; longer than the lock timeout */

typedef struct Member Member;
typedef struct Batch Batch;
typedef struct BatchLane BatchLane;

struct Member
{
	Exchange   *exchange;
	BatchLane  *lane;
	uint64_t	key;			/* hash of the object's namespace and name; 0 when the name will be generated */
	bool		alone;			/* must be the only write of its batch */
	bool		conflicted;		/* a batch with it was rolled back for another transaction; it is sent again once */
	bool		costly;			/* waits in the costly queue or was sent from it */
	int			tries;			/* how often it was sent from the costly queue */
	uint64_t	user;			/* hash of the user's name */
	JsonText	body;
	uint64_t	waits_since;	/* when it entered its queue, in microseconds */
	Batch	   *batch;			/* NULL while it waits */
	size_t		index;			/* in the batch */
	Member	   *previous;		/* in the queue */
	Member	   *next;
};

struct Batch
{
	BatchLane  *lane;
	bool		costly;			/* a costly write; not counted as the lane's batch in flight */
	uint64_t	sent;			/* in microseconds */
	size_t		count;
	Member	   *writes[BATCH_WRITES];	/* NULL when the client left */
};

/* One for each lane to which this worker has written. */
struct BatchLane
{
	int			lane;
	Member	   *first;
	Member	   *last;
	size_t		waiting;		/* writes in the queue */
	Batch	   *batch;			/* in flight */
	uint64_t	sent;			/* when the batch in flight was sent */
	size_t		expected;		/* number of writes for which the lane waits, while the timer gather runs; else 0 */
	unsigned	rests;			/* number of the next batches that gather for GATHER_MS only */
	LoopTimer	gather;
	LoopTimer	patience;		/* runs while a batch is in flight */
	bool		hangs;			/* the batch in flight is stuck; new writes are refused */
	bool		deferred;		/* the next batch is sent at the end of this loop iteration */
	BatchLane  *next;
};

/* The queue of costly writes: one write is in flight at a time, independent of the lanes' batches. */
typedef struct CostlyQueue
{
	Member	   *first;
	Member	   *last;
	size_t		waiting;
	size_t		bytes;
	bool		busy;			/* a write is in flight, or the pause after it runs */
	uint64_t	begun;			/* when the last costly write was sent */
	LoopTimer	rest;
	uint64_t	served[COSTLY_WRITES];	/* the users of the last writes, a ring */
	size_t		turn;			/* how many costly writes were sent */
} CostlyQueue;

static BatchLane *lanes;
static CostlyQueue costly;
static size_t waiting_writes;
static size_t waiting_bytes;

static void lane_ready(BatchLane *lane);
static void costly_ready(void);
static void costly_rest(void);
static void member_costs(Member *write);
static void batch_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error);

static BatchLane *
lane_find(int number)
{
	BatchLane  *lane;

	for (lane = lanes; lane != NULL; lane = lane->next)
	{
		if (lane->lane == number)
			return lane;
	}
	lane = allocate(sizeof(BatchLane));
	lane->lane = number;
	lane->next = lanes;
	lanes = lane;
	return lane;
}

/* ---------- the queue of a lane ---------- */

static size_t
write_size(const Member *write)
{
	return write->body.len + write->exchange->request.len;
}

/* Return the ends of the queue that a write belongs to: of the costly writes or of its lane. */
static Member **
waiting_first(const Member *write)
{
	return write->costly ? &costly.first : &write->lane->first;
}

static Member **
waiting_last(const Member *write)
{
	return write->costly ? &costly.last : &write->lane->last;
}

/* Counts a write that entered or left its queue. */
static void
waiting_count(const Member *write, bool came)
{
	size_t		one = came ? 1 : (size_t) -1;
	size_t		bytes = came ? write_size(write) : (size_t) 0 - write_size(write);

	*(write->costly ? &costly.waiting : &write->lane->waiting) += one;
	*(write->costly ? &costly.bytes : &waiting_bytes) += bytes;
	if (!write->costly)
		waiting_writes += one;
}

static void
waiting_insert(Member *write, bool front)
{
	Member	  **first = waiting_first(write);
	Member	  **last = waiting_last(write);

	write->batch = NULL;
	write->waits_since = loop_microseconds();
	write->previous = front ? NULL : *last;
	write->next = front ? *first : NULL;
	if (write->previous != NULL)
		write->previous->next = write;
	else
		*first = write;
	if (write->next != NULL)
		write->next->previous = write;
	else
		*last = write;
	waiting_count(write, true);
}

static void
waiting_remove(Member *write)
{
	if (write->previous != NULL)
		write->previous->next = write->next;
	else
		*waiting_first(write) = write->next;
	if (write->next != NULL)
		write->next->previous = write->previous;
	else
		*waiting_last(write) = write->previous;
	write->previous = write->next = NULL;
	waiting_count(write, false);
}

/* Takes the write out of its queue or batch. */
static void
member_detach(Exchange *exchange)
{
	Member	   *write = exchange->work;

	if (write->batch != NULL)
		write->batch->writes[write->index] = NULL;
	else
		waiting_remove(write);
	exchange_release(exchange);
}

/* ---------- batches ---------- */

/* The namespace of the write was created anew: the store has another uid than this worker sent. */
static void
member_moved(Exchange *exchange)
{
	if (exchange->namespace_moves++ < NAMESPACE_MOVES)
		namespaces_ask_again(exchange, exchange->route->namespace_name, exchange_again);
	else
		reply_status(exchange, 503, "ServiceUnavailable", "the namespace keeps changing",
					 &(StatusDetails) {.retry_after_seconds = 1});
}

/* The registry has changed since the type of the write was found. */
static void
member_stale(Exchange *exchange)
{
	if (exchange->registry_moves++ < REGISTRY_MOVES)
		exchange_find_type_again(exchange);
	else
		reply_status(exchange, 503, "ServiceUnavailable", "the definition of the type keeps changing",
					 &(StatusDetails) {.retry_after_seconds = 1});
}

static void
reply_partial(Exchange *exchange)
{
	reply_status(exchange, 500, "InternalError", "Internal error occurred: a batch was answered in part", NULL);
}

/* Answers each member with its element of the result. */
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
		Member	   *write = batch->writes[i];
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
		exchange_release(write->exchange);
		if (there && pg_array_int4(code) == -1)
		{
			member_costs(write);
			continue;
		}
		if (there && pg_array_int4(code) == 0)
		{
			member_moved(write->exchange);
			continue;
		}
		if (!there || pg_array_int4(code) < 200 || pg_array_int4(code) > 599)
		{
			reply_partial(write->exchange);
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
		feed_channel_written(batch->lane->lane, newest);
}

/*
 * A batch that failed for one of its writes is sent again as batches of one write.  A batch that the server rolled back
 * for another transaction, such as a deadlock's victim, is sent again once.  Otherwise the clients get the error.
 */
static void
batch_fail(Batch *batch, PgOutcome outcome, const PgError *error)
{
	bool		conflict = outcome == PG_FAILED && error != NULL &&
	(strcmp(error->sqlstate, "40P01") == 0 || strcmp(error->sqlstate, "40001") == 0);
	bool		divide = batch->count > 1 && !reply_is_transient(outcome, error);

	/* Insert backwards, so that the writes keep their order at the front of the queue. */
	for (size_t i = batch->count; i-- > 0;)
	{
		Member	   *write = batch->writes[i];

		if (write == NULL)
			continue;
		if (divide || (conflict && !write->conflicted))
		{
			write->alone |= divide;
			write->conflicted |= conflict;
			waiting_insert(write, true);
		}
		else
		{
			exchange_release(write->exchange);
			batch->writes[i] = NULL;
			reply_outcome(write->exchange, outcome, error);
		}
	}
}

static void
lane_gathered(void *state)
{
	BatchLane  *lane = state;

	lane->expected = 0;
	lane->rests = GATHER_RESTS;
	lane_ready(lane);
}

/*
 * Waits a moment after a batch before the next one is sent.  Most clients send the next write when they have the answer
 * to the last one.  In that moment the clients of the batch send their next writes, which join the writes that already
 * wait, in one batch.  Without the wait, the two groups of clients would take turns for ever, in batches of half the
 * size, each with its own commit.  The moment is a part of the time that the batch took.  If too few writes arrived in
 * it, these clients do not send at once, and the next batches wait for GATHER_MS only, for as many writes as the last
 * batch had.
 */
static void
lane_gather(BatchLane *lane, size_t count)
{
	uint64_t	wait = (loop_now() - lane->sent) / GATHER_SHARE;

	if (lane->rests > 0)
		lane->rests--;
	else
		count += lane->waiting;
	if (count <= 1)
		return;
	if (lane->rests > 0 || wait < GATHER_MS)
		wait = GATHER_MS;
	lane->expected = count < BATCH_WRITES ? count : BATCH_WRITES;
	loop_timer_start(&lane->gather, wait < GATHER_MOST_MS ? wait : GATHER_MOST_MS, lane_gathered, lane);
}

/* Adds the database times to the log lines of the members: each waited for the batch before, then for this call. */
static void
batch_note_times(const Batch *batch)
{
	PgTimes		times = pg_times();
	uint64_t	now = loop_microseconds();

	for (size_t i = 0; i < batch->count; i++)
	{
		const Member *write = batch->writes[i];

		if (write != NULL)
			http_add_database_time(write->exchange->http,
								   (double) (now - write->waits_since) / 1e6 - times.taken, times.taken);
	}
}

/* A batch has ended: its lane may send the next one. */
static void
batch_over(const Batch *batch, PgOutcome outcome)
{
	BatchLane  *lane = batch->lane;

	if (batch->costly)
		return;
	lane->batch = NULL;
	lane->hangs = false;
	loop_timer_stop(&lane->patience);
	if (outcome == PG_OK)
		lane_gather(lane, batch->count);
}

static void
batch_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Batch	   *batch = state;
	BatchLane  *lane = batch->lane;

	batch_over(batch, outcome);
	batch_note_times(batch);
	if (outcome == PG_OK)
		batch_answer(batch, result);
	else
		batch_fail(batch, outcome, error);
	pg_result_free(result);
	if (batch->costly)
		costly_rest();
	free(batch);
	lane_ready(lane);
}

/* ---------- batches that the proxy decides ---------- */

static void
member_decided(void *state, size_t index, const DialogueAnswer *answer)
{
	Batch	   *batch = state;
	Member	   *write = batch->writes[index];
	Exchange   *exchange;
	Reply		reply = {
		.code = answer->code, .content_type = "application/json",
		.retry_after = answer->retry_after, .body = answer->body
	};

	if (answer->version > 0)
		feed_channel_written(batch->lane->lane, answer->version);
	if (write == NULL)
		return;
	exchange = write->exchange;
	batch->writes[index] = NULL;
	exchange_release(exchange);
	http_add_database_time(exchange->http, (double) (batch->sent - write->waits_since) / 1e6,
						   (double) (loop_microseconds() - batch->sent) / 1e6);
	switch (answer->code)
	{
		case DIALOGUE_COSTS:
			member_costs(write);
			return;
		case DIALOGUE_MOVED:
			member_moved(exchange);
			return;
		case DIALOGUE_STALE:
			member_stale(exchange);
			return;
		default:
			break;
	}
	if (answer->body.bytes == NULL || answer->code < 200 || answer->code > 599)
	{
		reply_partial(exchange);
		return;
	}
	if (answer->warnings != NULL)
	{
		reply.warning_count = answer->warnings->u.array.count;
		reply.warnings = arena_alloc(&exchange->arena, (reply.warning_count + 1) * sizeof(JsonText));
		for (size_t i = 0; i < reply.warning_count; i++)
			reply.warnings[i] = answer->warnings->u.array.items[i]->u.string;
	}
	reply_send(exchange, &reply, NULL);
}

static void
dialogue_over(void *state, PgOutcome outcome, const PgError *error)
{
	Batch	   *batch = state;
	BatchLane  *lane = batch->lane;

	batch_over(batch, outcome);
	if (outcome != PG_OK)
		batch_fail(batch, outcome, error);
	if (batch->costly)
		costly_rest();
	free(batch);
	lane_ready(lane);
}

static void
batch_decide(Batch *batch)
{
	DialogueWrite writes[BATCH_WRITES];

	for (size_t i = 0; i < batch->count; i++)
	{
		const Exchange *exchange = batch->writes[i]->exchange;

		writes[i] = (DialogueWrite) {
			.registry = exchange->registry, .type = exchange->type,
			.create = strcmp(exchange->route->verb, "create") == 0,
			.namespace_name = exchange->route->namespace_name, .name = exchange->route->name,
			.namespace_uid = exchange->namespace_uid,
			.request = exchange->request, .document = batch->writes[i]->body
		};
	}
	dialogue_start(writes, batch->count, batch->costly, member_decided, dialogue_over, batch);
}

/* ---------- a lane ---------- */

static void
refuse_to_wait(Exchange *exchange)
{
	static const PgError lock_not_available = {"55P03", "the batch before does not end", NULL};

	reply_outcome(exchange, PG_FAILED, &lock_not_available);
}

/* The batch in flight has taken longer than the lock timeout: refuses the writes that wait behind it. */
static void
lane_hangs(void *state)
{
	BatchLane  *lane = state;

	lane->hangs = true;
	while (lane->first != NULL)
	{
		Exchange   *exchange = lane->first->exchange;

		waiting_remove(lane->first);
		exchange_release(exchange);
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
batch_add(Batch *batch, Member *write)
{
	write->batch = batch;
	write->index = batch->count;
	batch->writes[batch->count++] = write;
}

static void
batch_send(Batch *batch)
{
	JsonText	requests[BATCH_WRITES];
	JsonText	bodies[BATCH_WRITES];
	PgCall	   *call;

	metrics_count(COUNTER_BATCHES, 1);
	metrics_count(COUNTER_BATCHED_WRITES, batch->count);
	batch->sent = loop_microseconds();
	if (pg_variant() == PG_VARIANT_SQL)
	{
		batch_decide(batch);
		return;
	}
	call = pg_call_new(PG_WRITE);
	for (size_t i = 0; i < batch->count; i++)
	{
		requests[i] = batch->writes[i]->exchange->request;
		bodies[i] = batch->writes[i]->body;
	}
	pg_add_text_array(call, requests, batch->count);
	pg_add_bytea_array(call, bodies, batch->count);
	pg_add_int4(call, batch->costly);
	pg_send(call, false, (uint64_t) config.request_timeout * 1000, batch_done, batch);
}

static void
lane_send(BatchLane *lane)
{
	Batch	   *batch;
	size_t		size = 0;
	size_t		looked = 0;
	Member	   *next;

	if (lane->first == NULL)
		return;
	batch = allocate(sizeof(Batch));
	batch->lane = lane;
	for (Member *write = lane->first; write != NULL && batch->count < BATCH_WRITES &&
		 looked++ < LOOK_AHEAD; write = next)
	{
		next = write->next;

		/* A write that must be alone or does not fit starts a later batch; no write overtakes it. */
		if (batch->count > 0 && (write->alone || size + write_size(write) > BATCH_BYTES))
			break;
		if (batch_has_key(batch, write->key))
			continue;
		waiting_remove(write);
		size += write_size(write);
		batch_add(batch, write);
		if (write->alone)
			break;
	}
	lane->batch = batch;
	lane->sent = loop_now();
	loop_timer_start(&lane->patience, PATIENCE_MS, lane_hangs, lane);
	batch_send(batch);
}

static void
lane_deferred(void *state)
{
	BatchLane  *lane = state;

	lane->deferred = false;
	if (lane->batch == NULL)
		lane_send(lane);
}

/* A batch is sent at the end of a loop iteration, with all writes of that iteration.  An idle lane does not wait. */
static void
lane_ready(BatchLane *lane)
{
	if (lane->batch != NULL || lane->first == NULL || lane->deferred || lane->waiting < lane->expected)
		return;
	loop_timer_stop(&lane->gather);
	lane->expected = 0;
	lane->deferred = true;
	loop_defer(lane_deferred, lane);
}

/* ---------- costly writes ---------- */

/* Returns the number of the turn in which a user was last served; 0 when that is not among the last COSTLY_WRITES. */
static size_t
costly_last_turn(uint64_t user)
{
	for (size_t back = 1; back <= COSTLY_WRITES && back <= costly.turn; back++)
	{
		if (costly.served[(costly.turn - back) % COSTLY_WRITES] == user)
			return costly.turn - back + 1;
	}
	return 0;
}

/* Returns the oldest waiting write of the user whose last turn is longest ago; NULL when no write waits. */
static Member *
costly_next(void)
{
	Member	   *best = NULL;
	size_t		best_turn = 0;

	for (Member *write = costly.first; write != NULL; write = write->next)
	{
		size_t		turn = costly_last_turn(write->user);

		if (best == NULL || turn < best_turn)
		{
			best = write;
			best_turn = turn;
		}
	}
	return best;
}

static void
costly_rested(void *state)
{
	costly.busy = false;
	costly_ready();
}

/* Pauses as long as the last write took, so that other work gets at least half of the database's time. */
static void
costly_rest(void)
{
	uint64_t	took = loop_now() - costly.begun;

	loop_timer_start(&costly.rest, took < COSTLY_REST_MS ? took : COSTLY_REST_MS, costly_rested, NULL);
}

static void
costly_ready(void)
{
	Member	   *write;
	Batch	   *batch;

	if (costly.busy || (write = costly_next()) == NULL)
		return;
	waiting_remove(write);
	costly.served[costly.turn++ % COSTLY_WRITES] = write->user;
	costly.busy = true;
	costly.begun = loop_now();
	write->tries++;
	batch = allocate(sizeof(Batch));
	batch->lane = write->lane;
	batch->costly = true;
	batch_add(batch, write);
	metrics_count(COUNTER_COSTLY_WRITES, 1);
	batch_send(batch);
}

static bool
costly_full(const Member *write)
{
	size_t		factor = write->exchange->exempt ? EXEMPT_FACTOR : 1;
	size_t		of_user = 0;

	for (const Member *other = costly.first; other != NULL; other = other->next)
		of_user += other->user == write->user;
	return costly.waiting >= COSTLY_WRITES * factor || costly.bytes >= COSTLY_WAITING_BYTES * factor ||
		of_user >= COSTLY_OF_USER * factor;
}

/* Adds a write, which must be in no queue, to the costly queue; answers with 429 when the queue is full. */
static void
costly_insert(Member *write)
{
	write->costly = true;
	if (costly_full(write))
	{
		reply_too_many_requests(write->exchange);
		return;
	}
	exchange_hold(write->exchange, write, member_detach, NULL);
	waiting_insert(write, false);
	costly_ready();
}

/*
 * Moves a write to the costly queue, or answers with 409 after COSTLY_TRIES.  The store has not executed the write, for
 * one of two reasons: the write is costly and was sent with others, or another writer changed the object meanwhile.
 */
static void
member_costs(Member *write)
{
	Exchange   *exchange = write->exchange;
	const RegistryType *type = exchange->type;

	if (write->tries < COSTLY_TRIES)
	{
		costly_insert(write);
		return;
	}
	reply_status(exchange, 409, "Conflict",
				 arena_printf(&exchange->arena,
							  "Operation cannot be fulfilled on %s.%s %s: the object has been modified; "
							  "please apply your changes to the latest version and try again",
							  type->resource, type->group, quoted(&exchange->arena, exchange->route->name)),
				 &(StatusDetails) {.name = exchange->route->name, .group = type->group, .kind = type->resource});
}

/* ---------- a write ---------- */

static void
member_identify(Member *write)
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
	/* A collision only keeps two objects out of the same batch. */
	write->key = hash_bytes(HASH_SEED, route->namespace_name, strlen(route->namespace_name) + 1);
	write->key = hash_bytes(write->key, name.bytes, name.len) | 1;
}

void
batch_write(Exchange *exchange)
{
	Member	   *write;
	BatchLane  *lane = lane_find(exchange->type->lane);
	size_t		factor = exchange->exempt ? EXEMPT_FACTOR : 1;

	if (lane->hangs)
	{
		refuse_to_wait(exchange);
		return;
	}
	write = arena_alloc0(&exchange->arena, sizeof(Member));
	write->exchange = exchange;
	write->lane = lane;
	write->body = exchange->body;
	write->user = hash_bytes(HASH_SEED, exchange->user->name, strlen(exchange->user->name));
	if (write->body.len > COSTLY_BYTES)
	{
		costly_insert(write);
		return;
	}
	if (waiting_writes >= WAITING_WRITES * factor || waiting_bytes >= WAITING_BYTES * factor)
	{
		reply_too_many_requests(exchange);
		return;
	}
	member_identify(write);
	exchange_hold(exchange, write, member_detach, NULL);
	waiting_insert(write, false);
	lane_ready(lane);
}
