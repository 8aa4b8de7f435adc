/*-------------------------------------------------------------------------
 *
 * feed_channel.h
 *	  Shared memory between the feed process and the workers.
 *
 * - A ring of records (shared_ring.h), from the feed process to all workers.
 * - A board for each worker: the lanes that it follows, with the
 *   representations that its watchers need.  Only the worker writes it; the
 *   parent clears it when the worker has died.
 * - A place for each lane that is followed: the newest version that a worker
 *   has written, and the version up to which the ring has had the records.  So
 *   a new feed process continues where the previous one ended.
 *
 * There are no locks, and no process waits for a process that has stopped.
 * When the ring is full, the feed process gives a slow worker a fifth of a
 * second to read, then overwrites records that the worker has not read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FEED_CHANNEL_H
#define FEED_CHANNEL_H

#include "api/feed_record.h"

#define FEED_RING_BYTES ((size_t) 8 * 1024 * 1024)
#define FEED_LANES 1024			/* limit of lanes that are followed, by one worker and by all together */
#define FEED_REPRESENTATIONS 16 /* of a lane in a worker; watches with further ones read on their own */
#define FEED_TOKEN_BYTES 128	/* watches with longer tokens read on their own */

/* The parent calls this before it forks; exits when there is no memory. */
extern void feed_channel_init(int workers);

/* The parent calls this when a worker has ended: clears its board. */
extern void feed_channel_worker_gone(int worker);

/* ---------- for workers ---------- */

/* A worker calls this when its loop exists.  told() is called when there may be records. */
extern void feed_channel_attach(int worker, void (*told) (void *state));

/* Follows a lane, or changes the representations that its watchers need.  False when no place is left for the lane. */
extern bool feed_channel_follow(int lane, const int *representations, size_t count);
extern void feed_channel_unfollow(int lane);

/* Asks for a FEED_STATE of each lane that is followed. */
extern void feed_channel_ask(void);

/* Tells the feed process that this worker has committed a write.  Only for speed: polls find the change too. */
extern void feed_channel_written(int lane, int64_t version);

/* Reads the next record.  While a worker follows no lane, all records are skipped. */
extern RingReading feed_channel_read(RingRecord *record);

/* ---------- for the feed process ---------- */

/*
 * The feed process calls this when its loop exists.  woken() is called when boards have changed or a worker has
 * written.
 */
extern void feed_channel_serve(void (*woken) (void *state));

/*
 * Calls wish() for each lane on each board if a board has changed since the last call.  Returns false, without a call,
 * when none has.  *complete is false when a board could not be read because its worker is changing it or has stopped.
 */
extern bool feed_channel_wishes(void (*wish) (int lane, const JsonText *tokens, size_t count), bool *complete);

/* Gives a lane a place and returns its number, which is below FEED_LANES; -1: no place is left. */
extern int	feed_channel_lane_open(int lane);
extern void feed_channel_lane_close(int place);

/*
 * Returns the lane at a place (0: none), and the version up to which the ring has had its records (-1: not known).
 * feed_channel_lane_told() sets that version.
 */
extern int	feed_channel_lane_at(int place, int64_t *position);
extern void feed_channel_lane_told(int place, int64_t position);

/* Returns the newest version that a worker has written in the lane at a place since the last call; 0: none. */
extern int64_t feed_channel_lane_written(int place);

/* The outcome of writing a record to the ring. */
typedef enum FeedTelling
{
	FEED_TOLD,
	FEED_NO_ROOM,				/* try again in a moment: a worker has not read the oldest records */
	FEED_TOO_LARGE				/* the ring can never take this record */
} FeedTelling;

extern FeedTelling feed_channel_tell(const FeedRecordHead *head, const Event *event, const int *representations,
									 size_t count);

/* Wakes the workers after one or several records. */
extern void feed_channel_wake(void);

#endif							/* FEED_CHANNEL_H */
