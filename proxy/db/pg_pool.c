/*-------------------------------------------------------------------------
 *
 * pg_pool.c
 *	  Calls of the extension's functions over a pool of connections.
 *
 * This file owns the pools and their queues, and sends each waiting call over
 * a connection that pg_choice.c chooses.  A sweep every 100 ms ends
 * connections, attempts to connect and calls whose time is over.
 *
 * Threads do two things that libpq does only by blocking: resolving host names
 * (pg_resolve.c) and cancelling queries (pg_interrupt.c).
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "db/pg.h"
#include "db/pg_choice.h"
#include "db/pg_connect.h"
#include "db/pg_pipeline.h"
#include "db/pg_stall.h"

#define QUEUE_LIMIT 1000		/* limit of the calls that wait in the queue of a pool */
#define EXEMPT_LIMIT 1000		/* further places in the queue, for system:masters */
#define ROOMLESS_LIMIT 250		/* limit of the calls that wait for room for their answers */
#define ROOMLESS_MS 10000		/* how long a call may wait for room */
#define ROOMLESS_LOG_MS 5000	/* shortest time between two log lines about refusals for lack of room */
#define TURN_LIMIT 64			/* limit of the calls of one sender that wait in the queue of a pool */
#define SWEEP_MS 100
#define AWAY_MS 2000			/* how long a call waits for a connection to come back */
/* lock_timeout of sessions.  Functions that write, and steps of upkeep that must not wait, set a value of their own. */
#define READ_LOCK_TIMEOUT "3s"
#define WRITE_LOCK_TIMEOUT "5s"
#define UPKEEP_LOCK_TIMEOUT "0"

static Pool reads;
static Pool writes;
static Pool standby;			/* no connections without --read-database */
static Pool *const pools[] = {&reads, &writes, &standby};

#define POOLS (sizeof(pools) / sizeof(pools[0]))

static LoopTimer sweep_timer;

/* ---------- the queue ---------- */

static Pool *
call_pool(const PgCall *call)
{
	if (call->standby)
		return &standby;
	return pg_statements[call->statement].writes ? &writes : &reads;
}

static void
calls_insert(Pool *pool, PgCall *call, bool front)
{
	if (!call->urgent)
	{
		pool->waiting++;
		metrics_gauge_add(GAUGE_DB_QUEUED, 1);
	}
	answer_room_hold(&call->holding, 0);
	call->connection = NULL;
	call->previous = front ? NULL : pool->last;
	call->next = front ? pool->first : NULL;
	if (call->previous != NULL)
		call->previous->next = call;
	else
		pool->first = call;
	if (call->next != NULL)
		call->next->previous = call;
	else
		pool->last = call;
}

void
pool_requeue(Pool *pool, PgCall *call)
{
	calls_insert(pool, call, true);
}

static void
calls_remove(Pool *pool, PgCall *call)
{
	if (!call->urgent)
	{
		pool->waiting--;
		metrics_gauge_add(GAUGE_DB_QUEUED, -1);
	}
	if (call->previous != NULL)
		call->previous->next = call->next;
	else
		pool->first = call->next;
	if (call->next != NULL)
		call->next->previous = call->previous;
	else
		pool->last = call->previous;
	call->previous = call->next = NULL;
}

/* ---------- turns ---------- */

/*
 * The database stores one batch of a cluster at a time.  If a sender sent many at once, they would take all connections
 * and wait there for each other.
 */
void
pg_in_turn(PgCall *call, uint64_t turn)
{
	call->turn = turn;
}

/* Whether a connection has a call of this turn. */
static bool
turn_is_taken(const Pool *pool, uint64_t turn)
{
	for (int i = 0; i < pool->count; i++)
	{
		const Connection *connection = &pool->connections[i];

		for (size_t step = 0; step < connection->step_count; step++)
		{
			const PgCall *call = connection->steps[(connection->first_step + step) % STEP_LIMIT].call;

			if (call != NULL && call->turn == turn)
				return true;
		}
	}
	return false;
}

static bool
turn_is_full(const Pool *pool, uint64_t turn)
{
	size_t		waiting = 0;

	for (const PgCall *call = pool->first; call != NULL; call = call->next)
		waiting += call->turn == turn;
	return waiting >= TURN_LIMIT;
}

/* Moves the waiting calls of a turn behind all others. */
static void
turn_pass(Pool *pool, uint64_t turn)
{
	const PgCall *last = pool->last;
	bool		more = last != NULL;
	PgCall	   *next;

	for (PgCall *call = pool->first; more; call = next)
	{
		more = call != last;
		next = call->next;
		if (call->turn != turn)
			continue;
		calls_remove(pool, call);
		calls_insert(pool, call, false);
	}
}

/* ---------- sending ---------- */

/* Refuses a call because too many answer bytes are held for clients. */
static void
call_refuse_roomless(PgCall *call)
{
	static uint64_t logged_at;
	uint64_t	now = loop_now();

	pg_call_refuse(call, PG_BUSY, NULL);
	metrics_count(COUNTER_ANSWERS_REFUSED, 1);
	if (logged_at != 0 && now - logged_at < ROOMLESS_LOG_MS)
		return;
	logged_at = now;
	log_line(LOG_ERROR, "answers are refused: too many bytes are held for clients (--max-buffered-answer-bytes)");
}

