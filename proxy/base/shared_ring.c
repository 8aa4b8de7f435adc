/*-------------------------------------------------------------------------
 *
 * shared_ring.c
 *	  Records from one process to many, in shared memory.
 *
 * A place is a number of bytes since the first record.  The places of records
 * only grow.  A place modulo the size of the ring is an offset.  A record is
 * never split: padding fills the end of the ring.  Readers trust the bytes in
 * [end - size, end), except the oldest ones, which the writer has taken for
 * records beyond end.
 *
 *-------------------------------------------------------------------------
 */
#include "base/shared_ring.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 8
#define PADDING UINT32_MAX

/* In front of each record. */
typedef struct RecordHead
{
	uint32_t	size;			/* of the record, without this head; PADDING: the rest of the ring is empty */
	uint32_t	zero;
} RecordHead;

typedef struct RingHead
{
	_Atomic uint64_t end;		/* place after the last complete record */
	_Atomic uint64_t taken;		/* place up to which the writer may have written; never below end, never decreases */
} RingHead;

struct SharedRing
{
	RingHead   *head;			/* shared; the bytes follow it */
	char	   *bytes;
	size_t		size;
	uint64_t	next_end;		/* the end after the record that is being written */
};

SharedRing *
shared_ring_new(size_t bytes)
{
	SharedRing *ring = calloc(1, sizeof(SharedRing));

	if (ring == NULL)
		return NULL;
	/* Pages that are never written use no memory. */
	ring->head = mmap(NULL, sizeof(RingHead) + bytes, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (ring->head == MAP_FAILED)
	{
		free(ring);
		return NULL;
	}
	ring->bytes = (char *) (ring->head + 1);
	ring->size = bytes;
	return ring;
}

void
shared_ring_only_read(SharedRing *ring)
{
	mprotect(ring->head, sizeof(RingHead) + ring->size, PROT_READ);
}

size_t
shared_ring_largest(const SharedRing *ring)
{
	return ring->size / 2 - sizeof(RecordHead);
}

uint64_t
shared_ring_end(const SharedRing *ring)
{
	return atomic_load_explicit(&ring->head->end, memory_order_acquire);
}

/* Returns the end after one more record of this size, and the padding before that record. */
static uint64_t
end_after(const SharedRing *ring, size_t size, size_t *padding)
{
	uint64_t	end = atomic_load_explicit(&ring->head->end, memory_order_relaxed);
	size_t		needed = sizeof(RecordHead) + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	size_t		left = ring->size - end % ring->size;

	*padding = needed > left ? left : 0;
	return end + *padding + needed;
}

bool
shared_ring_overwrites(const SharedRing *ring, size_t size, uint64_t place)
{
	size_t		padding;

	return end_after(ring, size, &padding) > place + ring->size;
}

char *
shared_ring_begin(SharedRing *ring, size_t size)
{
	size_t		padding;
	uint64_t	end = atomic_load_explicit(&ring->head->end, memory_order_relaxed);
	uint64_t	taken = atomic_load_explicit(&ring->head->taken, memory_order_relaxed);
	RecordHead *head;

	ring->next_end = end_after(ring, size, &padding);
	/* An earlier writer that died may have taken more. */
	if (taken < ring->next_end)
		atomic_store_explicit(&ring->head->taken, ring->next_end, memory_order_relaxed);
	/* A reader that sees one of the bytes written below also sees the new value of taken. */
	atomic_thread_fence(memory_order_release);
	head = (RecordHead *) (ring->bytes + end % ring->size);
	if (padding > 0)
	{
		*head = (RecordHead) {.size = PADDING};
		head = (RecordHead *) ring->bytes;
	}
	*head = (RecordHead) {.size = (uint32_t) size};
	return (char *) (head + 1);
}

void
shared_ring_publish(SharedRing *ring)
{
	atomic_store_explicit(&ring->head->end, ring->next_end, memory_order_release);
}

/* Whether the writer has overwritten no byte from the place on, so that the bytes that were read there are valid. */
static bool
untouched(const SharedRing *ring, uint64_t place)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&ring->head->taken, memory_order_relaxed) <= place + ring->size;
}

RingReading
shared_ring_read(const SharedRing *ring, uint64_t *place, RingRecord *record)
{
	for (;;)
	{
		uint64_t	end = shared_ring_end(ring);
		size_t		offset = *place % ring->size;
		RecordHead	head;

		if (*place == end)
			return RING_EMPTY;
		head = *(const RecordHead *) (ring->bytes + offset);
		if (!untouched(ring, *place))
			break;
		if (head.size == PADDING)
		{
			*place += ring->size - offset;
			continue;
		}
		if (record->room < head.size)
		{
			free(record->bytes);
			record->bytes = malloc(head.size);
			if (record->bytes == NULL)
				abort();
			record->room = head.size;
		}
		memcpy(record->bytes, ring->bytes + offset + sizeof(head), head.size);
		if (!untouched(ring, *place))
			break;
		record->size = head.size;
		*place += sizeof(head) + (head.size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
		return RING_RECORD;
	}
	*place = shared_ring_end(ring);
	return RING_OVERRUN;
}
