/*-------------------------------------------------------------------------
 *
 * watch.c
 *	  Watches: streams of events.
 *
 * The position of a watch is a version: every event up to it that concerns the
 * watch was sent, and no event above it.  Events at or below the position are
 * never sent again, whether the ring or the log has them.  A bookmark is sent
 * only when no event is left to send, and never with a version below one that
 * the client already knows.
 *
 * watch_pump() is the only place that sends.  It is called whenever something
 * may have changed and does nothing while a send is under way.
 *
 * Reference: k8s-conformance section 15; watch-revisions 6.2, I5 and I6.
 *
 *-------------------------------------------------------------------------
 */
#include "api/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/api/selector.h"
#include "base/allocate.h"
#include "base/config.h"
#include "api/feed.h"
#include "api/gathered.h"
#include "api/list.h"
#include "api/list_items.h"
#include "base/log.h"
#include "base/metrics.h"
#include "api/reply.h"
#include "api/watch_start.h"

#define TICK_MS 1000
#define RETRY_MS 1000
#define TIMEOUT_LEAST_S 1800	/* shortest duration of a watch when the client sets none */
#define TIMEOUT_SPREAD_S 1800
#define BOOKMARK_LEAST_MS 50000
#define BOOKMARK_SPREAD_MS 20000
#define LAST_BOOKMARK_MS 2000	/* the last bookmark is sent this long before the end */
#define SHORT_MS 1000			/* client-go lists again after a watch that ends sooner without an event (W-04) */
#define END_STEP_MS 100			/* time between two steps of a shutdown, in which watches end */
#define ENDS_IN_STEP 20			/* watches that end in one step, or more when the time is short */
#define PARTING_MS 30000		/* time for a client to read the rest before the connection is cut */
#define READ_ROWS_FIRST 20		/* rows of the first call of a watch that reads on its own */
#define READ_ROWS_MOST 200
#define READ_BYTES (256 * 1024) /* target size of an answer */
#define READ_TIMEOUT_MS 10000
#define SEND_ROOM ((size_t) 256 * 1024) /* room for answers that a watch needs before it sends */

typedef struct Watch Watch;

/* The present state, which is sent before the events; freed when it has been sent. */
typedef struct Initial
{
	Pieces		pieces;
	bool		listing;		/* pieces are being sent */
	Frame	   *end_bookmark;	/* NULL: none */
} Initial;

struct Watch
{
	Follower	follower;		/* first member: a Follower pointer is a Watch pointer */
	Exchange   *exchange;
	Watch	   *previous;
	Watch	   *next;
	Arena		arena;			/* the selectors, if any */
	Selector   *labels;			/* NULL: all */
	FieldSelector *fields;
	char	   *namespace_name; /* NULL: all */
	int64_t		position;
	int64_t		sent;			/* the newest version that the client knows */
	Initial    *initial;
	Frame	   *sending;		/* while a send is in progress: either this frame, or sending_piece */
	PieceSending sending_piece;
	Frame	   *parting;		/* an ERROR event to end with */
	bool		ending;
	bool		ended;
	bool		bookmarks;
	bool		last_bookmark;	/* the bookmark before the end was requested */
	bool		must_read;		/* must read on its own before it may follow */
	bool		on_standby;		/* the standby executes the call in flight */
	bool		standby_done;	/* the standby has nothing more for this watch */
	PgCall	   *call;			/* the call with which the watch reads on its own */
	AnswerHolding reading;		/* room for answers, for that call and its result */
	Changes    *changes;		/* the result of that call */
	size_t		next_change;
	int			rows;
	int64_t		caught_up;		/* the position that an empty answer confirmed; -1: none */
	bool		roomless;		/* an event waits for room for answers */
	uint64_t	retry_at;		/* after a failure, the time of the next try; else 0 */
	uint64_t	began_at;
	uint64_t	ends_at;
	uint64_t	bookmark_at;
};

