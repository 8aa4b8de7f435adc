/*-------------------------------------------------------------------------
 *
 * feed_reader.c
 *	  The feed process: reads the change log once for all workers.
 *
 * It reads the lanes that a worker follows, in all representations that a
 * worker needs, and writes what it has read to the ring of feed_channel.h.
 *
 * One api_poll asks for the newest versions of all these lanes.  A lane that
 * moved is read by api_changes, one call at a time.  An empty answer means
 * that everything was read up to the version of the previous poll, even if
 * that version has no row any more.  A version from a writer of this proxy
 * makes the process read, but does not move the position: the database server
 * of that write may have failed before its standby received the write.
 *
 * All events of an answer are written to the ring before the next call.  While
 * the ring has no room, nothing is read: the log keeps the changes.
 *
 *-------------------------------------------------------------------------
 */
#include "api/feed_reader.h"

#include <stdlib.h>
#include <string.h>

#include "api/feed_channel.h"
#include "api/registry.h"
#include "base/allocate.h"
#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "db/pg.h"

#define LANE_REPRESENTATIONS 64 /* representations in use in one lane, for all workers together */
#define ROWS_MOST 200			/* rows of one api_changes call */
#define ANSWER_BYTES (4 * 1024 * 1024)	/* after a larger answer, the next call asks for fewer rows */
#define RETRY_MS 500
#define CALL_TIMEOUT_MS 5000
#define ROOM_MS 2				/* time between two checks whether the ring has room */

typedef struct Lane
{
	int			lane;
	int			place;			/* place of the lane in the channel (feed_channel.h) */
	bool		followed;		/* a worker follows the lane */
	int64_t		position;		/* everything up to it was read; -1: not known yet */
	int64_t		told;			/* everything up to it is in the ring */
	int64_t		wanted;			/* newest version that polls and writers reported: if above position, read */
	int64_t		polled;			/* result of the last poll */
	int64_t		asked_wanted;	/* wanted and polled when the call in flight was sent */
	int64_t		asked_polled;
	int64_t		polled_position;	/* position when the poll in flight was sent; INT64_MIN: not part of it */
	int64_t		behind;			/* a version below the position that api_changes accepted */
	int64_t		lost;			/* version where the log begins, until the workers were told; -1: nothing is lost */
	bool		check;			/* call api_changes even if wanted is not newer */
	bool		announce;		/* tell the workers which representations are in use */
	PgCall	   *call;
	uint64_t	not_before;		/* after a failure: time of the next try */
	int			rows;			/* number of rows that the next call asks for */
	int			asked_rows;
	int			uses[LANE_REPRESENTATIONS];
	size_t		use_count;
	int			wishes[LANE_REPRESENTATIONS];	/* while the boards are read: collects the next value of uses */
	size_t		wish_count;
	bool		wished;
	int			asked[LANE_REPRESENTATIONS];	/* representations of the call in flight */
	size_t		asked_count;
	Changes    *changes;		/* the answer that is being told */
	size_t		next_change;
	struct Lane *next;
} Lane;

static Lane *lanes;
static LoopTimer poll_timer;
static LoopTimer room_timer;
static PgCall *poll_call;
static bool wishes_complete;	/* all boards could be read */
static bool told_something;		/* since the workers were last woken */
static int64_t generation = -1;

static void lane_advance(Lane *lane);
static void poll_send(void *state);

/* ---------- telling ---------- */

/* Every function that the loop calls ends with this call. */
static void
wake_workers(void)
{
	if (told_something)
		feed_channel_wake();
	told_something = false;
}

static void
room_again(void *state)
{
	for (Lane *lane = lanes; lane != NULL; lane = lane->next)
		lane_advance(lane);
	wake_workers();
}

static void
wait_for_room(void)
{
	if (!room_timer.running)
		loop_timer_start(&room_timer, ROOM_MS, room_again, NULL);
}

static FeedTelling
tell(const FeedRecordHead *head, const Event *event, const int *representations, size_t count)
{
	FeedTelling telling = feed_channel_tell(head, event, representations, count);

	told_something = told_something || telling == FEED_TOLD;
	return telling;
}

/*
 * Writes an event to the ring.  False when the ring has no room.  Omits an event that is too large; workers see the
 * gap.
 */
static bool
tell_event(Lane *lane, const Event *event)
{
	FeedRecordHead head = {FEED_EVENT, lane->lane, lane->told, event->version};
	FeedTelling telling = tell(&head, event, NULL, 0);

	if (telling == FEED_NO_ROOM)
		return false;
	if (telling == FEED_TOO_LARGE)
		lane->announce = true;
	lane->position = lane->told = event->version;
	return true;
}

