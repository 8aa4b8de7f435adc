/*-------------------------------------------------------------------------
 *
 * listeners.h
 *	  The listening sockets of all workers, and the workers that accept at them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LISTENERS_H
#define LISTENERS_H

#include "http/server.h"

/*
 * The parent calls this before it forks: opens the sockets of all workers.  False on failure, with the reason in why.
 */
extern bool listeners_open(char *why, size_t why_size);

/*
 * The parent calls this when a worker has died, and then sends SIGUSR1 to the other workers, which accept in its place
 * until the restarted worker attaches.
 */
extern void listeners_worker_gone(int worker);

/* A child that accepts no connections calls this: closes all sockets. */
extern void listeners_close(void);

/*
 * A worker calls this when it can serve: accepts at its sockets.  The listeners must stay valid; their member fd is not
 * used.
 */
extern void listeners_attach(int worker, const HttpListener *api, const HttpListener *plain,
							 const HttpListener *forward);

/*
 * A worker calls this about once a second and after SIGUSR1: accepts at the sockets of workers that have died, and
 * stops accepting at sockets whose worker is back.
 */
extern void listeners_tick(void);

#endif							/* LISTENERS_H */
