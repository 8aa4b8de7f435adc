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

/* In the parent, before it forks: opens the sockets of all workers.  False on failure, with *why. */
extern bool listeners_open(char *why, size_t why_size);

/*
 * In the parent: marks a worker as gone.  The caller then sends SIGUSR1 to the others; they accept in its place until
 * its successor attaches.
 */
extern void listeners_worker_gone(int worker);

/* In a child that accepts no connections: closes all sockets. */
extern void listeners_close(void);

/* In a worker, when it can serve: accepts at its sockets.  The handlers must stay valid; their fd is set here. */
extern void listeners_attach(int worker, const HttpListener *api, const HttpListener *plain,
							 const HttpListener *forward);

/*
 * In a worker, about once a second and after SIGUSR1: accepts at the sockets of workers that are gone, and stops
 * accepting at sockets whose worker is back.
 */
extern void listeners_tick(void);

#endif							/* LISTENERS_H */