static bool
tell_state(Lane *lane)
{
	FeedRecordHead head = {FEED_STATE, lane->lane, lane->told, lane->position};

	if (tell(&head, NULL, lane->uses, lane->use_count) == FEED_NO_ROOM)
		return false;
	lane->told = lane->position;
	lane->announce = false;
	return true;
}

static bool
tell_lost(const Lane *lane, int64_t floor)
{
	FeedRecordHead head = {FEED_LOST, lane->lane, lane->told, floor};

	return tell(&head, NULL, NULL, 0) != FEED_NO_ROOM;
}

/* ---------- reading ---------- */

/*
 * The log no longer has the position: it was compacted, or the database lost its newest commits.  A watcher may be at
 * an older version that the log still has, so each watcher asks on its own.
 */
static void
lane_lost(Lane *lane, int64_t floor)
{
	if (lane->position > 0)
		log_line(LOG_WARNING, "lane %d: version %lld is lost, the log begins at %lld", lane->lane,
				 (long long) lane->position, (long long) floor);
	else
		/* The lane no longer exists, and its watches are about to end. */
		lane->not_before = loop_now() + RETRY_MS;
	lane->lost = floor;
	lane->position = lane->wanted = lane->polled = lane->behind = -1;
	lane->check = false;
}

/* Forgets the versions that polls and writers reported: another server may answer from now on. */
static void
lane_forget(Lane *lane)
{
	lane->wanted = lane->polled = lane->position;
	feed_channel_lane_written(lane->place);
}

/* All events of an answer are in the ring: moves the position. */
static void
lane_answer_told(Lane *lane)
{
	const Changes *changes = lane->changes;

	/*
	 * An answer may be cut by its size.  Only an empty answer means that nothing is left up to the version of the last
	 * poll.
	 */
	if (changes->count == 0)
	{
		int64_t		before = lane->position;

		if (lane->asked_polled > lane->position)
			lane->position = lane->asked_polled;
		if (lane->position == before && lane->check)
			lane->behind = lane->asked_polled;
		lane->check = false;
		/* Unless a newer version arrived meanwhile. */
		if (lane->wanted == lane->asked_wanted)
			lane->wanted = lane->position;
	}
	if (changes->count < (size_t) lane->asked_rows && lane->rows < ROWS_MOST)
		lane->rows *= 2;
	if (changes->size > ANSWER_BYTES && lane->rows > 1)
		lane->rows /= 2;
	if (lane->rows > ROWS_MOST)
		lane->rows = ROWS_MOST;
	changes_release(lane->changes);
	lane->changes = NULL;
}

static void
lane_read_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Lane	   *lane = state;

	lane->call = NULL;
	if (outcome != PG_OK)
	{
		/* A later poll starts the next try. */
		lane_forget(lane);
		lane->not_before = loop_now() + RETRY_MS;
		return;
	}
	lane->changes = changes_new(result, lane->lane, lane->asked, lane->asked_count);
	lane->next_change = 0;
	if (lane->changes->count > 0 && lane->changes->events[0].operation == 'X')
	{
		lane_lost(lane, lane->changes->events[0].version);
		changes_release(lane->changes);
		lane->changes = NULL;
	}
	else
		metrics_count(COUNTER_FEED_RENDERED, lane->changes->count * lane->asked_count);
	lane_advance(lane);
	wake_workers();
}

/* Calls api_changes if there may be versions above the position. */
static void
lane_read(Lane *lane)
{
	if (lane->call != NULL || lane->position < 0 || (lane->wanted <= lane->position && !lane->check) ||
		loop_now() < lane->not_before)
		return;
	/* Without the registry no object can be rendered.  The poll in progress reads the registry. */
	if (pg_variant() == PG_VARIANT_SQL && !registry_known())
		return;
	lane->asked_count = lane->use_count;
	for (size_t i = 0; i < lane->use_count; i++)
		lane->asked[i] = lane->uses[i];
	lane->asked_wanted = lane->wanted;
	lane->asked_polled = lane->polled;
	lane->asked_rows = lane->rows;
	lane->call = changes_call(lane->lane, lane->position, lane->uses, lane->use_count, lane->rows);
	pg_send(lane->call, true, CALL_TIMEOUT_MS, lane_read_done, lane);
}

