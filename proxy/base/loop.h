/*-------------------------------------------------------------------------
 *
 * loop.h
 *	  The event loop of a worker: timers, and file descriptors of other libraries.
 *
 * Each worker process has one thread for the loop; nothing here may block.
 * loop.c has the timers and deferred functions.  http/loop_socket.c has the
 * sockets, because the loop itself is libh2o's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The present time of the monotonic clock, in milliseconds and in microseconds. */
extern uint64_t loop_now(void);
extern uint64_t loop_microseconds(void);

/* A one-shot timer, embedded in its owner's struct; zeroed memory is a timer that is not running. */
typedef struct LoopTimer
{
	uint64_t	due;
	void		(*fire) (void *state);
	void	   *state;
	size_t		slot;			/* its place in the heap */
	bool		running;
} LoopTimer;

/* Starts or restarts a timer.  The loop calls fire() once, not before delay_ms have passed. */
extern void loop_timer_start(LoopTimer *timer, uint64_t delay_ms, void (*fire) (void *state), void *state);
extern void loop_timer_stop(LoopTimer *timer);

/* The loop runs the function once, later in this turn or in the next, never inside this call. */
extern void loop_defer(void (*run) (void *state), void *state);

/*
 * A descriptor that another library owns (libpq, libcurl).  The loop watches a duplicate (dup()), so the library may
 * close its own descriptor at any time.
 */
typedef struct LoopSocket LoopSocket;

extern LoopSocket *loop_socket_open(int fd, void (*readable) (void *state), void *state);

/* Calls writable() once, when the descriptor accepts bytes again. */
extern void loop_socket_notify_write(LoopSocket *foreign, void (*writable) (void *state));

/* Ends the watching and frees the struct.  No callback runs afterwards. */
extern void loop_socket_close(LoopSocket *foreign);

/* For the loop itself: runs the timers that are due and the functions that were deferred before this call. */
extern void loop_run_due(void);

/* For the loop itself: returns the milliseconds until a timer or function is due, at most max_wait. */
extern uint64_t loop_next_due(uint64_t max_wait);

#endif							/* LOOP_H */
