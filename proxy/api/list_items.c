/*-------------------------------------------------------------------------
 *
 * list_items.c
 *	  The bytes of a piece of a list.
 *
 * The first row has the envelope of stored items: transform, apiVersion, kind,
 * whether the items are events, and whether items precede this piece.  Each
 * further row has a version, the metadata, and the body as it is stored:
 * mostly packed, so that the database sends a quarter of the bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "api/list_items.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/answers/render.h"
#include "api/reading.h"
#include "codec/packed.h"

#define COLUMN_BODY 4
#define COLUMN_CURSOR 5
#define COLUMN_ENVELOPE 6
#define COLUMN_VERSION 7
#define COLUMN_METADATA 8
#define COLUMN_DOCUMENT 9
#define COLUMN_TOKEN 10
#define COLUMN_REMAINING 11
#define COLUMNS 10

#define ENVELOPE_WORDS 4
#define ENVELOPE_BYTES 128		/* limit of the bytes that an item has beside its texts: member names, version,
								 * separator */

typedef struct Envelope
{
	Transform	transform;
	Definition	definition;		/* only api_version and kind */
	bool		event;
	bool		separated;		/* items precede the first one of the piece */
} Envelope;

static bool
has_envelope(const PgResult *piece)
{
	return pg_columns(piece) >= COLUMNS && !pg_is_null(piece, 0, COLUMN_ENVELOPE);
}

static bool
envelope_read(Arena *arena, JsonText text, Envelope *envelope)
{
	const char *words[ENVELOPE_WORDS];
	char	   *copy = arena_strndup(arena, text.bytes, text.len);
	char	   *rest = NULL;
	size_t		count = 0;

	for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
	{
		if (count == ENVELOPE_WORDS)
			return false;
		words[count++] = word;
	}
	if (count < ENVELOPE_WORDS || !transform_parse(words[0], &envelope->transform))
		return false;
	envelope->definition.api_version = words[1];
	envelope->definition.kind = words[2];
	envelope->event = strcmp(words[3], "event") == 0;
	envelope->separated = strcmp(words[3], "next") == 0;
	return render_splices(&envelope->transform);
}

/* Returns the sum of the lengths of all values of a piece that become bytes of the answer. */
static size_t
texts_length(const PgResult *piece, bool planned)
{
	bool		stored = planned || has_envelope(piece);
	size_t		rows = pg_rows(piece);
	size_t		len = stored ? rows * (ENVELOPE_BYTES + pg_text(piece, 0, COLUMN_ENVELOPE).len) : 0;

	for (size_t row = 0; row < rows; row++)
	{
		len += pg_text(piece, row, COLUMN_BODY).len;
		if (stored)
			len += pg_text(piece, row, COLUMN_METADATA).len + packed_length(pg_text(piece, row, COLUMN_DOCUMENT));
	}
	return len;
}

size_t
piece_room(const PgResult *piece, const ListForm *form)
{
	/* Indented items, and rows of a table, are larger than the stored texts. */
	size_t		times = form != NULL && !render_splices(&form->form.transform) ? 2 : 1;

	return pg_rows(piece) > 1 ? times * texts_length(piece, form != NULL) : pg_result_bytes(piece);
}

/* Allocates memory for unpacking the largest document of a piece. */
static char *
document_room(const PgResult *piece)
{
	size_t		most = 1;
	char	   *room;

	for (size_t row = 0; row < pg_rows(piece); row++)
	{
		size_t		length = packed_length(pg_text(piece, row, COLUMN_DOCUMENT));

		if (length > most)
			most = length;
	}
	room = malloc(most);
	if (room == NULL)
		abort();
	return room;
}

static bool
put_item(StrBuf *buf, const Envelope *envelope, const PgResult *piece, size_t row, char *room)
{
	JsonText	metadata = pg_text(piece, row, COLUMN_METADATA);
	JsonText	document = packed_text(pg_text(piece, row, COLUMN_DOCUMENT), room);
	int64_t		version = pg_int8(piece, row, COLUMN_VERSION);

	if (document.bytes == NULL)
		return false;
	if (envelope->event)
		render_event(buf, "ADDED", &envelope->definition, &envelope->transform, metadata, document, version, 0);
	else
		render_item(buf, &envelope->definition, &envelope->transform, metadata, document, version, 0);
	return true;
}

