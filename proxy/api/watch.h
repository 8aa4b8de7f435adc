/*-------------------------------------------------------------------------
 *
 * watch.h
 *	  Watches: streams of events.
 *
 * api_watch begins a watch.  The watch may send the present state first (a
 * list whose bytes are event frames), reads the log on its own until it has
 * caught up, and then follows the feed of its lane.  It stays open while the
 * database is away and continues from its position afterwards.  It ends
 * cleanly at its timeout, at shutdown, and when its client reads too slowly.
 * It ends with an ERROR event only when the log no longer has its position
 * (410) or reading the present state fails for good (500).
 *
 *-------------------------------------------------------------------------
 */
#ifndef WATCH_H
#define WATCH_H

#include "api/exchange.h"

/* Starts the feeds and the clock of the watches. */
extern void watches_start(int worker);

extern void watch_start(Exchange *exchange);

/* Ends all watches cleanly within the given time, also those that begin meanwhile.  Call once. */
extern void watches_end(uint64_t milliseconds);

#endif							/* WATCH_H */
