/*-------------------------------------------------------------------------
 *
 * feed.c
 *	  The change log of a lane, read once for all watchers of this worker.
 *
 * One api_poll asks for the newest versions of all lanes with feeds.  A feed
 * whose lane moved calls api_changes, one call at a time.  An empty answer
 * means that the feed has read everything up to the version of the previous
 * poll, even if that version has no row any more.  A version from a writer of
 * this proxy makes the feed read, but does not move its position: the database
 * server of that write may have failed before its standby received the write.
 *
 *-------------------------------------------------------------------------
 */
#include "api/feed.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "api/registry.h"

#define RING_EVENTS 1000
#define RING_BYTES (8 * 1024 * 1024)
#define RING_SLOTS 1024			/* a power of two above RING_EVENTS */
#define ROWS_MOST 200			/* of one api_changes call */
#define ANSWER_BYTES (4 * 1024 * 1024)	/* fewer rows are asked for when an answer is larger */
#define IDLE_POLL_MS 1000
#define HEAR_MS 10				/* shortest time between reads for versions of other workers */
#define RETRY_MS 500
#define CALL_TIMEOUT_MS 5000
#define BOOKMARKS 4				/* kept by a feed */
#define REPRESENTATIONS 256		/* known to a worker */
#define FEED_REPRESENTATIONS 16 /* in use in one feed; watches with others read on their own */
#define POSTGRES_EPOCH 946684800	/* 2000-01-01 in seconds since 1970 */

typedef struct InUse
{
	int			number;
	unsigned	users;
	int64_t		since;			/* events above this version carry it; -1: no event so far */
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
	int64_t		wanted;			/* newest version heard of: a reason to read */
	int64_t		heard;			/* from another worker, not in wanted yet */
	int64_t		polled;			/* result of the last poll */
	int64_t		asked_wanted;	/* wanted and polled when the call in flight was sent */
	int64_t		asked_polled;
	int64_t		polled_position;	/* position when the poll in flight was sent */
	int64_t		behind;			/* a version below the position that api_changes accepted */
	bool		check;			/* call api_changes even if wanted is not newer */
	PgCall	   *call;
	uint64_t	not_before;		/* after a failure */
	int			rows;			/* to ask for */
	int			asked_rows;
	InUse		uses[FEED_REPRESENTATIONS];
	size_t		use_count;
	int			asked[FEED_REPRESENTATIONS];	/* representations of the call in flight */
	size_t		asked_count;
	Event	   *ring[RING_SLOTS];
	uint64_t	ring_first;		/* number of the oldest event */
	uint64_t	ring_end;		/* number of the next event to come */
	size_t		ring_bytes;
	int64_t		ring_floor;		/* events above this version are in the ring */
	Bookmark	bookmarks[BOOKMARKS];	/* the last ones */
	size_t		next_bookmark;
	Bookmark	asked_bookmark; /* of the call in flight */
	PgCall	   *bookmark_call;
	Feed	   *next;
};

static const FeedEvents *told;
static Feed *feeds;
static LoopTimer poll_timer;
static LoopTimer hear_timer;
static uint64_t heard_at;
static PgCall *poll_call;
static int	failed_polls = 2;	/* so feed_database_answers() is false before the first success */
static char *tokens[REPRESENTATIONS];
static int	token_count;

static void feed_read(Feed *feed);

static void *
allocate(size_t size)
{
	void	   *pointer = calloc(1, size);

	if (pointer == NULL)
		abort();
	return pointer;
}

/* ---------- frames, representations, events ---------- */

static Frame *
frame_allocate(size_t len)
{
	Frame	   *frame = malloc(sizeof(Frame) + len);

	if (frame == NULL)
		abort();
	frame->references = 1;
	frame->len = len;
	return frame;
}

Frame *
frame_new(const char *bytes, size_t len)
{
	Frame	   *frame = frame_allocate(len);

	memcpy(frame->bytes, bytes, len);
	return frame;
}

Frame *
frame_hold(Frame *frame)
{
	frame->references++;
	return frame;
}

void
frame_release(Frame *frame)
{
	if (frame != NULL && --frame->references == 0)
		free(frame);
}

