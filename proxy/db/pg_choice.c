/*-------------------------------------------------------------------------
 *
 * pg_choice.c
 *	  Which connection of a pool a call goes to.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_choice.h"

CallRank
call_rank(const PgCall *call)
{
	return !pg_statements[call->statement].brief ? RANK_LASTING : call->urgent ? RANK_URGENT : RANK_BRIEF;
}

/* The lowest rank of the calls on a connection; RANK_COUNT when there are none. */
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

/* A call that is not answered after so long may wait for a lock: others go elsewhere. */
#define SLOW_MS 500

/*
 * Whether another brief read may follow those on a connection: not behind one that nobody waits for, or that takes
 * long.
 */
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

/* What is sent while a call is being stopped might be stopped in its place. */
static bool
connection_ready(const Connection *connection)
{
	return connection_up(connection) && connection->victim == NULL && connection->interrupt == NULL;
}

/*
 * On how many connections there may be calls of this rank or lower ones.  Lists must not starve gets, and neither of
 * them the feeds, whose answers are what watches and readyz wait for: of those that are up, one is kept for each.
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
	int			taken[RANK_COUNT] = {0};	/* connections with a call of this rank or a lower one */

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
		/* The feeds have one of their own, and what is before them on another might hang. */
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
