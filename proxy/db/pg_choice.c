/*-------------------------------------------------------------------------
 *
 * pg_choice.c
 *	  Chooses the connection of a pool for a call.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_choice.h"

CallRank
call_rank(const PgCall *call)
{
	return !pg_statements[call->statement].brief ? RANK_LASTING : call->urgent ? RANK_URGENT : RANK_BRIEF;
}

/* Returns the lowest rank of the calls on a connection; RANK_COUNT when there are none. */
static CallRank
connection_rank(const Connection *connection)
{
	CallRank	lowest = RANK_COUNT;

	for (size_t s = 0; s < connection->step_count; s++)
	{
		const PgCall *call = connection->steps[(connection->first_step + s) % STEP_LIMIT].call;

		if (call != NULL && call_rank(call) < lowest)
			lowest = call_rank(call);
	}
	return lowest;
}

/* A call that takes longer than this may wait for a lock: other calls avoid its connection. */
#define SLOW_MS 500

/* Whether a connection may take another brief read: not when its present call was abandoned or is slow. */
static bool
connection_takes_more(const Connection *connection)
{
	if (connection->call_count >= PIPELINE_DEPTH)
		return false;
	for (size_t s = 0; s < connection->step_count; s++)
	{
		const PgCall *call = connection->steps[(connection->first_step + s) % STEP_LIMIT].call;

		if (call != NULL && (call->done == NULL || loop_now() - call->queued_at > SLOW_MS))
			return false;
	}
	return true;
}

static bool
connection_up(const Connection *connection)
{
	return connection->state == CONNECTION_READY && !connection->doomed;
}

/*
 * Whether a connection can take calls: not while a call is being cancelled, because the request might hit the next one.
 */
static bool
connection_ready(const Connection *connection)
{
	return connection_up(connection) && connection->victim == NULL && connection->interrupt == NULL;
}

/*
 * Returns the number of connections that may have calls of this rank or lower ranks.  Lists must not starve gets, and
 * lists and gets must not starve the feeds, on which watches and readyz depend.  So one open connection is kept from
 * lists, and another one from lists and gets.
 */
static int
rank_limit(const Pool *pool, CallRank rank)
{
	int			kept = pool->kept - (int) rank;

	return kept <= 0 ? pool->ready : pool->ready - kept < 1 ? 1 : pool->ready - kept;
}

Connection *
pool_choose(const Pool *pool, CallRank rank, Connection **closed)
{
	Connection *best = NULL;
	int			taken[RANK_COUNT] = {0};	/* connections that have a call of this rank or a lower one */

	*closed = NULL;
	for (int i = 0; i < pool->count; i++)
	{
		if (connection_up(&pool->connections[i]))
			for (CallRank k = connection_rank(&pool->connections[i]); k < RANK_COUNT; k++)
				taken[k]++;
	}
	for (int i = 0; i < pool->count; i++)
	{
		Connection *connection = &pool->connections[i];
		CallRank	lowest = connection_rank(connection);
		bool		fits = true;

		if (connection->state == CONNECTION_CLOSED && !connection->wanted)
			*closed = connection;
		if (!connection_ready(connection))
			continue;
		for (CallRank k = rank; k < lowest; k++)
			fits = fits && taken[k] < rank_limit(pool, k);
		if (!fits)
			continue;
		if (connection->call_count == 0)
		{
			*closed = NULL;
			return connection;
		}
		if (rank == RANK_LASTING || lowest == RANK_LASTING || !connection_takes_more(connection))
			continue;
		/* An urgent call does not wait behind slower calls, which might hang: a connection is kept for urgent calls. */
		if (lowest < rank && pool->ready > 1)
			continue;
		if (best == NULL || connection->call_count < best->call_count)
			best = connection;
	}
	return best;
}

bool
pool_owes_idle(const Pool *pool)
{
	int			taken = 0;

	for (int i = 0; i < pool->count; i++)
		taken += connection_up(&pool->connections[i]) && connection_rank(&pool->connections[i]) == RANK_LASTING;
	return taken < rank_limit(pool, RANK_LASTING);
}
