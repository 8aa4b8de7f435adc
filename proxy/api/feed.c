/*-------------------------------------------------------------------------
 *
 * feed.c
 *	  The newest changes of the lanes that are watched in this worker.
 *
 * The feed process reads the change log (feed_reader.c) and sends records of it
 * to all workers (feed_channel.h).  Here a feed keeps the newest events of one
 * lane for its watchers.  The versions in the records tell whether one is
 * missing.  Then the feed begins anew, and each watcher reads the log on its
 * own until it has caught up.
 *
 *-------------------------------------------------------------------------
 */
#include "api/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/feed_channel.h"
#include "base/allocate.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "api/registry.h"

#define RING_EVENTS 1000
#define RING_BYTES (8 * 1024 * 1024)
#define RING_SLOTS 1024			/* a power of two above RING_EVENTS */
#define RECORDS_AT_ONCE 200		/* number of records that are read before other work runs */
#define POLL_MS 1000
#define RETRY_MS 500
#define CALL_TIMEOUT_MS 5000
#define FAILED_POLLS 2			/* a single failed poll does not matter */
#define BOOKMARKS 4				/* number of bookmarks that a feed keeps */
#define POSTGRES_EPOCH 946684800	/* 2000-01-01 in seconds since 1970 */

typedef struct InUse
{
	int			number;
	unsigned	users;			/* 0: given up at the next sweep */
	int64_t		since;			/* events above this version have the representation; -1: no events yet */
} InUse;

typedef struct Bookmark
{
	int			representation;
	int64_t		version;
	Frame	   *frame;			/* NULL: none */
} Bookmark;

struct Feed
{
	int			lane;
	unsigned	followers;
	Follower   *first;
	int64_t		position;		/* -1: not known yet */
	bool		moved;			/* the records of this turn moved the position */
	bool		unasked;		/* the feed process has not been told the current uses */
	InUse		uses[FEED_REPRESENTATIONS];
	size_t		use_count;
	Event	   *ring[RING_SLOTS];
	uint64_t	ring_first;		/* number of the oldest event */
	uint64_t	ring_end;		/* number of the next event to come */
	size_t		ring_bytes;
	int64_t		ring_floor;		/* events above this version are in the ring */
	Bookmark	bookmarks[BOOKMARKS];	/* the newest bookmarks */
	size_t		next_bookmark;
	Bookmark	asked_bookmark; /* the bookmark that the call in flight asks for */
	PgCall	   *bookmark_call;
	Feed	   *next;
};

static const FeedEvents *told;
static Feed *feeds;
static LoopTimer poll_timer;
static int	failed_polls = FAILED_POLLS;	/* feed_database_answers() is false before the first success */
static char poll_trouble[512] = "the database does not answer"; /* why the last failed poll failed */
static RingRecord record;
static bool taking_later;		/* feeds_take() was deferred */

/* ---------- the ring ---------- */

static void
ring_drop_first(Feed *feed)
{
	Event	   *event = feed->ring[feed->ring_first % RING_SLOTS];
	Follower   *next;

	for (Follower *follower = feed->first; follower != NULL; follower = next)
	{
		next = follower->next;
		if (follower->following && follower->cursor <= feed->ring_first)
			told->dropping(follower, event);
	}
	feed->ring_floor = event->version;
	feed->ring_bytes -= event->size;
	feed->ring[feed->ring_first % RING_SLOTS] = NULL;
	feed->ring_first++;
	changes_release(event->changes);
}

static void
ring_append(Feed *feed, Event *event)
{
	while (feed->ring_end > feed->ring_first &&
		   (feed->ring_end - feed->ring_first >= RING_EVENTS || feed->ring_bytes + event->size > RING_BYTES))
		ring_drop_first(feed);
	event->changes->references++;
	feed->ring[feed->ring_end++ % RING_SLOTS] = event;
	feed->ring_bytes += event->size;
	feed->position = event->version;
}

