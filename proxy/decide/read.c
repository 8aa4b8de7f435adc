/*-------------------------------------------------------------------------
 *
 * read.c
 *	  Rows of stored objects as the bytes of answers.
 *
 *-------------------------------------------------------------------------
 */
#include "decide/read.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "codec/packed.h"

#define ROOM_LEAST ((size_t) 64 * 1024)

/* Input and output of rendering one row. */
typedef struct Rendering
{
	StrBuf	   *buf;
	Arena	   *scratch;
	const ReadForm *form;
	ReadPart	part;
	const ReadRow *row;
	JsonText	body;
	int64_t		now;
} Rendering;

static void
render_part(StrBuf *buf, const Rendering *rendering, JsonText body)
{
	const Definition *definition = rendering->form->definition;
	const Transform *transform = &rendering->form->transform;
	const ReadRow *row = rendering->row;

	switch (rendering->part)
	{
		case READ_ANSWER:
			render_object(buf, definition, transform, false, row->metadata, body, row->version, rendering->now);
			strbuf_putc(buf, '\n');
			break;
		case READ_ITEM:
			render_item(buf, definition, transform, row->metadata, body, row->version, rendering->now);
			break;
		case READ_ADDED:
			render_event(buf, "ADDED", definition, transform, row->metadata, body, row->version, rendering->now);
			break;
		case READ_CHANGED:
			render_object(buf, definition, transform, true, row->metadata, body, row->version, rendering->now);
			break;
	}
}

/* Renders a row that must be parsed.  The trees are in the scratch arena; only the text is kept. */
static void
render_parsed(void *state)
{
	Rendering  *rendering = state;
	StrBuf		text;

	strbuf_init(&text, rendering->scratch);
	render_part(&text, rendering, rendering->body);
	strbuf_append(rendering->buf, text.bytes, text.len);
}

void
read_room_free(ReadRoom *room)
{
	free(room->bytes);
	*room = (ReadRoom) {NULL, 0};
}

/* Returns the text of a body; bytes NULL when the body is damaged. */
static JsonText
unpack(ReadRoom *room, JsonText packed)
{
	size_t		length = packed_length(packed);

	if (packed.bytes == NULL || packed.len == 0)
		return (JsonText) {"", 0};
	if (length > room->size || room->bytes == NULL)
	{
		read_room_free(room);
		room->size = length > ROOM_LEAST ? length : ROOM_LEAST;
		room->bytes = allocate(room->size);
	}
	return packed_text(packed, room->bytes);
}

ReadOutcome
read_render(StrBuf *buf, ReadRoom *room, const ReadForm *form, ReadPart part, const ReadRow *row, int64_t now)
{
	Arena		scratch;
	Rendering	rendering = {buf, &scratch, form, part, row, unpack(room, row->body), now};
	ArenaLimit	limit;

	if (rendering.body.bytes == NULL)
		return READ_DAMAGED;
	if (render_splices(&form->transform))
	{
		render_part(buf, &rendering, rendering.body);
		return READ_DONE;
	}
	arena_init(&scratch);
	limit = arena_run(&scratch, row->metadata.len + rendering.body.len, render_parsed, &rendering);
	arena_free(&scratch);
	return limit == ARENA_WITHIN ? READ_DONE : READ_COSTLY;
}
