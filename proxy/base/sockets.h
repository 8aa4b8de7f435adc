/*-------------------------------------------------------------------------
 *
 * sockets.h
 *	  TCP sockets: listening, resets, progress.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Opens count listening sockets that share a port by SO_REUSEPORT, and stores their descriptors in fds.  False, with
 * the reason in why, on failure, also when another process already listens on the port.
 */
extern bool sockets_listen(const char *address, int port, int *fds, int count, char *why, size_t why_size);

/* Resets the connection.  The descriptor stays open, and every operation on it fails. */
extern void socket_reset(int fd);

/* How far a peer has taken bytes.  The caller zeroes this and sets at to the present time when it sends the bytes. */
typedef struct SocketProgress
{
	uint64_t	at;				/* when the peer last took bytes, milliseconds of loop_now() */
	uint64_t	acknowledged;	/* bytes acknowledged since the connection was opened */
} SocketProgress;

/* Updates progress and returns how many milliseconds ago the peer last took bytes. */
extern uint64_t socket_stalled(int fd, SocketProgress *progress, uint64_t now);

#endif							/* SOCKETS_H */
