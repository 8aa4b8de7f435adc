/*-------------------------------------------------------------------------
 *
 * sockets.h
 *	  TCP sockets: listening ones, resets, progress.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Opens count listening sockets that share a port by SO_REUSEPORT.  False, with the reason, when that fails, also
 * when anybody listens there already.
 */
extern bool sockets_listen(const char *address, int port, int *fds, int count, char *why, size_t why_size);

/* Makes the peer see a reset connection; the descriptor stays open, and everything done with it fails. */
extern void socket_reset(int fd);

/* What is known of a peer that has bytes to take; zeroed, with the present time in at, when they are sent. */
typedef struct SocketProgress
{
	uint64_t	at;				/* milliseconds: when the peer last took any */
	uint64_t	acknowledged;	/* bytes, since the connection was made */
} SocketProgress;

/* Looks again; how many milliseconds ago did the peer take bytes? */
extern uint64_t socket_stalled(int fd, SocketProgress *progress, uint64_t now);

#endif							/* SOCKETS_H */