/*
 * Takes the next step for a lane: writes what was read to the ring, then reads on.  The representations in use are
 * announced between two calls: all later events carry them.
 */
static void
lane_advance(Lane *lane)
{
	if (lane->call != NULL)
		return;
	if (lane->lost >= 0)
	{
		if (!tell_lost(lane, lane->lost))
		{
			wait_for_room();
			return;
		}
		lane->lost = lane->told = -1;
		feed_channel_lane_told(lane->place, -1);
	}
	while (lane->changes != NULL && lane->next_change < lane->changes->count)
	{
		const Event *event = &lane->changes->events[lane->next_change];

		if (event->version > lane->position && event->operation != 'X' && !tell_event(lane, event))
		{
			wait_for_room();
			return;
		}
		lane->next_change++;
	}
	if (lane->changes != NULL)
		lane_answer_told(lane);
	if (lane->position < 0)
		return;
	if ((lane->announce || lane->told != lane->position) && !tell_state(lane))
	{
		wait_for_room();
		return;
	}
	/* After the records: a record that is written twice does no harm. */
	feed_channel_lane_told(lane->place, lane->told);
	lane_read(lane);
}

static void
lane_want(Lane *lane, int64_t version)
{
	if (version > lane->wanted)
		lane->wanted = version;
	lane_advance(lane);
}

/* ---------- lanes ---------- */

static Lane *
lane_of(int number)
{
	Lane	   *lane = lanes;

	while (lane != NULL && lane->lane != number)
		lane = lane->next;
	return lane;
}

static Lane *
lane_add(int number, int place, int64_t position)
{
	Lane	  **end = &lanes;
	Lane	   *lane = allocate(sizeof(Lane));

	lane->lane = number;
	lane->place = place;
	lane->position = lane->told = lane->wanted = lane->polled = position;
	lane->behind = lane->lost = -1;
	lane->polled_position = INT64_MIN;
	lane->rows = ROWS_MOST;
	/* Append, because the answer of a poll under way is in the order of the list. */
	while (*end != NULL)
		end = &(*end)->next;
	*end = lane;
	return lane;
}

static void
add_use(int *uses, size_t *count, int representation)
{
	for (size_t i = 0; i < *count; i++)
	{
		if (uses[i] == representation)
			return;
	}
	/* Watches in a representation without a place read on their own. */
	if (representation >= 0 && *count < LANE_REPRESENTATIONS)
		uses[(*count)++] = representation;
}

/* A worker follows a lane: adds the lane if it is new, and collects the representations. */
static void
wish(int number, const JsonText *tokens, size_t count)
{
	Lane	   *lane = lane_of(number);

	if (lane == NULL)
	{
		int			place = feed_channel_lane_open(number);

		if (place < 0)
		{
			log_line(LOG_ERROR, "lane %d is not followed: too many lanes are watched", number);
			return;
		}
		lane = lane_add(number, place, -1);
	}
	lane->wished = true;
	for (size_t t = 0; t < count; t++)
		add_use(lane->wishes, &lane->wish_count, representation_number(tokens[t]));
}

/*
 * Reads all boards if one of them has changed.  A worker that has changed its board waits for the state of the lane.
 * The next poll ends lanes that no worker follows any more.
 */
static void
wishes_read(void)
{
	for (Lane *lane = lanes; lane != NULL; lane = lane->next)
		lane->wish_count = 0;
	if (!feed_channel_wishes(wish, &wishes_complete))
		return;
	for (Lane *lane = lanes; lane != NULL; lane = lane->next)
	{
		/* A board that could not be read may still need the representations. */
		for (size_t i = 0; !wishes_complete && i < lane->use_count; i++)
			add_use(lane->wishes, &lane->wish_count, lane->uses[i]);
		lane->followed = lane->wished || (!wishes_complete && lane->followed);
		lane->wished = false;
		memcpy(lane->uses, lane->wishes, sizeof(lane->uses));
		lane->use_count = lane->wish_count;
		lane->announce = true;
		lane_advance(lane);
	}
	/* The first watcher of a lane should not wait for the next poll. */
	for (const Lane *lane = lanes; lane != NULL; lane = lane->next)
	{
		if (lane->position < 0 && poll_call == NULL)
			loop_timer_start(&poll_timer, 0, poll_send, NULL);
	}
}

/*
 * Ends lanes that no worker follows.  FEED_LOST keeps a worker that follows such a lane later from taking old records
 * for new ones.
 */