static Watch *watches;
static LoopTimer tick_timer;
static LoopTimer end_timer;
static size_t ends_in_step;		/* number of watches that end in one step of a shutdown */

static void watch_end(Watch *watch);
static void watch_pump(Watch *watch);

/* ---------- events that concern a watch ---------- */

typedef struct LabelList
{
	const EventLabel *labels;
	size_t		count;
} LabelList;

static bool
find_label(void *state, JsonText key, JsonText *value)
{
	const LabelList *list = state;

	for (size_t i = 0; i < list->count; i++)
	{
		if (json_text_compare(list->labels[i].key, key) == 0)
		{
			*value = list->labels[i].value;
			return true;
		}
	}
	return false;
}

static bool
wants_labels(const Watch *watch, const EventLabel *labels, size_t count)
{
	LabelList	list = {labels, count};

	return watch->labels == NULL || selector_matches(watch->labels, find_label, &list);
}

/* Returns the type of an event for this watch (section 15.3); EVENT_TYPE_COUNT when the event does not concern it. */
static EventType
event_type(const Watch *watch, const Event *event)
{
	bool		before;
	bool		after;

	if (event->version <= watch->position)
		return EVENT_TYPE_COUNT;
	if (watch->namespace_name != NULL && !json_text_is(event->namespace_name, watch->namespace_name))
		return EVENT_TYPE_COUNT;
	if (watch->fields != NULL && !field_selector_matches(watch->fields, event->namespace_name, event->name))
		return EVENT_TYPE_COUNT;
	before = event->operation != 'A' && wants_labels(watch, event->old_labels, event->old_label_count);
	after = event->operation != 'D' && wants_labels(watch, event->labels, event->label_count);
	if (after)
		return before ? EVENT_MODIFIED : EVENT_ADDED;
	return before ? EVENT_DELETED : EVENT_TYPE_COUNT;
}

/*
 * Moves the position past an event; returns the frame to send, or NULL.  An event that concerns the watch but has no
 * object in its representation (the watched version is no longer served) ends the stream.
 */
static Frame *
watch_take(Watch *watch, Event *event)
{
	Follower   *follower = &watch->follower;
	EventType	type = event_type(watch, event);
	bool		first = follower->first_representation >= 0;
	Frame	   *frame = NULL;

	if (type != EVENT_TYPE_COUNT)
	{
		frame = event_frame(event, type, first ? follower->first_representation : follower->representation);
		if (frame == NULL)
		{
			watch_end(watch);
			return NULL;
		}
		if (first)
			feed_first_sent(follower);
		watch->sent = event->version;
		metrics_count(COUNTER_WATCH_EVENTS, 1);
	}
	if (event->version > watch->position)
		watch->position = event->version;
	return frame;
}

/* ---------- ending ---------- */

static void
watch_end(Watch *watch)
{
	if (watch->ending)
		return;
	watch->ending = true;
	watch->follower.following = false;
	if (watch->ends_at > loop_now())
		watch->ends_at = loop_now();
}

/* Sends an ERROR event with a Status, then ends the stream. */
static void
watch_fail(Watch *watch, JsonText status)
{
	Arena		arena;
	StrBuf		buf;

	arena_init(&arena);
	strbuf_init(&buf, &arena);
	while (status.len > 0 && status.bytes[status.len - 1] == '\n')
		status.len--;
	strbuf_puts(&buf, "{\"type\":\"ERROR\",\"object\":");
	strbuf_append(&buf, status.bytes, status.len);
	strbuf_puts(&buf, "}\n");
	watch->parting = frame_new(buf.bytes, buf.len);
	arena_free(&arena);
	watch_end(watch);
}

static void
watch_expire(Watch *watch, const char *message)
{
	Arena		arena;
	StrBuf		buf;
	JsonText	status;

	arena_init(&arena);
	strbuf_init(&buf, &arena);
	status_failure(&buf, 410, "Expired", message, NULL);
	status.bytes = buf.bytes;
	status.len = buf.len;
	watch_fail(watch, status);
	arena_free(&arena);
}

