/*-------------------------------------------------------------------------
 *
 * loop.c
 *	  Timers and deferred functions of a worker's event loop.
 *
 * Timers are in a binary heap of pointers, and each timer knows its place in
 * it: start and stop cost O(log n), whatever their number.  libh2o's own
 * time-outs are not used: each of them is a list for one duration, and they
 * follow the wall clock.
 *
 * A timer or deferred function that is started during a pass runs in a later
 * pass, so that each pass ends.
 *
 *-------------------------------------------------------------------------
 */
#include "base/loop.h"

#include <stdlib.h>
#include <time.h>

typedef struct Deferred
{
	void		(*run) (void *state);
	void	   *state;
} Deferred;

typedef struct DeferredList
{
	Deferred   *entries;
	size_t		count;
	size_t		capacity;
} DeferredList;

static LoopTimer **heap;
static size_t heap_count;
static size_t heap_capacity;

/* While timers fire: a timer that is started now is not due before this time. */
static uint64_t earliest_due;

static DeferredList deferred;

/* Doubles the capacity of an array.  Aborts without memory: the worker cannot go on. */
static void *
grow(void *array, size_t *capacity, size_t element_size)
{
	*capacity = *capacity == 0 ? 64 : *capacity * 2;
	array = realloc(array, *capacity * element_size);
	if (array == NULL)
		abort();
	return array;
}

static void
heap_place(size_t slot, LoopTimer *timer)
{
	heap[slot] = timer;
	timer->slot = slot;
}

/* Moves a timer from a slot towards the root or the leaves until the heap is ordered. */
static void
heap_settle(size_t slot, LoopTimer *timer)
{
	while (slot > 0 && heap[(slot - 1) / 2]->due > timer->due)
	{
		heap_place(slot, heap[(slot - 1) / 2]);
		slot = (slot - 1) / 2;
	}
	for (;;)
	{
		size_t		child = slot * 2 + 1;

		if (child + 1 < heap_count && heap[child + 1]->due < heap[child]->due)
			child++;
		if (child >= heap_count || heap[child]->due >= timer->due)
			break;
		heap_place(slot, heap[child]);
		slot = child;
	}
	heap_place(slot, timer);
}

uint64_t
loop_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

uint64_t
loop_microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

void
loop_timer_start(LoopTimer *timer, uint64_t delay_ms, void (*fire) (void *state), void *state)
{
	size_t		slot = timer->slot;

	/* One millisecond more, because the present one has already begun. */
	timer->due = loop_now() + delay_ms + (delay_ms > 0 ? 1 : 0);
	if (timer->due < earliest_due)
		timer->due = earliest_due;
	timer->fire = fire;
	timer->state = state;
	if (!timer->running)
	{
		if (heap_count == heap_capacity)
			heap = grow(heap, &heap_capacity, sizeof(*heap));
		slot = heap_count++;
		timer->running = true;
	}
	heap_settle(slot, timer);
}

void
loop_timer_stop(LoopTimer *timer)
{
	LoopTimer  *last;

	if (!timer->running)
		return;
	timer->running = false;
	last = heap[--heap_count];
	if (last != timer)
		heap_settle(timer->slot, last);
}

void
loop_defer(void (*run) (void *state), void *state)
{
	if (deferred.count == deferred.capacity)
		deferred.entries = grow(deferred.entries, &deferred.capacity, sizeof(*deferred.entries));
	deferred.entries[deferred.count].run = run;
	deferred.entries[deferred.count].state = state;
	deferred.count++;
}

static void
run_timers(void)
{
	uint64_t	now = loop_now();

	earliest_due = now + 1;
	while (heap_count > 0 && heap[0]->due <= now)
	{
		LoopTimer  *timer = heap[0];

		loop_timer_stop(timer);
		timer->fire(timer->state);
	}
	earliest_due = 0;
}

static void
run_deferred(void)
{
	static DeferredList spare;
	DeferredList batch = deferred;

	deferred = spare;
	deferred.count = 0;
	for (size_t i = 0; i < batch.count; i++)
		batch.entries[i].run(batch.entries[i].state);
	batch.count = 0;
	spare = batch;
}

void
loop_run_due(void)
{
	if (heap_count > 0)
		run_timers();
	if (deferred.count > 0)
		run_deferred();
}

uint64_t
loop_next_due(uint64_t max_wait)
{
	uint64_t	now;

	if (deferred.count > 0)
		return 0;
	if (heap_count == 0)
		return max_wait;
	now = loop_now();
	if (heap[0]->due <= now)
		return 0;
	return heap[0]->due - now < max_wait ? heap[0]->due - now : max_wait;
}