/* Refuses a call because no connection of the pool is ready. */
static void
pool_refuse(const Pool *pool, PgCall *call)
{
	if (pool->refusal != NULL)
		pg_call_refuse(call, PG_FAILED, pool->refusal);
	else
		pg_call_refuse(call, PG_AWAY, NULL);
}

static bool
call_is_lasting(const PgCall *call)
{
	return !pg_statements[call->statement].brief;
}

static void
dispatch_run(void *state)
{
	pool_dispatch(state);
}

/* Answer bytes were released: waiting calls may have room now. */
static void
dispatch_all(void *state)
{
	for (size_t i = 0; i < POOLS; i++)
		pool_dispatch(pools[i]);
}

void
pg_answer_for(PgCall *call, uint64_t user)
{
	call->holding.user = user;
	call->room = answer_room_expected(pg_answer_bytes[call->statement]);
}

void
pg_send(PgCall *call, bool urgent, uint64_t timeout_ms, PgDone done, void *state)
{
	Pool	   *pool = call_pool(call);

	call->urgent = urgent;
	call->done = done;
	call->state = state;
	call->queued_at = loop_now();
	call->deadline = call->queued_at + timeout_ms;

	if (pool->away_since != 0 && call->queued_at - pool->away_since > AWAY_MS)
		pool_refuse(pool, call);
	else if (!urgent && pool->waiting >= (call->exempt ? QUEUE_LIMIT + EXEMPT_LIMIT : QUEUE_LIMIT))
		pg_call_refuse(call, PG_BUSY, NULL);
	else if (call->turn != 0 && turn_is_full(pool, call->turn))
		pg_call_refuse(call, PG_BUSY, NULL);
	else if (call->room > 0 && pool->waiting >= (call->exempt ? 2 * ROOMLESS_LIMIT : ROOMLESS_LIMIT) &&
			 !answer_room_ask(call->holding.user, call->room, call_is_lasting(call)))
		call_refuse_roomless(call);
	else
	{
		calls_insert(pool, call, urgent);
		pool_dispatch(pool);
	}
}

void
pg_cancel(PgCall *call)
{
	call->done = NULL;
	if (call->refused)
		return;
	if (call->connection == NULL)
	{
		calls_remove(call_pool(call), call);
		pg_call_free(call);
	}
	else
		call->abandoned_at = loop_now();
}

/* ---------- the pool ---------- */

static void
names_resolved(void *state)
{
	for (size_t i = 0; i < POOLS; i++)
		if (pools[i]->target != NULL && (pools[i] == &standby) == (state == &standby))
			pool_resolved(pools[i], true);
}

void
pool_dispatch(Pool *pool)
{
	bool		blocked[RANK_COUNT] = {false};
	PgCall	   *next;

	for (PgCall *call = pool->first; call != NULL; call = next)
	{
		CallRank	rank = call_rank(call);
		uint64_t	turn = call->turn;
		Connection *connection;
		Connection *closed;

		next = call->next;
		if (blocked[rank] || (call->turn != 0 && turn_is_taken(pool, call->turn)))
			continue;
		call->roomless = call->room > 0 && !answer_room_ask(call->holding.user, call->room, rank == RANK_LASTING);
		if (call->roomless)
			continue;
		connection = pool_choose(pool, rank, &closed);
		/* All connections are busy: open one more, for this call or the next. */
		if (closed != NULL && pool->ready > 0)
			connection_open(closed);
		if (connection != NULL)
		{
			calls_remove(pool, call);
			answer_room_hold(&call->holding, call->room);
			connection_send(connection, call);
			if (turn != 0)
			{
				turn_pass(pool, turn);
				next = pool->first;
			}
			continue;
		}
		blocked[rank] = true;
		/* A list needs an idle connection.  If brief reads overtook the list, no connection would become idle. */
		if (rank == RANK_LASTING && pool_owes_idle(pool))
			blocked[RANK_BRIEF] = true;
		if (blocked[RANK_LASTING] && blocked[RANK_BRIEF] && blocked[RANK_URGENT])
			return;
	}
}

static void
pool_sweep(Pool *pool)
{
	uint64_t	now = loop_now();
	bool		away = pool->away_since != 0 && now - pool->away_since > AWAY_MS;
	PgCall	   *next;

	if (pool->target != NULL)
		pool_resolved(pool, false);
	for (int i = 0; i < pool->count; i++)
	{
		Connection *connection = &pool->connections[i];

		if (connection->state == CONNECTION_CLOSED && !connection->doomed)
			continue;
		if (!connection->doomed && connection->state != CONNECTION_READY && now > connection->connect_deadline)
			connection_doom(connection, "timeout while connecting");
		if (connection->state == CONNECTION_READY)
			connection_check_calls(connection, now);
		if (connection->doomed)
			connection_end(connection);
	}
	for (PgCall *call = pool->first; call != NULL; call = next)
	{
		next = call->next;
		if (call->roomless && now - call->queued_at > ROOMLESS_MS)
		{
			calls_remove(pool, call);
			call_refuse_roomless(call);
			continue;
		}
		if (now <= call->deadline && !(away && now - call->queued_at > AWAY_MS))
			continue;
		calls_remove(pool, call);
		if (now > call->deadline)
			pg_call_refuse(call, PG_EXPIRED, NULL);
		else
			pool_refuse(pool, call);
	}
	/* The remaining calls ask for room again. */
	pool_dispatch(pool);
}