/*
 * The log does not have the position.  There may be a harmless reason: the position has moved past events that do not
 * concern this watch, and a failed server has lost these versions.  The client knows no version above sent, and no
 * event up to the floor concerned this watch.  So the watch continues at the larger of the two, if that is below the
 * position.
 */
static void
watch_lost(Watch *watch, int64_t floor)
{
	int64_t		known = watch->sent > floor ? watch->sent : floor;
	char		message[80];

	if (known < watch->position)
	{
		watch->position = known;
		watch->must_read = true;
		return;
	}
	snprintf(message, sizeof(message), "too old resource version: %lld (%lld)", (long long) watch->position,
			 (long long) floor);
	watch_expire(watch, message);
}

static void
free_changes(Watch *watch)
{
	changes_release(watch->changes);
	watch->changes = NULL;
	answer_room_hold(&watch->reading, 0);
}

static void
initial_free(Watch *watch)
{
	if (watch->initial == NULL)
		return;
	pieces_end(&watch->initial->pieces);
	frame_release(watch->initial->end_bookmark);
	free(watch->initial);
	watch->initial = NULL;
}

static void
count_watch(const Exchange *exchange, long delta)
{
	metrics_lasting("watch", exchange->type->group, exchange->type->version, exchange->type->resource, delta);
}

static void
watch_closed(Exchange *exchange)
{
	Watch	   *watch = exchange->work;

	if (watch->previous != NULL)
		watch->previous->next = watch->next;
	else
		watches = watch->next;
	if (watch->next != NULL)
		watch->next->previous = watch->previous;
	feed_detach(&watch->follower);
	initial_free(watch);
	if (watch->call != NULL)
		pg_cancel(watch->call);
	free_changes(watch);
	frame_release(watch->sending);
	frame_release(watch->parting);
	piece_drop(&watch->sending_piece);
	arena_free(&watch->arena);
	free(watch->namespace_name);
	free(watch);
	count_watch(exchange, -1);
}

/* ---------- sending ---------- */

/* The watch owns the frame from here on and releases it after it was sent. */
static void
watch_send(Watch *watch, Frame *frame)
{
	watch->sending = frame;
	metrics_count(COUNTER_WATCH_BYTES, frame->len);
	http_stream_send(watch->exchange->http, frame->bytes, frame->len);
}

static void
read_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Watch	   *watch = state;
	int			representations[2] = {watch->follower.representation, watch->follower.first_representation};

	watch->call = NULL;
	if (watch->on_standby && (outcome != PG_OK || pg_rows(result) == 0 || pg_text(result, 0, 1).bytes[0] == 'X'))
	{
		/* The standby has no more events.  The primary has the rest, and decides whether the position is lost. */
		pg_result_free(result);
		watch->standby_done = true;
		watch_pump(watch);
		return;
	}
	if (outcome != PG_OK)
	{
		watch->retry_at = loop_now() + RETRY_MS;
		return;
	}
	watch->must_read = false;
	watch->changes = changes_new(result, feed_lane(watch->follower.feed), representations,
								 representations[1] >= 0 ? 2 : 1);
	answer_room_hold(&watch->reading, changes_bytes(watch->changes));
	metrics_count(COUNTER_WATCH_RENDERED, watch->changes->count * (representations[1] >= 0 ? 2 : 1));
	watch->next_change = 0;
	if (watch->changes->count > 0 && watch->changes->events[0].operation == 'X')
	{
		watch_lost(watch, watch->changes->events[0].version);
		free_changes(watch);
	}
	else
	{
		/* An answer may be cut by its size: only an empty answer moves the position to the position of the feed. */
		if (watch->changes->count > 0)
			watch->caught_up = -1;
		if (watch->changes->size > READ_BYTES)
			watch->rows = watch->rows > 1 ? watch->rows / 2 : 1;
		else
			watch->rows = watch->rows < READ_ROWS_MOST / 2 ? watch->rows * 2 : READ_ROWS_MOST;
	}
	watch_pump(watch);
}

