/*-------------------------------------------------------------------------
 *
 * builder.h
 *	  Gathers items into the next batch of the queue.
 *
 * A batch has no object twice: the receiver refuses that.  Gathered items
 * are lost when the process ends, and are read again: a position moves only
 * with the batch that has the events.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_BUILDER_H
#define FORWARD_BUILDER_H

#include "engine/base/json.h"

/*
 * Adds an item: op is apply or delete, key identifies the object among all kinds.  kind and version: the position
 * of the kind once the item is in the queue; version NULL: unchanged.  False: the queue is full; the item was not
 * taken, and builder_ready() will be true when it is worth trying again.
 */
extern bool builder_add(const char *op, const char *key, const JsonNode *object, const char *kind, const char *version);

/* The position of a kind moves without an item. */
extern bool builder_move(const char *kind, const char *version);

/* Puts everything gathered into the queue; false: it is full. */
extern bool builder_flush(void);

/* Whether items can be added: the queue took the last batch. */
extern bool builder_ready(void);

extern void builder_start(size_t most_items, size_t most_bytes);

#endif							/* FORWARD_BUILDER_H */
