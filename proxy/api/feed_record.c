/*-------------------------------------------------------------------------
 *
 * feed_record.c
 *	  The records that the feed process sends to the workers: their bytes.
 *
 * Both ends are processes of one program, so numbers are written as they are in
 * memory.  A text is its length and its bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "api/feed_record.h"

#include <string.h>

#define ABSENT UINT32_MAX		/* the length of a text whose bytes are NULL */

/* The numbers of an event, which precede its texts. */
typedef struct EventHead
{
	int64_t		at;
	uint32_t	label_count;
	uint32_t	old_label_count;
	uint32_t	view_count;
	char		operation;
	bool		labels_changed;
} EventHead;

/* ---------- writing ---------- */

static void
put(FeedRecordWriter *writer, const void *bytes, size_t size)
{
	if (writer->bytes != NULL && size > 0)
		memcpy(writer->bytes + writer->size, bytes, size);
	writer->size += size;
}

static void
put_text(FeedRecordWriter *writer, JsonText text)
{
	uint32_t	len = text.bytes != NULL ? (uint32_t) text.len : ABSENT;

	put(writer, &len, sizeof(len));
	if (text.bytes != NULL)
		put(writer, text.bytes, text.len);
}

static void
put_labels(FeedRecordWriter *writer, const EventLabel *labels, size_t count)
{
	for (size_t i = 0; i < count; i++)
	{
		put_text(writer, labels[i].key);
		put_text(writer, labels[i].value);
	}
}

void
feed_record_state(FeedRecordWriter *writer, const FeedRecordHead *head, const int *representations, size_t count)
{
	put(writer, head, sizeof(*head));
	for (size_t i = 0; i < count; i++)
		put_text(writer, representation_token(representations[i]));
}

void
feed_record_event(FeedRecordWriter *writer, const FeedRecordHead *head, const Event *event)
{
	EventHead	event_head;

	/* Padding bytes must not hold old memory. */
	memset(&event_head, 0, sizeof(event_head));
	event_head.at = event->at;
	event_head.label_count = (uint32_t) event->label_count;
	event_head.labels_changed = event->old_labels != event->labels;
	event_head.old_label_count = event_head.labels_changed ? (uint32_t) event->old_label_count : 0;
	event_head.view_count = (uint32_t) event->view_count;
	event_head.operation = event->operation;
	put(writer, head, sizeof(*head));
	put(writer, &event_head, sizeof(event_head));
	put_text(writer, event->namespace_name);
	put_text(writer, event->name);
	put_labels(writer, event->labels, event_head.label_count);
	put_labels(writer, event->old_labels, event_head.old_label_count);
	for (size_t i = 0; i < event->view_count; i++)
	{
		put_text(writer, representation_token(event->views[i].representation));
		put_text(writer, event->views[i].object);
		put_text(writer, event->views[i].old_object);
	}
}

/* ---------- reading ---------- */

static bool
take(FeedRecordReader *reader, void *value, size_t size)
{
	if ((size_t) (reader->end - reader->next) < size)
		return false;
	memcpy(value, reader->next, size);
	reader->next += size;
	return true;
}

static JsonText
take_text(FeedRecordReader *reader)
{
	JsonText	text = {NULL, 0};
	uint32_t	len;

	if (!take(reader, &len, sizeof(len)) || len == ABSENT || (size_t) (reader->end - reader->next) < len)
		return text;
	text.bytes = reader->next;
	text.len = len;
	reader->next += len;
	return text;
}

static EventLabel *
take_labels(FeedRecordReader *reader, Arena *arena, size_t count)
{
	EventLabel *labels = arena_alloc0(arena, (count + 1) * sizeof(EventLabel));

	for (size_t i = 0; i < count; i++)
	{
		labels[i].key = take_text(reader);
		labels[i].value = take_text(reader);
	}
	return labels;
}

FeedRecordHead
feed_record_begin(FeedRecordReader *reader, const RingRecord *record)
{
	FeedRecordHead head = {.kind = -1};

	reader->next = record->bytes;
	reader->end = record->bytes + record->size;
	take(reader, &head, sizeof(head));
	return head;
}

bool
feed_record_token(FeedRecordReader *reader, JsonText *token)
{
	if (reader->next == reader->end)
		return false;
	*token = take_text(reader);
	return token->bytes != NULL;
}

Event *
feed_record_read_event(FeedRecordReader *reader, const FeedRecordHead *head, Arena *arena)
{
	Event	   *event = arena_alloc0(arena, sizeof(Event));
	EventHead	event_head;

	memset(&event_head, 0, sizeof(event_head));
	take(reader, &event_head, sizeof(event_head));
	event->version = head->version;
	event->at = event_head.at;
	event->operation = event_head.operation;
	event->namespace_name = take_text(reader);
	event->name = take_text(reader);
	event->label_count = event->old_label_count = event_head.label_count;
	event->labels = event->old_labels = take_labels(reader, arena, event->label_count);
	if (event_head.labels_changed)
	{
		event->old_label_count = event_head.old_label_count;
		event->old_labels = take_labels(reader, arena, event->old_label_count);
	}
	event->views = arena_alloc0(arena, (event_head.view_count + 1) * sizeof(EventView));
	for (uint32_t i = 0; i < event_head.view_count; i++)
	{
		EventView  *view = &event->views[event->view_count++];

		view->representation = representation_number(take_text(reader));
		view->object = take_text(reader);
		view->old_object = take_text(reader);
	}
	return event;
}
