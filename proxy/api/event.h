/*-------------------------------------------------------------------------
 *
 * event.h
 *	  Events of the change log, and the frames in which watchers get them.
 *
 * An event has its object in one or several representations.  The database
 * renders them, or, in the variant sql, this file.  A frame is encoded at most
 * once for each type of event and representation, and all streams of the
 * process share it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVENT_H
#define EVENT_H

#include "db/pg.h"

/* Bytes that several streams may send at the same time; reference-counted.  frame_new() copies the bytes. */
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
	JsonText	old_object;		/* state before the change; bytes NULL when the labels did not change */
	Frame	   *frames[EVENT_TYPE_COUNT];
} EventView;

typedef struct Changes Changes;

typedef struct Event
{
	Changes    *changes;		/* owns the memory behind the pointers below */
	int64_t		version;
	int64_t		at;				/* time of the change: microseconds since 2000; INT64_MIN: not known */
	char		operation;		/* A added, M modified, D deleted; X: version is where the log begins, above the asked
								 * one */
	JsonText	namespace_name;
	JsonText	name;
	EventLabel *labels;
	size_t		label_count;
	EventLabel *old_labels;		/* labels before the change; the same pointer as labels when they did not change */
	size_t		old_label_count;
	EventView  *views;
	size_t		view_count;
	size_t		size;			/* bytes of its objects */
} Event;

/* Events that were read together; reference-counted. */
struct Changes
{
	unsigned	references;
	Arena		arena;
	PgResult   *result;			/* the answer, which has the texts of the events; NULL: the texts are elsewhere */
	Event	   *events;
	size_t		count;
	size_t		size;
};

/* Returns a call that reads at most so many rows of changes of a lane after a version. */
extern PgCall *changes_call(int lane, int64_t after, const int *representations, size_t representation_count, int rows);

/* Reads the answer to that call and takes the ownership of result.  In the variant sql it renders the objects. */
extern Changes *changes_new(PgResult *result, int lane, const int *representations, size_t representation_count);

/* Returns the bytes of memory that the changes take. */
extern size_t changes_bytes(const Changes *changes);

/* Returns a copy of one event, with the views of these representations only. */
extern Changes *changes_of_event(const Event *event, const int *representations, size_t representation_count);
extern void changes_release(Changes *changes);

/* Returns the frame of an event, which the event owns; NULL when the event does not have that representation. */
extern Frame *event_frame(Event *event, EventType type, int representation);

/* Returns the frame of a bookmark, which the caller owns; NULL in the variant c, where the database renders it. */
extern Frame *bookmark_frame(int lane, int representation, int64_t version);

/*
 * Map tokens of representations to small numbers and back.  A number is valid until the process ends; -1: no number is
 * left.
 */
extern int	representation_number(JsonText token);
extern JsonText representation_token(int number);

#endif							/* EVENT_H */