/* Reads the log after the position, for this watch alone. */
static void
watch_read(Watch *watch)
{
	Follower   *follower = &watch->follower;
	int			representations[2] = {follower->representation, follower->first_representation};

	watch->caught_up = feed_position(follower->feed);
	watch->call = changes_call(feed_lane(follower->feed), watch->position, representations,
							   representations[1] >= 0 ? 2 : 1, watch->rows);
	watch->reading.user = http_user_number(watch->exchange->http);
	pg_answer_for(watch->call, watch->reading.user);
	watch->on_standby = !watch->standby_done && pg_standby_ready();
	if (watch->on_standby)
		pg_use_standby(watch->call);
	pg_send(watch->call, false, READ_TIMEOUT_MS, read_done, watch);
}

/*
 * Returns the next event that was not handled, from the ring or from the watch's own call; NULL when there is none yet.
 */
static Event *
watch_next_event(Watch *watch)
{
	Follower   *follower = &watch->follower;
	int64_t		newest = feed_position(follower->feed);

	if (watch->changes != NULL)
	{
		if (watch->next_change < watch->changes->count)
			return &watch->changes->events[watch->next_change];
		free_changes(watch);
		if (watch->caught_up > watch->position)
			watch->position = watch->caught_up;
	}
	if (!follower->following && watch->call == NULL && newest >= 0 && loop_now() >= watch->retry_at)
	{
		watch->retry_at = 0;
		if ((watch->must_read || !feed_follow(follower, watch->position)) &&
			(watch->must_read || watch->position < newest))
			watch_read(watch);
	}
	if (follower->following)
	{
		Event	   *event = feed_next(follower);

		if (event == NULL && newest > watch->position)
			watch->position = newest;
		return event;
	}
	return NULL;
}

static void
watch_step(Watch *watch)
{
	if (watch->changes != NULL)
		watch->next_change++;
	else
		watch->follower.cursor++;
}

/* Sends the present state and the bookmark after it; false when the events can begin. */
static bool
watch_send_initial(Watch *watch)
{
	Initial    *initial = watch->initial;

	while (initial->listing)
	{
		PgResult   *result;
		JsonText	body;

		if (watch->retry_at != 0)
			return true;
		result = pieces_take(&initial->pieces);
		if (result == NULL && initial->pieces.complete)
		{
			initial->listing = false;
			break;
		}
		if (result == NULL)
			return true;
		if (pg_int4(result, 0, 0) != 200)
		{
			watch_fail(watch, pg_text(result, 0, 4));
			pg_result_free(result);
			return true;
		}
		body = piece_take(&watch->sending_piece, result, initial->pieces.query);
		if (body.bytes == NULL)
		{
			watch_fail(watch, reply_failure(&watch->sending_piece.arena, watch->sending_piece.error));
			piece_drop(&watch->sending_piece);
			return true;
		}
		if (body.len > 0)
			feed_first_sent(&watch->follower);
		metrics_count(COUNTER_WATCH_BYTES, body.len);
		piece_send(&watch->sending_piece, body, watch->exchange->http);
		if (watch->sending_piece.busy)
			return true;
	}
	if (initial->end_bookmark != NULL)
	{
		Frame	   *frame = initial->end_bookmark;

		initial->end_bookmark = NULL;
		watch_send(watch, frame);
		return true;
	}
	initial_free(watch);

	/* The request is not needed any more: free it, so that an idle watch is small. */
	arena_free(&watch->exchange->arena);
	arena_init(&watch->exchange->arena);
	watch->exchange->route = NULL;
	watch->exchange->user = NULL;
	http_forget_request(watch->exchange->http);
	return false;
}

