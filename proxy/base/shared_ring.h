/*-------------------------------------------------------------------------
 *
 * shared_ring.h
 *	  Records from one process to many, in shared memory.
 *
 * One process writes records.  Every other process reads all of them in order,
 * at its own pace.  The writer never waits in this file: when the ring is
 * full, the writer overwrites the oldest records, and a reader that had not
 * read them is told.  The writer can ask before whether a record would
 * overwrite others.
 *
 * A reader copies a record and then checks that the writer did not touch it
 * meanwhile.  So no lock exists that a dying process could leave behind.
 * Readers map the ring without the right to write.  A writer that dies leaves
 * its complete records; the next writer continues after them.
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

/* A reader calls this: from now on a write to the ring ends the process (SIGSEGV). */
extern void shared_ring_only_read(SharedRing *ring);

/* Returns the size of the largest record, about half of the ring, in bytes. */
extern size_t shared_ring_largest(const SharedRing *ring);

/* Returns the place after the last complete record, where a new reader begins. */
extern uint64_t shared_ring_end(const SharedRing *ring);

/* Whether a record of this size would overwrite a byte at the place or after it. */
extern bool shared_ring_overwrites(const SharedRing *ring, size_t size, uint64_t place);

/* Returns room for the next record of size bytes, at most the largest.  Readers see it after shared_ring_publish(). */
extern char *shared_ring_begin(SharedRing *ring, size_t size);
extern void shared_ring_publish(SharedRing *ring);

typedef enum RingReading
{
	RING_RECORD,
	RING_EMPTY,					/* all records have been read */
	RING_OVERRUN				/* records were overwritten before they were read; the reader is now at the end */
} RingReading;

/* A reader's copy of a record.  Zeroed by the reader before the first reading; shared_ring_read() allocates bytes. */
typedef struct RingRecord
{
	char	   *bytes;			/* aligned as malloc() does; valid until the next reading */
	size_t		size;
	size_t		room;
} RingRecord;

/* Copies the record at the place and moves the place to the next record. */
extern RingReading shared_ring_read(const SharedRing *ring, uint64_t *place, RingRecord *record);

#endif							/* SHARED_RING_H */
