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
 * Opens count listening sockets that share a port by SO_REUSEPORT.  False, with the reason, when that fails, also when anybody
 * listens there already.
 */
extern bool sockets_listen(const char *address, int port, int *fds, int count, char *why, size_t why_size);

/* Makes the peer see a reset connection; the descriptor stays open, and everything done with it fails. */
extern void socket_reset(int fd);

/* How many bytes the peer has acknowledged since the connection was made. */
extern uint64_t socket_acknowledged(int fd);

#endif							/* SOCKETS_H */
