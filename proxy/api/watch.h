/*-------------------------------------------------------------------------
 *
 * watch.h
 *	  Watches: streams of events.
 *
 * The call api_watch begins a watch.  If the client asks for the present
 * state, the watch sends it first, as a list whose bytes are event frames.
 * Then it reads the log on its own until it has caught up, and follows the
 * feed of its lane.  A watch stays open while the database is away, and then
 * continues from its position.  It ends cleanly at its timeout, at shutdown,
 * and when its client reads too slowly.  It ends with an ERROR event only when
 * the log no longer has its position (410), or when reading the present state
 * fails for good (500).
 *
 *-------------------------------------------------------------------------
 */
#ifndef WATCH_H
#define WATCH_H

#include "api/exchange.h"

/* A worker calls this when its loop exists: starts the feeds and the clock of the watches. */
extern void watches_start(int worker);

extern void watch_start(Exchange *exchange);

/* Ends all watches cleanly within the given time, also those that begin meanwhile.  Call once. */
extern void watches_end(uint64_t milliseconds);

#endif							/* WATCH_H */
