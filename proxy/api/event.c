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
#include <time.h>

#include "api/registry.h"
#include "base/allocate.h"
#include "decide/read.h"

#define REPRESENTATIONS 256		/* the largest number of representations in a process */

/* Columns of the objects: arrays in rows of api_changes(), stored objects in rows of api_read_changes(). */
#define COLUMN_OBJECTS 7
#define COLUMN_METADATA 7
#define STORED_COLUMNS 11

/* Memory and forms for rendering an answer. */
typedef struct Renderer
{
	const Registry *registry;
	int			lane;
	ReadRoom   *room;
} Renderer;

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

/* Reads the representations that the database has rendered. */
static void
read_views(const PgResult *result, Event *event, size_t row, const int *representations, size_t representation_count)
{
	PgArray		objects = pg_array(result, row, COLUMN_OBJECTS);
	PgArray		old_objects = pg_array(result, row, COLUMN_OBJECTS + 1);

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

/* ---------- representations that the proxy renders ---------- */

/* Finds the form of a representation.  False when the registry does not have its version, or only a damaged one. */
static bool
representation_form(const Registry *registry, int lane, int representation, ReadForm *form)
{
	const char *token = tokens[representation];
	const char *space = strchr(token, ' ');
	const Served *served;

	if (space == NULL || !transform_parse(space + 1, &form->transform))
		return false;
	served = registry_served(registry, lane, (JsonText) {token, (size_t) (space - token)});
	if (served == NULL)
		return false;
	form->definition = served->definition;
	return true;
}

/* Renders the state of an object; bytes are NULL when the row has no such state, or it cannot be rendered. */
static JsonText
render_state(Changes *changes, ReadRoom *room, const ReadForm *form, size_t row, int column)
{
	ReadRow		state = {
		.version = pg_int8(changes->result, row, 0),
		.metadata = pg_text(changes->result, row, column),
		.body = pg_text(changes->result, row, column + 1),
	};
	StrBuf		buf;

	if (pg_is_null(changes->result, row, column))
		return (JsonText) {NULL, 0};
	strbuf_init(&buf, &changes->arena);
	if (read_render(&buf, room, form, READ_CHANGED, &state, (int64_t) time(NULL)) != READ_DONE)
		return (JsonText) {NULL, 0};
	return (JsonText) {strbuf_finish(&buf), buf.len};
}

/* Renders the views of an event.  A view that cannot be rendered is left out: its watches end, and clients resume. */
static void
render_views(Changes *changes, const Renderer *renderer, Event *event, size_t row, const int *representations,
			 size_t representation_count)
{
	ReadForm	form;

	for (size_t i = 0; i < representation_count; i++)
	{
		EventView  *view = &event->views[event->view_count];

		if (!representation_form(renderer->registry, renderer->lane, representations[i], &form))
			continue;
		view->object = render_state(changes, renderer->room, &form, row, COLUMN_METADATA);
		view->old_object = render_state(changes, renderer->room, &form, row, COLUMN_METADATA + 2);
		if (view->object.bytes == NULL)
			continue;
		view->representation = representations[i];
		event->view_count++;
		event->size += view->object.len + view->old_object.len;
	}
}

static JsonText
keep_text(Arena *arena, JsonText text)
{
	return (JsonText) {arena_strndup(arena, text.bytes, text.len), text.len};
}

/* Copies the texts of an event other than its objects into the arena, so that the rows can be freed. */
static void
keep_texts(Arena *arena, Event *event)
{
	bool		labels_changed = event->old_labels != event->labels;

	event->namespace_name = keep_text(arena, event->namespace_name);
	event->name = keep_text(arena, event->name);
	for (size_t i = 0; i < event->label_count; i++)
	{
		event->labels[i].key = keep_text(arena, event->labels[i].key);
		event->labels[i].value = keep_text(arena, event->labels[i].value);
	}
	for (size_t i = 0; labels_changed && i < event->old_label_count; i++)
	{
		event->old_labels[i].key = keep_text(arena, event->old_labels[i].key);
		event->old_labels[i].value = keep_text(arena, event->old_labels[i].value);
	}
}

/* ---------- answers ---------- */

/* Reads all columns of a row except the columns of the objects. */
static void
read_event(Changes *changes, Event *event, size_t row, size_t representation_count)
{
	PgResult   *result = changes->result;

	/* The column of the old object is not null if the labels changed; the two calls have it at different places. */
	bool		labels_changed = !pg_is_null(result, row, pg_columns(result) == STORED_COLUMNS ? COLUMN_METADATA + 2 :
											 COLUMN_OBJECTS + 1);
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
}

PgCall *
changes_call(int lane, int64_t after, const int *representations, size_t representation_count, int rows)
{
	Registry   *registry = registry_acquire();
	bool		stored = pg_variant() == PG_VARIANT_SQL;
	PgCall	   *call = pg_call_new(stored ? PG_READ_CHANGES : PG_CHANGES);
	JsonText   *representation = allocate((representation_count + 1) * sizeof(JsonText));
	bool		needs_body = false;
	ReadForm	form;

	for (size_t i = 0; i < representation_count; i++)
	{
		representation[i] = representation_token(representations[i]);
		needs_body = needs_body || (stored && representation_form(registry, lane, representations[i], &form) &&
									render_needs_body(form.definition, &form.transform));
	}
	pg_add_int4(call, lane);
	pg_add_int8(call, after);
	if (stored)
		pg_add_int4(call, needs_body ? 1 : 0);
	else
		pg_add_text_array(call, representation, representation_count);
	pg_add_int4(call, rows);
	free(representation);
	registry_release(registry);
	return call;
}

size_t
changes_bytes(const Changes *changes)
{
	return changes->result != NULL ? pg_result_bytes(changes->result) : changes->arena.taken;
}

Changes *
changes_new(PgResult *result, int lane, const int *representations, size_t representation_count)
{
	Registry   *registry = registry_acquire();
	ReadRoom	room = {NULL, 0};
	Renderer	renderer = {registry, lane, &room};
	bool		stored = pg_columns(result) == STORED_COLUMNS;
	Changes    *changes = allocate(sizeof(Changes));

	changes->references = 1;
	arena_init(&changes->arena);
	changes->result = result;
	changes->count = pg_rows(result);
	changes->events = arena_alloc0(&changes->arena, (changes->count + 1) * sizeof(Event));
	for (size_t row = 0; row < changes->count; row++)
	{
		Event	   *event = &changes->events[row];

		read_event(changes, event, row, representation_count);
		if (stored)
		{
			render_views(changes, &renderer, event, row, representations, representation_count);
			keep_texts(&changes->arena, event);
		}
		else
			read_views(result, event, row, representations, representation_count);
		changes->size += event->size;
	}
	if (stored)
	{
		pg_result_free(result);
		changes->result = NULL;
	}
	read_room_free(&room);
	registry_release(registry);
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

Frame *
bookmark_frame(int lane, int representation, int64_t version)
{
	Registry   *registry = registry_acquire();
	Frame	   *frame = NULL;
	ReadForm	form;
	Arena		arena;
	StrBuf		buf;

	arena_init(&arena);
	if (representation_form(registry, lane, representation, &form))
	{
		strbuf_init(&buf, &arena);
		render_bookmark(&buf, form.definition, &form.transform, version, false);
		frame = frame_new(buf.bytes, buf.len);
	}
	arena_free(&arena);
	registry_release(registry);
	return frame;
}
