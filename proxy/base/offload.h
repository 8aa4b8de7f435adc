/*-------------------------------------------------------------------------
 *
 * offload.h
 *	  Threads for work that would block the event loop.
 *
 * The threads transform megabytes of text.  run() of a job uses only memory
 * that the job owns: no exchange, timer, metric or log.  It may use the
 * document engine with an arena of its own: in the proxy, the engine's hooks
 * are malloc and free.
 *
 * Each worker has two threads, which take the jobs in order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef OFFLOAD_H
#define OFFLOAD_H

#include <stdbool.h>

typedef struct OffloadJob OffloadJob;

/* The first member of the owner's struct.  That struct is malloc'ed: it may outlive its request. */
struct OffloadJob
{
	void		(*run) (OffloadJob *job);	/* called on a thread */
	void		(*done) (OffloadJob *job, bool cancelled);	/* called once in the loop, which ends the job */
	bool		waiting;		/* this member and the following ones belong to offload.c */
	bool		cancelled;
	OffloadJob *previous;
	OffloadJob *next;
};

/* Starts the threads; a worker calls it at its start. */
extern void offload_start(void);

/* False while too many jobs wait: the client should retry later (429). */
extern bool offload_has_room(void);

/*
 * Adds a job, also when offload_has_room() is false: an answer that was partly sent, or the answer of a completed
 * write, must be finished.  Each request has at most one job, so the number of open requests bounds the jobs.
 */
extern void offload_submit(OffloadJob *job);

/* Cancels a job.  done() is called at once if the job still waits, else after run() has returned. */
extern void offload_cancel(OffloadJob *job);

#endif							/* OFFLOAD_H */
