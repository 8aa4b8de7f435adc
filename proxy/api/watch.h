/*-------------------------------------------------------------------------
 *
 * watch.h
 *	  Watches: streams of events.
 *
 * A watch is begun by api_watch, may send the present state first (the bytes
 * of a list that are event frames), reads the log on its own until it has
 * caught up, and then follows the feed of its lane.  It stays open while the
 * database is away and goes on from its position afterwards.  It ends cleanly
 * at its timeout, at shutdown and when its client reads too slowly, and with
 * an ERROR event only when its own position is no longer in the log (410) or
 * reading the present state fails for good (500).
 *
 *-------------------------------------------------------------------------
 */
#ifndef WATCH_H
#define WATCH_H

#include "api/exchange.h"

/* Begins the feeds and the clock of the watches. */
extern void watches_start(void);

extern void watch_start(Exchange *exchange);

/* Ends all of them cleanly, within so much time, and those that still begin.  Called once. */
extern void watches_end(uint64_t milliseconds);

#endif							/* WATCH_H */