int
representation_number(JsonText token)
{
	for (int i = 0; i < token_count; i++)
	{
		if (json_text_is(token, tokens[i]))
			return i;
	}
	if (token_count == REPRESENTATIONS)
		return -1;
	tokens[token_count] = strndup(token.bytes, token.len);
	if (tokens[token_count] == NULL)
		abort();
	return token_count++;
}

JsonText
representation_token(int number)
{
	JsonText	token = {tokens[number], strlen(tokens[number])};

	return token;
}

/* Reads labels of the form key=value; the key contains no "=". */
static EventLabel *
read_labels(Arena *arena, const PgResult *result, size_t row, int column, size_t *count)
{
	PgArray		array = pg_array(result, row, column);
	EventLabel *labels = arena_alloc(arena, (array.left + 1) * sizeof(EventLabel));
	JsonText	text;

	*count = 0;
	while (pg_array_next(&array, &text))
	{
		const char *equals = text.bytes != NULL ? memchr(text.bytes, '=', text.len) : NULL;

		if (equals == NULL)
			continue;
		labels[*count].key.bytes = text.bytes;
		labels[*count].key.len = (size_t) (equals - text.bytes);
		labels[*count].value.bytes = equals + 1;
		labels[*count].value.len = text.len - labels[*count].key.len - 1;
		(*count)++;
	}
	return labels;
}

static JsonText
without_newline(JsonText text)
{
	while (text.len > 0 && text.bytes[text.len - 1] == '\n')
		text.len--;
	return text;
}

static void
read_event(Changes *changes, Event *event, size_t row, const int *representations, size_t representation_count)
{
	PgResult   *result = changes->result;
	PgArray		objects = pg_array(result, row, 7);
	PgArray		old_objects = pg_array(result, row, 8);
	bool		labels_changed = !pg_is_null(result, row, 8);
	JsonText	operation = pg_text(result, row, 1);

	event->changes = changes;
	event->version = pg_int8(result, row, 0);
	event->operation = operation.len == 1 ? operation.bytes[0] : 'X';
	event->namespace_name = pg_text(result, row, 2);
	event->name = pg_text(result, row, 3);
	event->labels = read_labels(&changes->arena, result, row, 5, &event->label_count);
	event->old_labels = event->labels;
	event->old_label_count = event->label_count;
	if (labels_changed)
		event->old_labels = read_labels(&changes->arena, result, row, 6, &event->old_label_count);
	event->views = arena_alloc0(&changes->arena, (representation_count + 1) * sizeof(EventView));
	for (size_t i = 0; i < representation_count; i++)
	{
		EventView  *view = &event->views[event->view_count];

		if (!pg_array_next(&objects, &view->object))
			break;
		view->object = without_newline(view->object);
		if (pg_array_next(&old_objects, &view->old_object))
			view->old_object = without_newline(view->old_object);
		view->representation = representations[i];
		event->view_count++;
		event->size += view->object.len + view->old_object.len;
	}
}

Changes *
changes_new(PgResult *result, const int *representations, size_t representation_count)
{
	Changes    *changes = allocate(sizeof(Changes));

	changes->references = 1;
	arena_init(&changes->arena);
	changes->result = result;
	changes->count = pg_rows(result);
	changes->events = arena_alloc0(&changes->arena, (changes->count + 1) * sizeof(Event));
	for (size_t row = 0; row < changes->count; row++)
	{
		read_event(changes, &changes->events[row], row, representations, representation_count);
		changes->size += changes->events[row].size;
	}
	return changes;
}

void
changes_release(Changes *changes)
{
	if (changes == NULL || --changes->references > 0)
		return;
	for (size_t i = 0; i < changes->count; i++)
	{
		for (size_t v = 0; v < changes->events[i].view_count; v++)
		{
			for (int type = 0; type < EVENT_TYPE_COUNT; type++)
				frame_release(changes->events[i].views[v].frames[type]);
		}
	}
	pg_result_free(changes->result);
	arena_free(&changes->arena);
	free(changes);
}

