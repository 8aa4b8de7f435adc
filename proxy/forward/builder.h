/*-------------------------------------------------------------------------
 *
 * builder.h
 *	  Gathers items into the next batch of the queue.
 *
 * A batch has no object twice, because the receiver refuses such a batch.
 * Gathered items are lost when the process ends, and are read again, because a
 * position moves only with the batch that has the events.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_BUILDER_H
#define FORWARD_BUILDER_H

#include "engine/base/json.h"

/*
 * Adds an item.  op: apply or delete.  key: identifies the object among all kinds.  version: the position of the kind
 * when the item is in the queue; NULL: unchanged.  False when the queue is full: the item was not taken; try again when
 * builder_ready() is true.
 */
extern bool builder_add(const char *op, const char *key, const JsonNode *object, const char *kind, const char *version);

/* Moves the position of a kind without an item; false when the queue is full. */
extern bool builder_move(const char *kind, const char *version);

/* Puts all gathered items into the queue; false when the queue is full. */
extern bool builder_flush(void);

/* Whether items can be added: the queue took the last batch. */
extern bool builder_ready(void);

extern void builder_start(size_t most_items, size_t most_bytes);

#endif							/* FORWARD_BUILDER_H */
