/*-------------------------------------------------------------------------
 *
 * feed.h
 *	  The newest changes of the lanes that are watched in this worker.
 *
 * A feed exists while its lane has watchers.  It takes the changes after its
 * position, which the feed process reads for all workers, and keeps the newest
 * ones in a ring (1,000 events or 8 MB).  Each watcher has a cursor in the
 * ring: the ring is its queue and needs no memory per watcher.  When the ring
 * must drop an event that a watcher has not taken yet (its client does not
 * read), that stream ends cleanly and the client resumes.
 *
 * The feed has every change up to its position.  Only records of the feed
 * process move the position.  Events carry the representations that were in use
 * when they were read.  A watcher whose position is older than the ring, or
 * older than the first event with its representation, reads the log on its own
 * until it has caught up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FEED_H
#define FEED_H

#include "api/event.h"

typedef struct Feed Feed;

/* The part of a watcher that its feed uses; embedded in the Watch of watch.c. */
typedef struct Follower
{
	Feed	   *feed;
	struct Follower *previous;
	struct Follower *next;
	uint64_t	cursor;			/* number of the next event to look at, when following */
	bool		following;		/* reads from the ring, not on its own */
	bool		wants_bookmark;
	int			representation;
	int			first_representation;	/* of the first event on the stream; -1 once that was sent */
	bool		in_use;			/* the feed reads representation for this follower, */
	bool		first_in_use;	/* and first_representation */
} Follower;

/* Callbacks of watch.c; set once. */
typedef struct FeedEvents
{
	/* There may be events to send. */
	void		(*pump) (Follower *follower);
	/* The ring is about to drop the event at the cursor; the callback moves the cursor or ends the watch. */
	void		(*dropping) (Follower *follower, Event *event);
	/* The log no longer has the feed's position.  The follower must check its own position. */
	void		(*unfollow) (Follower *follower);
	void		(*bookmark) (Follower *follower, int64_t version, Frame *frame);
} FeedEvents;

/* Begins to follow the feed process, and to poll. */
extern void feed_start(int worker, const FeedEvents *events);

/* False after two failed polls in a row, or before the first good one. */
extern bool feed_database_answers(void);

extern void feed_attach(Follower *follower, int lane);
extern void feed_detach(Follower *follower);

/* Starts to follow the ring if the ring has all events above position in the follower's representations. */
extern bool feed_follow(Follower *follower, int64_t position);

/* Stops asking for the first representation. */
extern void feed_first_sent(Follower *follower);

/* The event at the cursor; NULL after the last one. */
extern Event *feed_next(Follower *follower);

/* -1 while the position is unknown. */
extern int64_t feed_position(const Feed *feed);
extern int	feed_lane(const Feed *feed);

/* Asks for a bookmark; FeedEvents.bookmark delivers it, now or later. */
extern void feed_bookmark(Follower *follower);

#endif							/* FEED_H */