Frame *
event_frame(Event *event, EventType type, int representation)
{
	static const char *const heads[EVENT_TYPE_COUNT] = {
		"{\"type\":\"ADDED\",\"object\":", "{\"type\":\"MODIFIED\",\"object\":", "{\"type\":\"DELETED\",\"object\":"
	};

	for (size_t i = 0; i < event->view_count; i++)
	{
		EventView  *view = &event->views[i];

		if (view->representation != representation)
			continue;
		if (view->frames[type] == NULL)
		{
			/* An object that leaves a selection is shown as before the change; a deleted object in its last state. */
			JsonText	object = type == EVENT_DELETED && event->operation != 'D' && view->old_object.bytes != NULL ?
				view->old_object : view->object;
			size_t		head = strlen(heads[type]);
			Frame	   *frame;

			if (object.bytes == NULL)
				return NULL;
			frame = frame_allocate(head + object.len + 2);

			memcpy(frame->bytes, heads[type], head);
			memcpy(frame->bytes + head, object.bytes, object.len);
			memcpy(frame->bytes + head + object.len, "}\n", 2);
			view->frames[type] = frame;
		}
		return view->frames[type];
	}
	return NULL;
}

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

/* False when the table is full: then the follower continues to read on its own. */
static bool
feed_begin_use(Feed *feed, int number)
{
	InUse	   *use = feed_use(feed, number);

	if (use == NULL)
	{
		if (feed->use_count == FEED_REPRESENTATIONS)
			return false;
		use = &feed->uses[feed->use_count++];
		use->number = number;
		use->users = 0;
		use->since = feed->call == NULL ? feed->position : -1;
	}
	use->users++;
	return true;
}

static void
feed_end_use(Feed *feed, int number)
{
	InUse	   *use = feed_use(feed, number);

	if (use != NULL && --use->users == 0)
		*use = feed->uses[--feed->use_count];
}

/*
 * Whether the ring has every event above position, and those and all later events carry the representation.  A follower
 * without a place in the table tries again here, because another follower may have given one up.
 */
static bool
feed_reaches(Feed *feed, int number, bool *in_use, int64_t position)
{
	const InUse *use;

	if (!*in_use)
		*in_use = feed_begin_use(feed, number);
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

/* ---------- reading ---------- */

/*
 * The log no longer has the position: it was compacted, or the database lost its newest commits.  A follower may be at
 * an older version that the log still has, so each follower asks on its own.
 */
static void
feed_lost(Feed *feed, int64_t floor)
{
	Follower   *next;

	log_line(LOG_WARNING, "lane %d: version %lld is lost, the log begins at %lld", feed->lane, (long long) feed->position,
			 (long long) floor);
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
	feed->position = feed->wanted = feed->heard = feed->polled = feed->ring_floor = feed->behind = -1;
	feed->check = false;
	for (size_t i = 0; i < feed->use_count; i++)
		feed->uses[i].since = -1;
}

static void
feed_note_lag(const PgResult *result, size_t row)
{
	struct timespec now;
	double		lag;

	if (pg_is_null(result, row, 4))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	lag = (double) (now.tv_sec - POSTGRES_EPOCH) + (double) now.tv_nsec / 1e9 - (double) pg_int8(result, row, 4) / 1e6;
	metrics_feed_lag(lag > 0 ? lag : 0);
}

/* Forgets the versions from polls and writers: another server may answer from now on. */
static void
feed_forget(Feed *feed)
{
	feed->wanted = feed->polled = feed->position;
	feed->heard = -1;
}

static void
feed_read_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Feed	   *feed = state;
	Changes    *changes;
	int64_t		before = feed->position;

	feed->call = NULL;
	if (outcome != PG_OK)
	{
		/* A later poll starts the next try. */
		feed_forget(feed);
		feed->not_before = loop_now() + RETRY_MS;
		return;
	}

	changes = changes_new(result, feed->asked, feed->asked_count);
	if (changes->count > 0 && changes->events[0].operation == 'X')
	{
		feed_lost(feed, changes->events[0].version);
		changes_release(changes);
		return;
	}

	/* Events carry representations added meanwhile only from the next answer on. */
	for (size_t i = 0; i < changes->count; i++)
	{
		if (changes->events[i].version <= feed->position || changes->events[i].operation == 'X')
			continue;
		feed_note_lag(result, i);
		ring_append(feed, &changes->events[i]);
	}
	/*
	 * An answer may be cut by its size.  Only an empty answer means that nothing is left up to the version of the last
	 * poll.
	 */
	if (changes->count == 0)
	{
		if (feed->asked_polled > feed->position)
			feed->position = feed->asked_polled;
		else if (feed->position == before && feed->check)
			feed->behind = feed->asked_polled;
		feed->check = false;
		/* Unless a newer version arrived meanwhile. */
		if (feed->wanted == feed->asked_wanted)
			feed->wanted = feed->position;
	}
	if (changes->count < (size_t) feed->asked_rows && feed->rows < ROWS_MOST)
		feed->rows *= 2;
	if (changes->size > ANSWER_BYTES && feed->rows > 1)
		feed->rows /= 2;
	if (feed->rows > ROWS_MOST)
		feed->rows = ROWS_MOST;
	for (size_t i = 0; i < feed->use_count; i++)
	{
		if (feed->uses[i].since < 0)
			feed->uses[i].since = feed->position;
	}
	changes_release(changes);
	feed_pump(feed);
	feed_read(feed);
}