static void
feed_pump(Feed *feed)
{
	Follower   *next;

	for (Follower *follower = feed->first; follower != NULL; follower = next)
	{
		next = follower->next;
		told->pump(follower);
	}
}

Event *
feed_next(Follower *follower)
{
	Feed	   *feed = follower->feed;

	return follower->cursor < feed->ring_end ? feed->ring[follower->cursor % RING_SLOTS] : NULL;
}

/* ---------- representations in use ---------- */

static InUse *
feed_use(Feed *feed, int number)
{
	for (size_t i = 0; i < feed->use_count; i++)
	{
		if (feed->uses[i].number == number)
			return &feed->uses[i];
	}
	return NULL;
}

/* Adds a user of a representation.  False when the table is full: then the follower continues to read on its own. */
static bool
feed_begin_use(Feed *feed, int number)
{
	InUse	   *use = feed_use(feed, number);

	/* A representation without users gives up its place. */
	for (size_t i = 0; use == NULL && feed->use_count == FEED_REPRESENTATIONS && i < feed->use_count; i++)
	{
		if (feed->uses[i].users == 0)
			feed->uses[i] = feed->uses[--feed->use_count];
	}
	if (use == NULL)
	{
		if (feed->use_count == FEED_REPRESENTATIONS)
			return false;
		use = &feed->uses[feed->use_count++];
		use->number = number;
		use->users = 0;
		use->since = -1;
		feed->unasked = true;
	}
	use->users++;
	return true;
}

static void
feed_end_use(Feed *feed, int number)
{
	InUse	   *use = feed_use(feed, number);

	if (use != NULL)
		use->users--;
}

/* Tells the feed process which representations the lane's watchers need. */
static void
feed_ask(Feed *feed)
{
	int			numbers[FEED_REPRESENTATIONS];

	if (!feed->unasked)
		return;
	for (size_t i = 0; i < feed->use_count; i++)
		numbers[i] = feed->uses[i].number;
	feed->unasked = !feed_channel_follow(feed->lane, numbers, feed->use_count);
}

/*
 * Whether the ring has every event above position, and these and all later events have the representation.  A follower
 * without a place in the table tries again here, because another follower may have left its place.
 */
static bool
feed_reaches(Feed *feed, int number, bool *in_use, int64_t position)
{
	const InUse *use;

	if (!*in_use)
	{
		*in_use = feed_begin_use(feed, number);
		feed_ask(feed);
	}
	use = feed_use(feed, number);
	return *in_use && use->since >= 0 && position >= use->since && position >= feed->ring_floor;
}

bool
feed_follow(Follower *follower, int64_t position)
{
	Feed	   *feed = follower->feed;

	if (feed->position < 0 || !feed_reaches(feed, follower->representation, &follower->in_use, position) ||
		(follower->first_representation >= 0 &&
		 !feed_reaches(feed, follower->first_representation, &follower->first_in_use, position)))
		return false;
	follower->following = true;
	follower->cursor = feed->ring_first;
	while (follower->cursor < feed->ring_end && feed->ring[follower->cursor % RING_SLOTS]->version <= position)
		follower->cursor++;
	return true;
}

void
feed_first_sent(Follower *follower)
{
	if (follower->first_in_use)
		feed_end_use(follower->feed, follower->first_representation);
	follower->first_in_use = false;
	follower->first_representation = -1;
}

/* ---------- records ---------- */

/* The feed begins anew.  The followers check their own positions before they follow again. */
static void
feed_lost(Feed *feed)
{
	Follower   *next;

	for (Follower *follower = feed->first; follower != NULL; follower = next)
	{
		next = follower->next;
		follower->following = false;
		told->unfollow(follower);
	}
	while (feed->ring_first < feed->ring_end)
	{
		Event	   *event = feed->ring[feed->ring_first % RING_SLOTS];

		feed->ring[feed->ring_first++ % RING_SLOTS] = NULL;
		changes_release(event->changes);
	}
	feed->ring_bytes = 0;
	feed->position = feed->ring_floor = -1;
	for (size_t i = 0; i < feed->use_count; i++)
		feed->uses[i].since = -1;
}

