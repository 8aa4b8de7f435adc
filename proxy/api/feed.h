/*-------------------------------------------------------------------------
 *
 * feed.h
 *	  The newest changes of the lanes that are watched in this worker.
 *
 * A feed exists while its lane has watchers.  The feed process reads the
 * changes for all workers.  The feed takes the changes after its position, and
 * keeps the newest ones in a ring (1,000 events or 8 MB).  Each watcher has a
 * cursor in the ring: the ring is its queue and needs no memory per watcher.
 * When the ring must drop an event that a watcher has not taken yet (its
 * client does not read), that stream ends cleanly and the client resumes.
 *
 * The feed has every change up to its position.  Only records of the feed
 * process move the position.  Events have the representations that were in use
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
	int			first_representation;	/* representation of the first event; -1 after that event was sent */
	bool		in_use;			/* this follower is counted as a user of representation */
	bool		first_in_use;	/* this follower is counted as a user of first_representation */
} Follower;

/* Callbacks of watch.c, which feed_start() sets. */
typedef struct FeedEvents
{
	/* There may be events to send. */
	void		(*pump) (Follower *follower);
	/* The ring is about to drop the event at the cursor; the callback moves the cursor or ends the watch. */
	void		(*dropping) (Follower *follower, Event *event);
	/* The feed has lost its position and begins anew.  The follower must check its own position. */
	void		(*unfollow) (Follower *follower);
	/* The bookmark that feed_bookmark() asked for.  The feed owns the frame. */
	void		(*bookmark) (Follower *follower, int64_t version, Frame *frame);
} FeedEvents;

/* Begins to read the records of the feed process, and to poll the database. */
extern void feed_start(int worker, const FeedEvents *events);

/*
 * Whether the database answers polls; false before the first success, and when two in a row have failed.  Then *why is
 * the reason.
 */
extern bool feed_database_answers(const char **why);

/* Attach a follower to the feed of a lane, which is made if needed, and detach it. */
extern void feed_attach(Follower *follower, int lane);
extern void feed_detach(Follower *follower);

/* Starts to follow the ring; false unless the ring has all events above position in the follower's representations. */
extern bool feed_follow(Follower *follower, int64_t position);

/* The first event was sent: the follower no longer needs its first representation. */
extern void feed_first_sent(Follower *follower);

/* Returns the event at the cursor; NULL after the last one.  Does not move the cursor. */
extern Event *feed_next(Follower *follower);

/* Return the version up to which the feed has every change, -1 while it is unknown; and the lane. */
extern int64_t feed_position(const Feed *feed);
extern int	feed_lane(const Feed *feed);

/* Asks for a bookmark; FeedEvents.bookmark delivers it, now or later. */
extern void feed_bookmark(Follower *follower);

#endif							/* FEED_H */
