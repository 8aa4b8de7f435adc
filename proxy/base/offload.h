/*-------------------------------------------------------------------------
 *
 * offload.h
 *	  Work that would hold up the event loop, on threads.
 *
 * For bytes that become other bytes, megabytes at a time.  A job's run()
 * touches what the job owns and nothing else of this process: no exchange, no
 * timer, no metric, no log.  It may use the document engine with an arena of
 * its own: the engine's hooks are malloc and free here.
 *
 * Each worker has a few threads, which take jobs in their order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef OFFLOAD_H
#define OFFLOAD_H

#include <stdbool.h>

typedef struct OffloadJob OffloadJob;

/* The first member of the owner's struct, which is malloc'ed: it may outlive the request that it is for. */
struct OffloadJob
{
	void		(*run) (OffloadJob *job);	/* on a thread */
	void		(*done) (OffloadJob *job, bool cancelled);	/* in the loop, once: the job is its owner's again */
	bool		waiting;		/* the rest is offload.c's */
	bool		cancelled;
	OffloadJob *previous;
	OffloadJob *next;
};

/* When a worker starts. */
extern void offload_start(void);

/* False while so many jobs wait that a request should come again later (429). */
extern bool offload_has_room(void);

/*
 * Takes a job, also when there is no room: an answer that is half sent, or that of a write that took place, has to be
 * ended.  Nobody has more than one job, so that there are at most as many as open requests.
 */
extern void offload_submit(OffloadJob *job);

/* Nobody wants it any more: done() is called now, if it still waits, or else once run() has returned. */
extern void offload_cancel(OffloadJob *job);

#endif							/* OFFLOAD_H */