/* New events do not have a representation: its followers read on their own until events have it again. */
static void
feed_end_carrying(Feed *feed, InUse *use)
{
	use->since = -1;
	for (Follower *follower = feed->first; follower != NULL; follower = follower->next)
	{
		if (follower->representation == use->number || follower->first_representation == use->number)
			follower->following = false;
	}
}

static void
feed_note_lag(const Event *event)
{
	struct timespec now;
	double		lag;

	if (event->at == INT64_MIN)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	lag = (double) (now.tv_sec - POSTGRES_EPOCH) + (double) now.tv_nsec / 1e9 - (double) event->at / 1e6;
	metrics_feed_lag(lag > 0 ? lag : 0);
}

static void
feed_take_event(Feed *feed, const FeedRecordHead *head, FeedRecordReader *reader)
{
	int			numbers[FEED_REPRESENTATIONS];
	Arena		arena;
	Event	   *event;
	Changes    *changes;

	arena_init(&arena);
	event = feed_record_read_event(reader, head, &arena);
	for (size_t i = 0; i < feed->use_count; i++)
	{
		bool		carried = false;

		numbers[i] = feed->uses[i].number;
		for (size_t v = 0; v < event->view_count; v++)
			carried = carried || event->views[v].representation == numbers[i];
		if (!carried && feed->uses[i].since >= 0)
			feed_end_carrying(feed, &feed->uses[i]);
	}
	changes = changes_of_event(event, numbers, feed->use_count);
	arena_free(&arena);
	feed_note_lag(&changes->events[0]);
	ring_append(feed, &changes->events[0]);
	changes_release(changes);
}

static void
feed_take_state(Feed *feed, const FeedRecordHead *head, FeedRecordReader *reader)
{
	bool		carried[FEED_REPRESENTATIONS] = {false};
	JsonText	token;

	if (feed->position < 0)
		feed->position = feed->ring_floor = head->version;
	else if (head->version > feed->position)
		feed->position = head->version;
	while (feed_record_token(reader, &token))
	{
		for (size_t i = 0; i < feed->use_count; i++)
		{
			if (json_text_compare(token, representation_token(feed->uses[i].number)) == 0)
				carried[i] = true;
		}
	}
	for (size_t i = 0; i < feed->use_count; i++)
	{
		InUse	   *use = &feed->uses[i];

		if (carried[i] && use->since < 0)
			use->since = feed->position;
		else if (!carried[i] && use->since >= 0)
			feed_end_carrying(feed, use);
	}
}

static Feed *
feed_of(int lane)
{
	Feed	   *feed = feeds;

	while (feed != NULL && feed->lane != lane)
		feed = feed->next;
	return feed;
}

static void
feeds_take_record(void)
{
	FeedRecordReader reader;
	FeedRecordHead head = feed_record_begin(&reader, &record);
	Feed	   *feed = feed_of(head.lane);

	if (head.kind == FEED_GENERATION)
		registry_generation(head.version);
	if (feed == NULL)
		return;
	feed->moved = true;
	if (feed->position >= 0 && (head.kind == FEED_LOST || head.after > feed->position))
	{
		feed_lost(feed);
		/* A record is missing: an event was too large for the channel. */
		if (head.kind == FEED_EVENT)
			feed_channel_ask();
	}
	if (head.kind == FEED_STATE)
		feed_take_state(feed, &head, &reader);
	else if (head.kind == FEED_EVENT && feed->position >= 0 && head.version > feed->position)
		feed_take_event(feed, &head, &reader);
}

