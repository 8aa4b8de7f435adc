/*-------------------------------------------------------------------------
 *
 * queue.h
 *	  The sender's queue: batches in files, until the receiver has stored them.
 *
 * A directory has one file for each batch, named by its number, and a file
 * "state".  A batch is in the queue when its file has that name: after an
 * fsync of the file and of the directory.  Each batch has the positions of all
 * watches at its last event.  So after kill -9 a watch continues exactly after
 * the last event in the queue.
 *
 * The receiver counts the batches of a stream, so it ignores a batch that it
 * has stored before.  A batch may be sent again at any time, and is removed
 * only when the receiver has stored it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_QUEUE_H
#define FORWARD_QUEUE_H

#include "engine/base/json.h"

/*
 * Opens the queue in a directory, which is made if it is missing.  limit: of the size of all batches together, in
 * bytes.  False, with the reason in why, when the directory cannot be used, another process uses it, or a file is
 * damaged.
 */
extern bool queue_open(const char *directory, uint64_t limit, char *why, size_t why_size);

/*
 * queue_position() returns the resourceVersion up to which events of a kind are in the queue or were sent; "" when the
 * kind must be listed.  queue_stage_position() moves it with the next batch, which has the events up to there.
 * queue_set_position() moves it now, when there are no events; this is durable with the next batch, or after
 * queue_save().
 */
extern const char *queue_position(const char *kind);
extern void queue_stage_position(const char *kind, const char *version);
extern void queue_set_position(const char *kind, const char *version);

/*
 * Appends a batch.  items: the elements of a JSON array, without its brackets.  Returns the number of the batch; 0 when
 * the batch does not fit or the disk is full: try later.
 */
extern uint64_t queue_append(JsonText items);

/* Writes the state; false when that failed. */
extern bool queue_save(void);

/* Returns the number of the newest batch; 0: there was none. */
extern uint64_t queue_last(void);

/*
 * Reads the oldest batch into the arena: its number, its number in the stream (seq) and its items.  False when there is
 * none, or when it cannot be read now.
 */
extern bool queue_front(Arena *arena, uint64_t *number, uint64_t *seq, JsonText *items);

/* Removes the oldest batch, which has this number, because the receiver has stored it; false when that failed. */
extern bool queue_done(uint64_t number);

/* Begins a new stream with the oldest batch, because the receiver does not know the old stream; false on failure. */
extern bool queue_new_stream(void);
extern const char *queue_stream(void);

extern bool queue_is_full(void);
extern uint64_t queue_batches(void);
extern uint64_t queue_bytes(void);

/* Returns the time at which the oldest batch was written, in seconds since 1970; 0: there is none. */
extern int64_t queue_oldest(void);

#endif							/* FORWARD_QUEUE_H */
