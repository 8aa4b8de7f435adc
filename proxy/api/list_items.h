/*-------------------------------------------------------------------------
 *
 * list_items.h
 *	  The bytes of a piece of a list.
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

/*
 * The bytes of a piece: its rows, concatenated.  They are in the result, or in the arena if the piece has several rows.
 * bytes is NULL when the piece is not of the form that this proxy knows.
 */
extern JsonText piece_bytes(const PgResult *piece, Arena *arena);

/* The error of a piece whose bytes are NULL. */
extern const PgError piece_unknown;

/* How many bytes the piece takes from then on. */
extern size_t piece_room(const PgResult *piece);

#endif							/* LIST_ITEMS_H */
