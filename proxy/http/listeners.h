/*-------------------------------------------------------------------------
 *
 * listeners.h
 *	  The listening sockets of all workers, and who accepts at them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LISTENERS_H
#define LISTENERS_H

#include "http/server.h"

/* In the parent, before it forks: opens the sockets of all workers.  False, with the reason, when that fails. */
extern bool listeners_open(char *why, size_t why_size);

/*
 * In the parent: a worker is gone.  The others are to be sent SIGUSR1; they accept in its place until another
 * attaches.
 */
extern void listeners_worker_gone(int worker);

/* In a child that serves nobody. */
extern void listeners_close(void);

/* In a worker, when it can serve: accepts at its sockets.  What is given stays; fd is filled in here. */
extern void listeners_attach(int worker, const HttpListener *api, const HttpListener *plain);

/*
 * In a worker, about once a second and after SIGUSR1: accepts at the sockets of those that are gone, and no longer at
 * those of others.
 */
extern void listeners_tick(void);

#endif							/* LISTENERS_H */