/* Appends the items of all rows of a piece; false when a row is damaged. */
static bool
put_items(StrBuf *buf, const Envelope *envelope, const PgResult *piece)
{
	char	   *room = document_room(piece);
	bool		separated = envelope->separated;
	bool		fits = true;

	for (size_t row = 0; fits && row < pg_rows(piece); row++)
	{
		JsonText	part = pg_text(piece, row, COLUMN_BODY);

		strbuf_append(buf, part.bytes, part.len);
		if (pg_is_null(piece, row, COLUMN_METADATA))
			continue;
		if (separated)
			strbuf_puts(buf, render_list_separator(&envelope->transform));
		fits = put_item(buf, envelope, piece, row, room);
		separated = !envelope->event;
	}
	free(room);
	return fits;
}

/* ---------- lists that the proxy has planned ---------- */

static ReadOutcome
render_rows(StrBuf *buf, const PgResult *piece, ListForm *form)
{
	ReadRoom	room = {NULL, 0};
	ReadOutcome outcome = READ_DONE;
	int64_t		now = (int64_t) time(NULL);

	for (size_t row = 1; outcome == READ_DONE && row < pg_rows(piece) - 1; row++)
	{
		ReadRow		read = {
			.version = pg_int8(piece, row, COLUMN_VERSION),
			.metadata = pg_text(piece, row, COLUMN_METADATA),
			.body = pg_text(piece, row, COLUMN_DOCUMENT),
		};

		if (form->follows && !form->events)
			strbuf_puts(buf, render_list_separator(&form->form.transform));
		outcome = read_render(buf, &room, &form->form, form->events ? READ_ADDED : READ_ITEM, &read, now);
		/* Only the first event of a table has its columns. */
		form->form.transform.columns = false;
		form->follows = true;
	}
	read_room_free(&room);
	return outcome;
}

/* Appends the items of a piece.  The first row is a reply; the last row has the cursor or the end of the list. */
static ReadOutcome
render_piece(StrBuf *buf, const PgResult *piece, ListForm *form)
{
	const Definition *definition = form->form.definition;
	size_t		last = pg_rows(piece) - 1;
	ReadOutcome outcome;

	if (!form->follows && !form->events)
		render_list_head(buf, definition, &form->form.transform);
	outcome = render_rows(buf, piece, form);
	if (outcome == READ_DONE && !form->events && pg_is_null(piece, last, COLUMN_CURSOR))
		render_list_tail(buf, definition, &form->form.transform, pg_int8(piece, last, COLUMN_VERSION),
						 pg_text(piece, last, COLUMN_TOKEN).bytes,
						 pg_is_null(piece, last, COLUMN_REMAINING) ? -1 : pg_int8(piece, last, COLUMN_REMAINING));
	return outcome;
}

JsonText
piece_bytes(const PgResult *piece, Arena *arena, ListForm *form, const PgError **error)
{
	size_t		rows = pg_rows(piece);
	Envelope	envelope = {0};
	StrBuf		buf;

	*error = &piece_unknown;
	if (rows == 1)
		return pg_text(piece, 0, COLUMN_BODY);
	strbuf_init(&buf, arena);
	strbuf_reserve(&buf, texts_length(piece, form != NULL) + 1);
	if (form != NULL)
	{
		ReadOutcome outcome = render_piece(&buf, piece, form);

		*error = read_fault(outcome);
		if (outcome != READ_DONE)
			return (JsonText) {NULL, 0};
	}
	else if (!has_envelope(piece))
	{
		for (size_t row = 0; row < rows; row++)
		{
			JsonText	part = pg_text(piece, row, COLUMN_BODY);

			strbuf_append(&buf, part.bytes, part.len);
		}
	}
	else if (!envelope_read(arena, pg_text(piece, 0, COLUMN_ENVELOPE), &envelope) || !put_items(&buf, &envelope, piece))
		return (JsonText) {NULL, 0};
	return (JsonText) {buf.bytes, buf.len};
}