/* Calls api_changes if there may be versions above the position. */
static void
feed_read(Feed *feed)
{
	JsonText	representations[FEED_REPRESENTATIONS];
	PgCall	   *call;

	if (feed->call != NULL || feed->position < 0 || (feed->wanted <= feed->position && !feed->check) ||
		loop_now() < feed->not_before)
		return;
	feed->asked_count = feed->use_count;
	for (size_t i = 0; i < feed->use_count; i++)
	{
		feed->asked[i] = feed->uses[i].number;
		representations[i] = representation_token(feed->uses[i].number);
	}
	feed->asked_wanted = feed->wanted;
	feed->asked_polled = feed->polled;
	feed->asked_rows = feed->rows;
	call = pg_call_new(PG_CHANGES);
	pg_add_int4(call, feed->lane);
	pg_add_int8(call, feed->position);
	pg_add_text_array(call, representations, feed->use_count);
	pg_add_int4(call, feed->rows);
	feed->call = call;
	pg_send(call, true, CALL_TIMEOUT_MS, feed_read_done, feed);
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
feed_want(Feed *feed, int64_t version)
{
	if (version > feed->wanted)
		feed->wanted = version;
	feed_read(feed);
}

void
feed_wake(int lane, int64_t version)
{
	Feed	   *feed = feed_of(lane);

	if (feed != NULL)
		feed_want(feed, version);
}

static void
feeds_read(void *state)
{
	heard_at = loop_now();
	for (Feed *feed = feeds; feed != NULL; feed = feed->next)
	{
		feed_want(feed, feed->heard);
		feed->heard = -1;
	}
}

void
feed_note_version(int lane, int64_t version)
{
	Feed	   *feed = feed_of(lane);
	uint64_t	since = loop_now() - heard_at;

	if (feed == NULL || version <= feed->heard)
		return;
	feed->heard = version;
	if (!hear_timer.running)
		loop_timer_start(&hear_timer, since < HEAR_MS ? HEAR_MS - since : 0, feeds_read, NULL);
}

/* ---------- the poll ---------- */

static void poll_send(void *state);

static void
feed_polled(Feed *feed, int64_t version)
{
	if (feed->position < 0)
	{
		/* A new feed begins here.  Its ring is empty, so every representation is complete from this version on. */
		feed->position = feed->polled = feed->ring_floor = version;
		for (size_t i = 0; i < feed->use_count; i++)
			feed->uses[i].since = version;
		feed_pump(feed);
		/* Versions are above 0, so 0 means that the lane is gone; api_changes reports that. */
		feed->check = version == 0;
		feed_want(feed, version);
		return;
	}
	feed->polled = version;

	/* A version below the position before the poll: the database lost its newest commits, or was restored. */
	if (version < feed->polled_position && version != feed->behind)
	{
		feed->wanted = version;
		feed->check = true;
	}
	feed_want(feed, version);
}

static void
poll_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Feed	   *polled = NULL;

	poll_call = NULL;
	for (Feed *feed = feeds; feed != NULL; feed = feed->next)
	{
		if (feed->polled_position != INT64_MIN)
			polled = feed;
	}
	if (outcome == PG_OK)
	{
		PgArray		versions = pg_array(result, 0, 1);
		JsonText	version;

		failed_polls = 0;
		for (Feed *feed = feeds; feed != NULL; feed = feed->next)
		{
			/* A feed that was added during the poll is not in the answer. */
			if (feed->polled_position != INT64_MIN && pg_array_next(&versions, &version) && version.bytes != NULL)
				feed_polled(feed, pg_array_int8(version));
		}
		registry_generation(pg_int8(result, 0, 0));
		pg_result_free(result);
		loop_timer_start(&poll_timer, polled != NULL ? (uint64_t) config.poll_interval : IDLE_POLL_MS, poll_send, NULL);
	}
	else
	{
		for (Feed *feed = feeds; feed != NULL; feed = feed->next)
			feed_forget(feed);
		failed_polls++;
		loop_timer_start(&poll_timer, RETRY_MS, poll_send, NULL);
	}
}

