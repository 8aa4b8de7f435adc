/*-------------------------------------------------------------------------
 *
 * list_items.h
 *	  The bytes of a piece of a list.
 *
 * The extension plans a list, or, where the proxy decides, the proxy does.
 *
 * A piece is the result of one call.  Its items come as they are stored, or
 * rendered: the extension renders what must be parsed (tables, indented
 * lists).  The proxy puts stored items together, with the engine that the
 * extension has, too: a backend would copy each item twice more.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIST_ITEMS_H
#define LIST_ITEMS_H

#include "db/pg.h"
#include "decide/read.h"

/* How the proxy renders the rows of a list that it has planned itself. */
typedef struct ListForm
{
	ReadForm	form;
	bool		events;			/* each item is the frame of an ADDED event; nothing stands around them */
	bool		follows;		/* items precede those of the next piece */
} ListForm;

/*
 * The bytes of a piece: its rows, concatenated.  They are in the result, or in the arena if the piece has several rows.
 * bytes is NULL with *error when the piece is not of the form that this proxy knows, or cannot be rendered.  form NULL:
 * the extension has planned the list.  The pieces of a list come in their order.
 */
extern JsonText piece_bytes(const PgResult *piece, Arena *arena, ListForm *form, const PgError **error);

/* The error of a piece of another form. */
extern const PgError piece_unknown;

/* How many bytes the piece takes from then on. */
extern size_t piece_room(const PgResult *piece, const ListForm *form);

#endif							/* LIST_ITEMS_H */