static void
feeds_overrun(void)
{
	log_line(LOG_WARNING, "this worker was too slow for the feed: its watches read the change log on their own");
	metrics_count(COUNTER_FEED_OVERRUNS, 1);
	for (Feed *feed = feeds; feed != NULL; feed = feed->next)
		feed_lost(feed);
	feed_channel_ask();
}

static void feeds_take(void *state);

static void
feeds_take_later(void *state)
{
	taking_later = false;
	feeds_take(NULL);
}

/* Reads the records that have arrived, then lets the watches send. */
static void
feeds_take(void *state)
{
	RingReading reading = RING_RECORD;
	Feed	   *next;

	for (int i = 0; i < RECORDS_AT_ONCE && reading == RING_RECORD; i++)
	{
		reading = feed_channel_read(&record);
		if (reading == RING_RECORD)
			feeds_take_record();
		else if (reading == RING_OVERRUN)
			feeds_overrun();
	}
	for (Feed *feed = feeds; feed != NULL; feed = next)
	{
		next = feed->next;
		if (feed->moved)
			feed_pump(feed);
		feed->moved = false;
	}
	if (reading != RING_EMPTY && !taking_later)
	{
		taking_later = true;
		loop_defer(feeds_take_later, NULL);
	}
}

/* ---------- the database ---------- */

static void poll_send(void *state);

/* Ends feeds without followers, and gives up representations without users. */
static void
feeds_sweep(void)
{
	Feed	   *feed;

	for (Feed **link = &feeds; (feed = *link) != NULL;)
	{
		if (feed->followers > 0)
		{
			for (size_t i = feed->use_count; i-- > 0;)
			{
				if (feed->uses[i].users > 0)
					continue;
				feed->uses[i] = feed->uses[--feed->use_count];
				feed->unasked = true;
			}
			feed_ask(feed);
			link = &feed->next;
			continue;
		}
		*link = feed->next;
		feed_channel_unfollow(feed->lane);
		if (feed->bookmark_call != NULL)
			pg_cancel(feed->bookmark_call);
		while (feed->ring_first < feed->ring_end)
			changes_release(feed->ring[feed->ring_first++ % RING_SLOTS]->changes);
		for (size_t i = 0; i < BOOKMARKS; i++)
			frame_release(feed->bookmarks[i].frame);
		free(feed);
		metrics_gauge_add(GAUGE_FEEDS, -1);
	}
}

static void
poll_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	if (outcome == PG_OK)
	{
		failed_polls = 0;
		registry_generation(pg_int8(result, 0, 0));
		pg_result_free(result);
	}
	else
	{
		failed_polls++;
		snprintf(poll_trouble, sizeof(poll_trouble), "%s%s%s",
				 error != NULL ? error->message : "the database does not answer",
				 error != NULL && error->hint != NULL ? ". " : "",
				 error != NULL && error->hint != NULL ? error->hint : "");
	}
	loop_timer_start(&poll_timer, outcome == PG_OK ? POLL_MS : RETRY_MS, poll_send, NULL);
}

/* Asks for the generation of the registry over this worker's own connections, because readyz reports on these. */
static void
poll_send(void *state)
{
	PgCall	   *call = pg_call_new(PG_POLL);
	int32_t		none = 0;

	feeds_sweep();
	pg_add_int4_array(call, &none, 0);
	pg_send(call, true, CALL_TIMEOUT_MS, poll_done, NULL);
}

void
feed_start(int worker, const FeedEvents *events)
{
	told = events;
	feed_channel_attach(worker, feeds_take);
	poll_send(NULL);
}

bool
feed_database_answers(const char **why)
{
	if (failed_polls < FAILED_POLLS)
		return true;
	*why = poll_trouble;
	return false;
}

/* ---------- followers ---------- */