static void
watch_pump(Watch *watch)
{
	HttpRequest *http = watch->exchange->http;
	Gathered	gathered;
	Event	   *event;
	bool		more = true;

	if (watch->ended || http_stream_busy(http))
		return;
	if (!watch->ending && watch->initial != NULL && watch_send_initial(watch) && !watch->ending)
		return;
	if (watch->ending)
	{
		Frame	   *frame = watch->parting;

		watch->parting = NULL;
		if (frame != NULL)
			watch_send(watch, frame);
		else
		{
			watch->ended = true;
			http_stream_end(http);
		}
		return;
	}

	watch->roomless = watch_next_event(watch) != NULL &&
		!answer_room_ask(http_user_number(http), SEND_ROOM, false);
	if (watch->roomless)
		return;
	gathered.count = gathered.size = 0;
	while (more && !watch->ending && (event = watch_next_event(watch)) != NULL)
	{
		Frame	   *frame = watch_take(watch, event);

		if (frame != NULL)
			more = gathered_add(&gathered, frame);
		watch_step(watch);
	}
	if (gathered.count > 0)
		watch_send(watch, gathered_join(&gathered));
	else if (watch->ending)
		watch_pump(watch);
}

static void
watch_writable(void *state)
{
	Watch	   *watch = state;

	if (watch->sending_piece.busy && piece_send_more(&watch->sending_piece, watch->exchange->http))
		return;
	frame_release(watch->sending);
	watch->sending = NULL;
	watch_pump(watch);
}

/* ---------- callbacks of the feed ---------- */

static void
follower_pump(Follower *follower)
{
	watch_pump((Watch *) follower);
}

static void
follower_dropping(Follower *follower, Event *event)
{
	Watch	   *watch = (Watch *) follower;

	watch_pump(watch);
	if (!follower->following || feed_next(follower) != event)
		return;
	if (event_type(watch, event) == EVENT_TYPE_COUNT)
	{
		watch_take(watch, event);
		follower->cursor++;
		return;
	}
	metrics_count(COUNTER_WATCH_OVERFLOWS, 1);
	watch_end(watch);
}

static void
follower_unfollow(Follower *follower)
{
	Watch	   *watch = (Watch *) follower;

	watch->must_read = true;
}

static void
follower_bookmark(Follower *follower, int64_t version, Frame *frame)
{
	Watch	   *watch = (Watch *) follower;

	/*
	 * The position may be above the bookmark's version, when it has moved past events that do not concern this watch.
	 * The bookmark must not have a version below sent.
	 */
	if (watch->ending || watch->initial != NULL || !follower->following || http_stream_busy(watch->exchange->http) ||
		watch_next_event(watch) != NULL || watch->sent > version)
		return;
	follower->wants_bookmark = false;
	watch->sent = version;
	watch->bookmark_at = loop_now() + BOOKMARK_LEAST_MS + arc4random_uniform(BOOKMARK_SPREAD_MS);
	watch_send(watch, frame_hold(frame));
}

static const FeedEvents feed_events = {
	.pump = follower_pump,
	.dropping = follower_dropping,
	.unfollow = follower_unfollow,
	.bookmark = follower_bookmark,
};

/* ---------- the clock ---------- */

static void
watch_tick(Watch *watch, uint64_t now)
{
	if (watch->ending)
	{
		if (now > watch->ends_at + PARTING_MS && !watch->ended)
		{
			watch->ended = true;
			http_abort(watch->exchange->http);
		}
		return;
	}
	if (now >= watch->ends_at)
	{
		watch_end(watch);
		watch_pump(watch);
		return;
	}
	if (watch->retry_at != 0 && now >= watch->retry_at)
	{
		if (watch->initial != NULL)
		{
			watch->retry_at = 0;
			pieces_fetch(&watch->initial->pieces);
		}
		watch_pump(watch);
	}
	if (watch->roomless)
		watch_pump(watch);
	if (watch->bookmarks && watch->initial == NULL)
	{
		if (!watch->last_bookmark && now + LAST_BOOKMARK_MS + TICK_MS > watch->ends_at)
		{
			watch->last_bookmark = true;
			watch->follower.wants_bookmark = true;
		}
		if (watch->follower.wants_bookmark || now >= watch->bookmark_at)
			feed_bookmark(&watch->follower);
	}
}

