/*-------------------------------------------------------------------------
 *
 * feed.h
 *	  The change log of a lane, read once for all watchers of this worker.
 *
 * A feed exists while its lane has watchers.  It reads the changes after its
 * position and keeps the newest ones in a ring (1,000 events or 8 MB).  Each
 * watcher has a cursor in the ring: the ring is its queue and needs no memory
 * per watcher.  When the ring must drop an event that a watcher has not taken
 * yet (its client does not read), that stream ends cleanly and the client
 * resumes.
 *
 * position: the feed has read everything up to it.  Only answers of
 * api_changes move it; wake-ups and polls are hints.  Events carry the
 * representations that were in use when they were read.  A watcher reads the
 * log on its own until it has caught up, when its position is older than the
 * ring or than the first event with its representation.
 *
 * An event is encoded at most once per type and representation.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FEED_H
#define FEED_H

#include "db/pg.h"

/* Bytes that several streams may send at the same time; reference-counted. */
typedef struct Frame
{
	unsigned	references;
	size_t		len;
	char		bytes[];
} Frame;

extern Frame *frame_new(const char *bytes, size_t len);
extern Frame *frame_hold(Frame *frame);
extern void frame_release(Frame *frame);	/* accepts NULL */

typedef enum EventType
{
	EVENT_ADDED,
	EVENT_MODIFIED,
	EVENT_DELETED,
	EVENT_TYPE_COUNT
} EventType;

typedef struct EventLabel
{
	JsonText	key;
	JsonText	value;
} EventLabel;

/* One representation of an event. */
typedef struct EventView
{
	int			representation;
	JsonText	object;
	JsonText	old_object;		/* bytes NULL: the labels did not change */
	Frame	   *frames[EVENT_TYPE_COUNT];
} EventView;

typedef struct Changes Changes;

typedef struct Event
{
	Changes    *changes;		/* the answer that the pointers below point into */
	int64_t		version;
	char		operation;		/* A, M, D or X */
	JsonText	namespace_name;
	JsonText	name;
	EventLabel *labels;
	size_t		label_count;
	EventLabel *old_labels;		/* of the state before; the same as labels when they did not change */
	size_t		old_label_count;
	EventView  *views;
	size_t		view_count;
	size_t		size;			/* of its objects */
} Event;

/* The answer of one api_changes call; reference-counted, one reference for each event in the ring. */
struct Changes
{
	unsigned	references;
	Arena		arena;
	PgResult   *result;
	Event	   *events;
	size_t		count;
	size_t		size;
};

extern Changes *changes_new(PgResult *result, const int *representations, size_t representation_count);
extern void changes_release(Changes *changes);

/*
 * The frame of an event; the event keeps ownership.  NULL when the event does not carry the object in the
 * representation.
 */
extern Frame *event_frame(Event *event, EventType type, int representation);

/* Maps tokens of representations to small numbers, which stay valid as long as the worker runs. */
extern int	representation_number(JsonText token);
extern JsonText representation_token(int number);

typedef struct Feed Feed;

/* The part of a watcher that its feed uses; embedded in the Watch of watch.c. */
typedef struct Follower
{
	Feed	   *feed;
	struct Follower *previous;
	struct Follower *next;
	uint64_t	cursor;			/* number of the next event to look at, when following */
	bool		following;		/* reads from the ring, not on its own */
	bool		wants_bookmark;
	int			representation;
	int			first_representation;	/* of the first event on the stream; -1 once that was sent */
	bool		in_use;			/* the feed reads representation for this follower, */
	bool		first_in_use;	/* and first_representation */
} Follower;

/* Callbacks of watch.c; set once. */
typedef struct FeedEvents
{
	/* There may be events to send. */
	void		(*pump) (Follower *follower);
	/* The ring is about to drop the event at the cursor; the callback moves the cursor or ends the watch. */
	void		(*dropping) (Follower *follower, Event *event);
	/* The log no longer has the feed's position.  The follower must check its own position. */
	void		(*unfollow) (Follower *follower);
	void		(*bookmark) (Follower *follower, int64_t version, Frame *frame);
} FeedEvents;

/* Begins to poll. */
extern void feed_start(const FeedEvents *events);

/* False after two failed polls in a row, or before the first good one. */
extern bool feed_database_answers(void);

/* This worker committed a write. */
extern void feed_wake(int lane, int64_t version);

/* Another worker committed a write. */
extern void feed_note_version(int lane, int64_t version);

extern void feed_attach(Follower *follower, int lane);
extern void feed_detach(Follower *follower);

/* Starts to follow the ring if the ring has all events above position in the follower's representations. */
extern bool feed_follow(Follower *follower, int64_t position);

/* Stops asking for the first representation. */
extern void feed_first_sent(Follower *follower);

/* The event at the cursor; NULL when all have been looked at. */
extern Event *feed_next(Follower *follower);

/* -1 while the position is unknown. */
extern int64_t feed_position(const Feed *feed);
extern int	feed_lane(const Feed *feed);

/* Asks for a bookmark; FeedEvents.bookmark delivers it, now or later. */
extern void feed_bookmark(Follower *follower);

#endif							/* FEED_H */
