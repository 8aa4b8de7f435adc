/*-------------------------------------------------------------------------
 *
 * shared_ring.h
 *	  Records from one process to many, in shared memory.
 *
 * One process writes records, every other process reads all of them, in order,
 * at its own pace.  The writer never waits inside this file: when the ring is
 * full it overwrites the oldest records, and a reader that had not read them
 * notices that.  The writer can ask first what it would overwrite.
 *
 * A reader copies a record and then checks that the writer did not touch it
 * meanwhile.  So no lock exists that a dying process could leave behind.
 * Readers map the ring without the right to write.  A writer that dies leaves
 * its complete records; its successor continues behind them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARED_RING_H
#define SHARED_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct SharedRing SharedRing;

/* The parent calls this before it forks.  bytes: a power of two.  NULL when there is no memory. */
extern SharedRing *shared_ring_new(size_t bytes);

/* A reader calls this: from now on a write to the ring ends the process. */
extern void shared_ring_only_read(SharedRing *ring);

/* The largest record: half of the ring. */
extern size_t shared_ring_largest(const SharedRing *ring);

/* The place after the last complete record: where a new reader begins. */
extern uint64_t shared_ring_end(const SharedRing *ring);

/* Whether a record of this size would overwrite something at or behind the place. */
extern bool shared_ring_overwrites(const SharedRing *ring, size_t size, uint64_t place);

/* Room for the next record, at most the largest.  Readers see the record after shared_ring_publish(). */
extern char *shared_ring_begin(SharedRing *ring, size_t size);
extern void shared_ring_publish(SharedRing *ring);

typedef enum RingReading
{
	RING_RECORD,
	RING_EMPTY,					/* all records have been read */
	RING_OVERRUN				/* records were overwritten before they were read; the reader is now at the end */
} RingReading;

/* A reader's copy of a record; zeroed at first. */
typedef struct RingRecord
{
	char	   *bytes;			/* aligned as malloc() does; valid until the next reading */
	size_t		size;
	size_t		room;
} RingRecord;

/* Copies the record at the place and moves the place behind it. */
extern RingReading shared_ring_read(const SharedRing *ring, uint64_t *place, RingRecord *record);

#endif							/* SHARED_RING_H */