static void
tick(void *state)
{
	uint64_t	now = loop_now();
	Watch	   *next;

	for (Watch *watch = watches; watch != NULL; watch = next)
	{
		next = watch->next;
		watch_tick(watch, now);
	}
	loop_timer_start(&tick_timer, TICK_MS, tick, NULL);
}

/* Some room for answers was released. */
static void
room_released(void *state)
{
	Watch	   *next;

	for (Watch *watch = watches; watch != NULL; watch = next)
	{
		next = watch->next;
		if (watch->roomless)
			watch_pump(watch);
	}
}

void
watches_start(int worker)
{
	answer_room_on_release(room_released, NULL);
	feed_start(worker, &feed_events);
	loop_timer_start(&tick_timer, TICK_MS, tick, NULL);
}

/* Ends the next few watches.  If all clients reconnected at once, they would overload the other proxies. */
static void
end_some(void *state)
{
	uint64_t	now = loop_now();
	size_t		count = ends_in_step;
	Watch	   *next;

	for (Watch *watch = watches; watch != NULL && count > 0; watch = next)
	{
		next = watch->next;
		if (watch->ending || now < watch->began_at + SHORT_MS)
			continue;
		count--;
		watch_end(watch);
		watch_pump(watch);
	}
	/* Repeats, because some watches have just begun or will begin. */
	loop_timer_start(&end_timer, END_STEP_MS, end_some, NULL);
}

void
watches_end(uint64_t milliseconds)
{
	size_t		steps = (size_t) (milliseconds / END_STEP_MS) + 1;
	size_t		open = 0;

	for (Watch *watch = watches; watch != NULL; watch = watch->next)
		open++;
	ends_in_step = open / steps + 1 > ENDS_IN_STEP ? open / steps + 1 : ENDS_IN_STEP;
	end_some(NULL);
}

/* ---------- start ---------- */

static void
initial_arrived(void *state)
{
	watch_pump(state);
}

static void
initial_failed(void *state, PgOutcome outcome, const PgError *error)
{
	Watch	   *watch = state;

	/* The version of the state may have been compacted while it was sent. */
	if (error != NULL && strcmp(error->sqlstate, "KR410") == 0)
		watch_expire(watch, "The resourceVersion for the provided watch is too old.");
	else if (reply_is_transient(outcome, error))
	{
		/* The same piece can be fetched again, because the cursor has not moved. */
		watch->retry_at = loop_now() + RETRY_MS;
		return;
	}
	else
	{
		Arena		arena;

		arena_init(&arena);
		watch_fail(watch, reply_failure(&arena, error));
		arena_free(&arena);
	}
	watch_pump(watch);
}

static uint64_t
initial_time_left(void *state)
{
	return (uint64_t) config.request_timeout * 1000;
}

static bool
watch_parse_selectors(Watch *watch, const WatchStart *start)
{
	JsonText	labels = start->labels;
	JsonText	fields = start->fields;
	const char *error = NULL;

	if (labels.len > 0)
	{
		labels.bytes = arena_strndup(&watch->arena, labels.bytes, labels.len);
		watch->labels = selector_parse(&watch->arena, labels.bytes, labels.len, &error);
	}
	if (fields.len > 0 && error == NULL)
	{
		fields.bytes = arena_strndup(&watch->arena, fields.bytes, fields.len);
		watch->fields = field_selector_parse(&watch->arena, fields.bytes, fields.len, &error);
	}
	return (labels.len == 0 || watch->labels != NULL) && (fields.len == 0 || watch->fields != NULL);
}

