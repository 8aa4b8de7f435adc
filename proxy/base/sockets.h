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
 * Opens count listening sockets that share a port by SO_REUSEPORT.  False, with the reason, on failure, also when
 * another process already listens on the port.
 */
extern bool sockets_listen(const char *address, int port, int *fds, int count, char *why, size_t why_size);

/* Resets the connection.  The descriptor stays open, and every operation on it fails. */
extern void socket_reset(int fd);

/* The progress of a peer that receives bytes.  When they are sent: zeroed, with the present time in at. */
typedef struct SocketProgress
{
	uint64_t	at;				/* milliseconds: when the peer last took bytes */
	uint64_t	acknowledged;	/* bytes since the connection was opened */
} SocketProgress;

/* Updates progress and returns how many milliseconds ago the peer last took bytes. */
extern uint64_t socket_stalled(int fd, SocketProgress *progress, uint64_t now);

#endif							/* SOCKETS_H */
