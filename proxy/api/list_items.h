/*-------------------------------------------------------------------------
 *
 * list_items.h
 *	  The bytes of a piece of a list.
 *
 * In the variant c the extension plans a list, in the variant sql the proxy.
 *
 * A piece is the result of one call.  Its items are rendered, or as they are
 * stored: the extension renders items that must be parsed (tables, indented
 * lists).  The proxy joins stored items with the engine, which the extension
 * also has: if a backend did that, it would copy each item twice more.
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
	bool		events;			/* each item is the frame of an ADDED event, and the list has no head and no end */
	bool		follows;		/* the next piece is not the first with items */
} ListForm;

/*
 * Returns the bytes of a piece: its rows, concatenated.  They are in the result, or in the arena if the piece has
 * several rows.  bytes is NULL, with *error, when this proxy does not know the form of the piece or cannot render it.
 * form NULL: the extension has planned the list.  The pieces of a list must be passed in their order.
 */
extern JsonText piece_bytes(const PgResult *piece, Arena *arena, ListForm *form, const PgError **error);

/* Returns how many bytes of memory the piece takes after piece_bytes(). */
extern size_t piece_room(const PgResult *piece, const ListForm *form);

#endif							/* LIST_ITEMS_H */
