/*-------------------------------------------------------------------------
 *
 * loop.h
 *	  The event loop of a worker: timers and foreign file descriptors.
 *
 * One thread per worker process; nothing here may block.  Timers and deferred
 * functions are in loop.c; the sockets are in http.c, because the loop itself
 * is libh2o's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Milliseconds of the monotonic clock, now. */
extern uint64_t loop_now(void);
extern uint64_t loop_microseconds(void);	/* the same clock */

/* One-shot timers, embedded in their owner's struct; zeroed memory is a timer that is not running. */
typedef struct LoopTimer
{
	uint64_t	due;
	void		(*fire) (void *state);
	void	   *state;
	size_t		slot;			/* its place in the heap */
	bool		running;
} LoopTimer;

/* (Re)starts; fire runs once, from the loop, not before delay_ms have passed. */
extern void loop_timer_start(LoopTimer *timer, uint64_t delay_ms, void (*fire) (void *state), void *state);
extern void loop_timer_stop(LoopTimer *timer);

/* Runs a function later in this turn or in the next, never from inside the caller. */
extern void loop_defer(void (*run) (void *state), void *state);

/* A descriptor that another library owns (libpq, libcurl). It is dup'ed; the owner closes its own. */
typedef struct LoopSocket LoopSocket;

extern LoopSocket *loop_socket_open(int fd, void (*readable) (void *state), void *state);

/* Calls writable once, when the descriptor takes bytes again. */
extern void loop_socket_notify_write(LoopSocket *foreign, void (*writable) (void *state));

/* No callback comes afterwards. */
extern void loop_socket_close(LoopSocket *foreign);

/* For the loop itself: runs the timers that are due, and the functions deferred before this call. */
extern void loop_run_due(void);

/* For the loop itself: milliseconds until there is something to run, at most max_wait. */
extern uint64_t loop_next_due(uint64_t max_wait);

#endif							/* LOOP_H */