static Initial *
watch_prepare_initial(Watch *watch, const WatchStart *start)
{
	Initial    *initial = allocate(sizeof(Initial));

	initial->pieces.complete = true;
	if (start->end_bookmark.len > 0)
		initial->end_bookmark = frame_new(start->end_bookmark.bytes, start->end_bookmark.len);
	if (start->cursor != NULL)
	{
		initial->listing = true;
		initial->pieces.complete = false;
		initial->pieces.statement = start->query != NULL ? PG_READ_LIST : PG_LIST;
		initial->pieces.query = start->query;
		initial->pieces.request = watch->exchange->request;
		replace_text(&initial->pieces.cursor, start->cursor);
		initial->pieces.try_standby = true;
		initial->pieces.exempt = watch->exchange->exempt;
		initial->pieces.holding.user = http_user_number(watch->exchange->http);
		initial->pieces.exchange = watch->exchange;
		initial->pieces.time_left = initial_time_left;
		initial->pieces.arrived = initial_arrived;
		initial->pieces.failed = initial_failed;
		initial->pieces.state = watch;
	}
	return initial;
}

static void
watch_begun(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Exchange   *exchange = state;
	Reply		reply;
	WatchStart	start;
	Watch	   *watch;
	uint64_t	now = loop_now();
	int32_t		timeout;

	if (!reply_call_ended(exchange, outcome, error))
		return;
	reply = reply_read(&exchange->arena, result, 0);
	/* A Status, or the one ERROR event of a watch whose version is too old. */
	if (reply.code != 200 || !watch_start_read(exchange, result, &start))
	{
		reply_send(exchange, &reply, result);
		return;
	}
	watch = allocate(sizeof(Watch));
	arena_init(&watch->arena);
	watch->exchange = exchange;
	watch->follower.representation = representation_number(start.representation);
	watch->follower.first_representation = representation_number(start.first_representation);
	if (!watch_parse_selectors(watch, &start) || watch->follower.representation < 0 ||
		watch->follower.first_representation < 0)
	{
		arena_free(&watch->arena);
		free(watch);
		pg_result_free(result);
		reply_status(exchange, 500, "InternalError", "Internal error occurred: the watch could not be set up", NULL);
		return;
	}
	if (watch->follower.first_representation == watch->follower.representation)
		watch->follower.first_representation = -1;
	if (start.namespace_name.len > 0)
		replace_text(&watch->namespace_name, start.namespace_name.bytes);
	watch->position = watch->sent = start.version;
	watch->bookmarks = start.bookmarks;
	watch->rows = READ_ROWS_FIRST;
	timeout = start.timeout;
	if (timeout <= 0)
		timeout = (int32_t) (TIMEOUT_LEAST_S + arc4random_uniform(TIMEOUT_SPREAD_S));
	watch->began_at = now;
	watch->ends_at = now + (uint64_t) timeout * 1000;
	watch->bookmark_at = now + BOOKMARK_LEAST_MS + arc4random_uniform(BOOKMARK_SPREAD_MS);

	watch->next = watches;
	if (watches != NULL)
		watches->previous = watch;
	watches = watch;
	count_watch(exchange, 1);
	feed_attach(&watch->follower, start.lane);
	watch->initial = watch_prepare_initial(watch, &start);
	exchange_hold(exchange, watch, watch_closed, NULL);
	loop_timer_stop(&exchange->deadline);

	/* The first byte makes libh2o send the headers.  JSON ignores the space before the first frame. */
	reply_stream_begin(exchange, &reply, watch_writable, watch);
	pg_result_free(result);
	http_stream_send(exchange->http, " ", 1);
	pieces_fetch(&watch->initial->pieces);
}

void
watch_start(Exchange *exchange)
{
	exchange->call = watch_call(exchange);
	if (exchange->call == NULL)
		return;
	if (exchange->exempt)
		pg_exempt(exchange->call);
	pg_send(exchange->call, false, exchange_time_left(exchange), watch_begun, exchange);
}
