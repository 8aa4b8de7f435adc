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
 * A connection has been made; its thread calls the functions below until peer_close().  of_senders: at the port for
 * senders, whose connections peer_count() counts.
 */
extern Peer *peer_open(int fd, bool of_senders);
extern void peer_close(Peer *peer);

/* The head is complete: from now on the rate of the body or of the answer counts. */
extern void peer_transfers(Peer *peer);

/* Bytes have come or gone. */
extern void peer_progress(Peer *peer, size_t bytes);

/* Time that this program spends on the store or the database is not the peer's. */
extern void peer_excuse(Peer *peer, bool begins);

/* Cuts a connection at once. */
extern void peer_cut(Peer *peer);

/* How many connections of senders are open. */
extern unsigned peer_count(void);

/* Cuts the connections that are too slow now; called every second. */
extern void watchdog_look(void);

#endif							/* EVIDENCE_WATCHDOG_H */
