/*-------------------------------------------------------------------------
 *
 * event.c
 *	  Events of the change log, and the frames in which watchers get them.
 *
 *-------------------------------------------------------------------------
 */
#include "api/event.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

#define REPRESENTATIONS 256		/* known to a process */

static char *tokens[REPRESENTATIONS];
static int	token_count;

/* ---------- frames and representations ---------- */

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

/* ---------- events ---------- */

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
	event->at = pg_is_null(result, row, 4) ? INT64_MIN : pg_int8(result, row, 4);
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

static JsonText
copy_text(char **room, JsonText text)
{
	JsonText	copy = {text.bytes != NULL ? *room : NULL, text.len};

	if (text.bytes == NULL)
		return text;
	memcpy(*room, text.bytes, text.len);
	*room += text.len;
	return copy;
}

static size_t
label_bytes(const EventLabel *labels, size_t count)
{
	size_t		bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += labels[i].key.len + labels[i].value.len;
	return bytes;
}

static void
copy_labels(EventLabel *copies, char **room, const EventLabel *labels, size_t count)
{
	for (size_t i = 0; i < count; i++)
	{
		copies[i].key = copy_text(room, labels[i].key);
		copies[i].value = copy_text(room, labels[i].value);
	}
}

static bool
is_one_of(int number, const int *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
	{
		if (numbers[i] == number)
			return true;
	}
	return false;
}

Changes *
changes_of_event(const Event *event, const int *representations, size_t representation_count)
{
	bool		labels_changed = event->old_labels != event->labels;
	size_t		old_label_count = labels_changed ? event->old_label_count : 0;
	size_t		label_count = event->label_count + old_label_count;
	size_t		bytes = event->namespace_name.len + event->name.len + label_bytes(event->labels, event->label_count) +
	label_bytes(event->old_labels, old_label_count);
	size_t		view_count = 0;
	Changes    *changes;
	Event	   *copy;
	char	   *room;

	for (size_t i = 0; i < event->view_count; i++)
	{
		if (!is_one_of(event->views[i].representation, representations, representation_count))
			continue;
		view_count++;
		bytes += event->views[i].object.len + event->views[i].old_object.len;
	}

	/* One piece of memory: thousands of such events may be kept. */
	changes = allocate(sizeof(Changes) + sizeof(Event) + view_count * sizeof(EventView) +
					   label_count * sizeof(EventLabel) + bytes);
	copy = (Event *) (changes + 1);
	copy->views = (EventView *) (copy + 1);
	copy->labels = (EventLabel *) (copy->views + view_count);
	room = (char *) (copy->labels + label_count);
	changes->references = 1;
	arena_init(&changes->arena);
	changes->events = copy;
	changes->count = 1;

	copy->changes = changes;
	copy->version = event->version;
	copy->at = event->at;
	copy->operation = event->operation;
	copy->namespace_name = copy_text(&room, event->namespace_name);
	copy->name = copy_text(&room, event->name);
	copy->label_count = event->label_count;
	copy_labels(copy->labels, &room, event->labels, event->label_count);
	copy->old_labels = labels_changed ? copy->labels + event->label_count : copy->labels;
	copy->old_label_count = event->old_label_count;
	copy_labels(copy->old_labels, &room, event->old_labels, old_label_count);
	for (size_t i = 0; i < event->view_count; i++)
	{
		const EventView *view = &event->views[i];

		if (!is_one_of(view->representation, representations, representation_count))
			continue;
		copy->views[copy->view_count].representation = view->representation;
		copy->views[copy->view_count].object = copy_text(&room, view->object);
		copy->views[copy->view_count].old_object = copy_text(&room, view->old_object);
		copy->view_count++;
		copy->size += view->object.len + view->old_object.len;
	}
	changes->size = copy->size;
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