static void
sweep(void *state)
{
	for (size_t i = 0; i < POOLS; i++)
		pool_sweep(pools[i]);
	loop_timer_start(&sweep_timer, SWEEP_MS, sweep, NULL);
}

static void
pool_start(Pool *pool, const char *database, PgTarget *target, int count, int kept, MetricGauge use,
		   const char *lock_timeout)
{
	pool->database = database;
	pool->standby = pool == &standby;
	pool->for_writes = pool == &writes;
	pool->target = target;
	pool->use = use;
	pool->lock_timeout = lock_timeout;
	pool->open = connection_open;
	pool->kept = kept;
	pool->count = count;
	pool->connections = calloc((size_t) count, sizeof(Connection));
	if (pool->connections == NULL)
		abort();
	pool->away_since = loop_now() > 0 ? loop_now() : 1;
	for (int i = 0; i < count; i++)
		pool->connections[i].pool = pool;
	connection_open(&pool->connections[0]);
	loop_defer(dispatch_run, pool);
}

void
pg_init(void)
{
	pg_check_connection_string("database", config.database);
	pg_check_connection_string("read-database", config.read_database);
	pg_targets_init();
}

void
pg_start_worker(int worker)
{
	int			shared = config.connections - FEED_CONNECTIONS - (config.upkeep ? UPKEEP_CONNECTIONS : 0);
	int			mine = shared / config.workers + (worker < shared % config.workers);
	int			for_writes = mine > 4 ? 2 : 1;
	int			for_reads = mine - for_writes;
	PgTarget   *target = pg_target_new(config.database, false, names_resolved, &reads);

	pg_announces = worker == 0;
	pool_start(&reads, config.database, target, for_reads, for_reads > 2 ? 2 : 1, GAUGE_DB_READS, READ_LOCK_TIMEOUT);
	pool_start(&writes, config.database, target, for_writes, 0, GAUGE_DB_WRITES, WRITE_LOCK_TIMEOUT);
	if (config.read_database[0] != '\0')
		pool_start(&standby, config.read_database, pg_target_new(config.read_database, true, names_resolved, &standby),
				   for_reads > 2 ? for_reads - 1 : 2, 1, GAUGE_DB_STANDBY, READ_LOCK_TIMEOUT);
	loop_timer_start(&sweep_timer, SWEEP_MS, sweep, NULL);
	answer_room_on_release(dispatch_all, NULL);
}

void
pg_start_receiver(void)
{
	PgTarget   *target = pg_target_new(config.database, false, names_resolved, &reads);

	pg_announces = true;
	pool_start(&reads, config.database, target, 1, 0, GAUGE_DB_READS, READ_LOCK_TIMEOUT);
	pool_start(&writes, config.database, target, config.connections - 1, 0, GAUGE_DB_WRITES, WRITE_LOCK_TIMEOUT);
	loop_timer_start(&sweep_timer, SWEEP_MS, sweep, NULL);
	answer_room_on_release(dispatch_all, NULL);
}

/*
 * The connection for writes serves the steps of upkeep.c, each of which may take some seconds.  The connection for
 * reads serves webhooks and other work that must not wait for the steps.
 */
void
pg_start_upkeep(void)
{
	PgTarget   *target = pg_target_new(config.database, false, names_resolved, &reads);

	pg_stall_watch();
	pool_start(&reads, config.database, target, 1, 0, GAUGE_DB_UPKEEP, UPKEEP_LOCK_TIMEOUT);
	pool_start(&writes, config.database, target, 1, 0, GAUGE_DB_UPKEEP, UPKEEP_LOCK_TIMEOUT);
	loop_timer_start(&sweep_timer, SWEEP_MS, sweep, NULL);
}

void
pg_start_feed(void)
{
	PgTarget   *target = pg_target_new(config.database, false, names_resolved, &reads);

	pool_start(&reads, config.database, target, FEED_CONNECTIONS, 0, GAUGE_DB_FEED, READ_LOCK_TIMEOUT);
	loop_timer_start(&sweep_timer, SWEEP_MS, sweep, NULL);
}

bool
pg_standby_ready(void)
{
	return standby.ready > 0;
}

void
pg_use_standby(PgCall *call)
{
	call->standby = true;
}

void
pg_exempt(PgCall *call)
{
	call->exempt = true;
}

bool
pg_connected(const char **why)
{
	if (why != NULL)
		*why = connection_trouble();
	return reads.ready > 0;
}