/* Ends feeds without followers. */
static void
feeds_sweep(void)
{
	Feed	   *feed;

	for (Feed **link = &feeds; (feed = *link) != NULL;)
	{
		if (feed->followers > 0)
		{
			link = &feed->next;
			continue;
		}
		*link = feed->next;
		if (feed->call != NULL)
			pg_cancel(feed->call);
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
poll_send(void *state)
{
	int32_t    *lanes;
	size_t		count = 0;

	feeds_sweep();

	for (Feed *feed = feeds; feed != NULL; feed = feed->next)
		count++;
	lanes = allocate((count + 1) * sizeof(int32_t));
	count = 0;
	for (Feed *feed = feeds; feed != NULL; feed = feed->next)
	{
		lanes[count++] = feed->lane;
		feed->polled_position = feed->position;
	}
	poll_call = pg_call_new(PG_POLL);
	pg_add_int4_array(poll_call, lanes, count);
	free(lanes);
	pg_send(poll_call, true, CALL_TIMEOUT_MS, poll_done, NULL);
}

void
feed_start(const FeedEvents *events)
{
	told = events;
	poll_send(NULL);
}

bool
feed_database_answers(void)
{
	return failed_polls < 2;
}

/* ---------- followers ---------- */

void
feed_attach(Follower *follower, int lane)
{
	Feed	   *feed = feed_of(lane);

	if (feed == NULL)
	{
		Feed	  **end = &feeds;

		feed = allocate(sizeof(Feed));
		feed->lane = lane;
		feed->position = feed->wanted = feed->heard = feed->polled = feed->ring_floor = feed->behind = -1;
		feed->polled_position = INT64_MIN;
		feed->rows = ROWS_MOST;

		/* Append, because the answer of a poll under way is in the order of the list. */
		while (*end != NULL)
			end = &(*end)->next;
		*end = feed;
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
	follower->first_in_use = follower->first_representation >= 0 && feed_begin_use(feed, follower->first_representation);

	/* The first watcher should not wait for the idle poll. */
	if (poll_call == NULL && feed->position < 0)
		loop_timer_start(&poll_timer, 0, poll_send, NULL);
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

static void
bookmark_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Feed	   *feed = state;
	Bookmark   *bookmark = &feed->bookmarks[feed->next_bookmark];
	Frame	   *frame;
	JsonText	text;
	Follower   *next;

	feed->bookmark_call = NULL;
	if (outcome != PG_OK)
		return;					/* followers ask again */
	text = pg_text(result, 0, 0);
	frame = frame_new(text.bytes, text.len);
	pg_result_free(result);
	if (frame->len > 0)
	{
		frame_release(bookmark->frame);
		*bookmark = feed->asked_bookmark;
		bookmark->frame = frame_hold(frame);
		feed->next_bookmark = (feed->next_bookmark + 1) % BOOKMARKS;
		for (Follower *follower = feed->first; follower != NULL; follower = next)
		{
			next = follower->next;
			if (follower->wants_bookmark && follower->representation == feed->asked_bookmark.representation)
				told->bookmark(follower, feed->asked_bookmark.version, frame);
		}
	}
	frame_release(frame);
}

void
feed_bookmark(Follower *follower)
{
	Feed	   *feed = follower->feed;
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
	feed->asked_bookmark.representation = follower->representation;
	feed->asked_bookmark.version = feed->position;
	token = representation_token(follower->representation);
	feed->bookmark_call = pg_call_new(PG_BOOKMARK);
	pg_add_int4(feed->bookmark_call, feed->lane);
	pg_add_int8(feed->bookmark_call, feed->position);
	pg_add_bytes(feed->bookmark_call, token.bytes, token.len);
	pg_send(feed->bookmark_call, true, CALL_TIMEOUT_MS, bookmark_done, feed);
}