static void
lanes_sweep(void)
{
	Lane	   *lane;

	for (Lane **link = &lanes; (lane = *link) != NULL;)
	{
		if (lane->followed || !tell_lost(lane, 0))
		{
			link = &lane->next;
			continue;
		}
		*link = lane->next;
		if (lane->call != NULL)
			pg_cancel(lane->call);
		changes_release(lane->changes);
		feed_channel_lane_close(lane->place);
		free(lane);
	}
}

/* ---------- the poll ---------- */

static void
lane_polled(Lane *lane, int64_t version)
{
	/* The workers have not been told yet that the position is lost. */
	if (lane->lost >= 0)
		return;
	if (lane->position < 0)
	{
		/* The records of the lane begin here. */
		lane->position = lane->told = lane->polled = version;
		lane->announce = true;
		/* Versions are above 0, so 0 means that the lane is gone; api_changes reports that. */
		lane->check = version == 0;
		lane_want(lane, version);
		return;
	}
	lane->polled = version;

	/* A version below the position before the poll: the database lost its newest commits, or was restored. */
	if (version < lane->polled_position && version != lane->behind)
	{
		lane->wanted = version;
		lane->check = true;
	}
	lane_want(lane, version);
}

static void
tell_generation(int64_t newest)
{
	FeedRecordHead head = {FEED_GENERATION, 0, 0, newest};

	if (newest != generation && tell(&head, NULL, NULL, 0) == FEED_TOLD)
		generation = newest;
}

static void
poll_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	poll_call = NULL;
	if (outcome == PG_OK)
	{
		PgArray		versions = pg_array(result, 0, 1);
		JsonText	version;

		for (Lane *lane = lanes; lane != NULL; lane = lane->next)
		{
			/* A lane that was added during the poll is not in the answer. */
			if (lane->polled_position != INT64_MIN && pg_array_next(&versions, &version) && version.bytes != NULL)
				lane_polled(lane, pg_array_int8(version));
		}
		if (pg_variant() == PG_VARIANT_SQL)
			registry_generation(pg_int8(result, 0, 0));
		tell_generation(pg_int8(result, 0, 0));
		pg_result_free(result);
	}
	else
	{
		for (Lane *lane = lanes; lane != NULL; lane = lane->next)
			lane_forget(lane);
	}
	loop_timer_start(&poll_timer, outcome == PG_OK ? (uint64_t) config.poll_interval : RETRY_MS, poll_send, NULL);
	if (!wishes_complete)
		wishes_read();
	for (const Lane *lane = lanes; lane != NULL && outcome == PG_OK; lane = lane->next)
	{
		if (lane->polled_position == INT64_MIN)
			loop_timer_start(&poll_timer, 0, poll_send, NULL);
	}
	wake_workers();
}

/* Sends the next poll.  Without lanes there are no polls. */
static void
poll_send(void *state)
{
	int32_t    *numbers;
	size_t		count = 0;

	if (poll_call != NULL)
		return;
	lanes_sweep();
	for (const Lane *lane = lanes; lane != NULL; lane = lane->next)
		count++;
	if (count == 0)
		return;
	numbers = calloc(count, sizeof(int32_t));
	if (numbers == NULL)
		abort();
	count = 0;
	for (Lane *lane = lanes; lane != NULL; lane = lane->next)
	{
		numbers[count++] = lane->lane;
		lane->polled_position = lane->position;
	}
	poll_call = pg_call_new(PG_POLL);
	pg_add_int4_array(poll_call, numbers, count);
	free(numbers);
	pg_send(poll_call, true, CALL_TIMEOUT_MS, poll_done, NULL);
}

/* ---------- the process ---------- */

/* A board has changed, or a worker has written. */
static void
woken(void *state)
{
	wishes_read();
	for (Lane *lane = lanes; lane != NULL; lane = lane->next)
	{
		int64_t		written = feed_channel_lane_written(lane->place);

		if (written > 0 && lane->position >= 0)
			lane_want(lane, written);
	}
	wake_workers();
}

void
feed_reader_start(void)
{
	registry_without_documents();
	pg_start_feed();
	feed_channel_serve(woken);

	/* Continue with the lanes of the previous feed process, where that process ended. */
	for (int place = 0; place < FEED_LANES; place++)
	{
		int64_t		position;
		int			number = feed_channel_lane_at(place, &position);
		Lane	   *lane;

		if (number == 0)
			continue;
		lane = lane_add(number, place, position);
		if (position < 0)
			lane->lost = 0;
	}
	wishes_read();
	wake_workers();
	loop_timer_start(&poll_timer, 0, poll_send, NULL);
}
