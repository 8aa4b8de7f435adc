/*-------------------------------------------------------------------------
 *
 * watchdog.h
 *	  Cuts connections that take too long: heads, bodies, answers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_WATCHDOG_H
#define EVIDENCE_WATCHDOG_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Peer Peer;

/*
 * Call when a connection was accepted.  Its thread calls the functions below until peer_close().  of_senders: the
 * connection is at the port for senders; peer_count() counts these.
 */
extern Peer *peer_open(int fd, bool of_senders);
extern void peer_close(Peer *peer);

/* Call when the head is complete: from now on the rate of the body or of the answer is checked. */
extern void peer_transfers(Peer *peer);

/* Call when bytes were received or sent. */
extern void peer_progress(Peer *peer, size_t bytes);

/* Call when this program begins to wait for the store or the database, and when the wait ends: that time is excused. */
extern void peer_excuse(Peer *peer, bool begins);

/* Cuts a connection at once. */
extern void peer_cut(Peer *peer);

/* Returns the number of open connections of senders. */
extern unsigned peer_count(void);

/* Cuts the connections that are too slow.  Call every second. */
extern void watchdog_look(void);

#endif							/* EVIDENCE_WATCHDOG_H */
