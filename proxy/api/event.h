/*-------------------------------------------------------------------------
 *
 * event.h
 *	  Events of the change log, and the frames in which watchers get them.
 *
 * An event comes with its object in one or several representations, rendered
 * by the database, or here where the proxy decides.  A frame is encoded at most once for each type of event and
 * representation, and shared by all streams of the process.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVENT_H
#define EVENT_H

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
	Changes    *changes;		/* owns the memory behind the pointers below */
	int64_t		version;
	int64_t		at;				/* time of the change: microseconds since 2000; INT64_MIN: not known */
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

/* Events that were read together; reference-counted. */
struct Changes
{
	unsigned	references;
	Arena		arena;
	PgResult   *result;			/* the answer of api_changes; NULL: the events have their texts elsewhere */
	Event	   *events;
	size_t		count;
	size_t		size;
};

/* A call for the changes of a lane after a version. */
extern PgCall *changes_call(int lane, int64_t after, const int *representations, size_t representation_count, int rows);

/* The answer to such a call; where the proxy decides, the objects are rendered here. */
extern Changes *changes_new(PgResult *result, int lane, const int *representations, size_t representation_count);

/* The memory of such an answer. */
extern size_t changes_bytes(const Changes *changes);

/* One event alone: a copy, with the views of these representations only. */
extern Changes *changes_of_event(const Event *event, const int *representations, size_t representation_count);
extern void changes_release(Changes *changes);

/*
 * The frame of an event; the event keeps ownership.  NULL when the event does not carry the object in the
 * representation.
 */
extern Frame *event_frame(Event *event, EventType type, int representation);

/* The frame of a bookmark, which the caller owns; NULL where the database renders it. */
extern Frame *bookmark_frame(int lane, int representation, int64_t version);

/* Maps tokens of representations to small numbers, which last as long as the process; -1: no number is left. */
extern int	representation_number(JsonText token);
extern JsonText representation_token(int number);

#endif							/* EVENT_H */