void
feed_attach(Follower *follower, int lane)
{
	Feed	   *feed = feed_of(lane);

	if (feed == NULL)
	{
		feed = allocate(sizeof(Feed));
		feed->lane = lane;
		feed->position = feed->ring_floor = -1;
		feed->unasked = true;
		feed->next = feeds;
		feeds = feed;
		metrics_gauge_add(GAUGE_FEEDS, 1);
	}
	follower->feed = feed;
	follower->previous = NULL;
	follower->next = feed->first;
	if (feed->first != NULL)
		feed->first->previous = follower;
	feed->first = follower;
	feed->followers++;
	follower->in_use = feed_begin_use(feed, follower->representation);
	follower->first_in_use = follower->first_representation >= 0 &&
		feed_begin_use(feed, follower->first_representation);
	feed_ask(feed);
}

void
feed_detach(Follower *follower)
{
	Feed	   *feed = follower->feed;

	if (feed == NULL)
		return;
	follower->feed = NULL;
	follower->following = false;
	if (follower->previous != NULL)
		follower->previous->next = follower->next;
	else
		feed->first = follower->next;
	if (follower->next != NULL)
		follower->next->previous = follower->previous;
	feed->followers--;
	if (follower->in_use)
		feed_end_use(feed, follower->representation);
	if (follower->first_in_use)
		feed_end_use(feed, follower->first_representation);
}

int64_t
feed_position(const Feed *feed)
{
	return feed->position;
}

int
feed_lane(const Feed *feed)
{
	return feed->lane;
}

/* ---------- bookmarks ---------- */

/* Keeps a bookmark with the caller's reference to its frame, and gives the frame to the followers that wait. */
static void
feed_keep_bookmark(Feed *feed, Bookmark made)
{
	Bookmark   *bookmark = &feed->bookmarks[feed->next_bookmark];
	Follower   *next;

	frame_release(bookmark->frame);
	*bookmark = made;
	frame_hold(made.frame);
	feed->next_bookmark = (feed->next_bookmark + 1) % BOOKMARKS;
	for (Follower *follower = feed->first; follower != NULL; follower = next)
	{
		next = follower->next;
		if (follower->wants_bookmark && follower->representation == made.representation)
			told->bookmark(follower, made.version, made.frame);
	}
	frame_release(made.frame);
}

static void
bookmark_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Feed	   *feed = state;
	Bookmark	made = feed->asked_bookmark;
	JsonText	text;

	feed->bookmark_call = NULL;
	if (outcome != PG_OK)
		return;					/* followers ask again */
	text = pg_text(result, 0, 0);
	if (text.len > 0)
	{
		made.frame = frame_new(text.bytes, text.len);
		feed_keep_bookmark(feed, made);
	}
	pg_result_free(result);
}

void
feed_bookmark(Follower *follower)
{
	Feed	   *feed = follower->feed;
	Frame	   *frame;
	JsonText	token;

	follower->wants_bookmark = true;
	if (feed->position < 0)
		return;
	for (size_t i = 0; i < BOOKMARKS; i++)
	{
		Bookmark   *bookmark = &feed->bookmarks[i];

		if (bookmark->frame == NULL || bookmark->version != feed->position ||
			bookmark->representation != follower->representation)
			continue;
		told->bookmark(follower, bookmark->version, bookmark->frame);
		return;
	}
	if (feed->bookmark_call != NULL)
		return;
	frame = bookmark_frame(feed->lane, follower->representation, feed->position);
	if (frame != NULL)
	{
		feed_keep_bookmark(feed, (Bookmark) {follower->representation, feed->position, frame});
		return;
	}
	feed->asked_bookmark.representation = follower->representation;
	feed->asked_bookmark.version = feed->position;
	token = representation_token(follower->representation);
	feed->bookmark_call = pg_call_new(PG_BOOKMARK);
	pg_add_int4(feed->bookmark_call, feed->lane);
	pg_add_int8(feed->bookmark_call, feed->position);
	pg_add_bytes(feed->bookmark_call, token.bytes, token.len);
	pg_send(feed->bookmark_call, true, CALL_TIMEOUT_MS, bookmark_done, feed);
}
