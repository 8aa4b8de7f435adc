/*-------------------------------------------------------------------------
 *
 * limits.c
 *	  The limits of one input of a fuzz target: memory and time.
 *
 * Linked with every target in place of its entry point (ld's --wrap), for
 * libFuzzer as well as for replay.c.  An input aborts the target, as any
 * other fault does, if its arenas together hold more than a floor plus a
 * multiple of the input's size, or if it takes too long: the fuzzer keeps
 * such an input.
 *
 * The targets set no budgets: the engine has to stay within the limits by
 * itself.  A target that tests a budget uses arena_run().
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <time.h>

#include "fuzz.h"

/* As ARENA_BYTES_PER_BYTE. */
#define BYTES_PER_BYTE 50

/* Many times the memory that targets need for an empty input; and the processor time with sanitizers. */
size_t		fuzz_bytes_floor = (size_t) 4 * 1024 * 1024;
double		fuzz_seconds_most = 1.0;

size_t		fuzz_bytes_taken;

/* Precedes each allocation.  The size is that of the strictest alignment. */
#define HEADER 16

extern int	__real_LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
extern int	__wrap_LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static size_t in_use;
static size_t peak;

static void *
counted_allocate(size_t size)
{
	char	   *piece = malloc(HEADER + size);

	if (piece == NULL)
		abort();
	/* Under AddressSanitizer every piece has a chunk of its own.  Its header does not count for the target. */
	size -= arena_chunk_header;
	memcpy(piece, &size, sizeof(size));
	in_use += size;
	fuzz_bytes_taken += size;
	if (in_use > peak)
		peak = in_use;
	return piece + HEADER;
}

static void
counted_release(void *pointer)
{
	char	   *piece = (char *) pointer - HEADER;
	size_t		size;

	memcpy(&size, piece, sizeof(size));
	in_use -= size;
	free(piece);
}

double
fuzz_processor_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

int
__wrap_LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	double		begun = fuzz_processor_seconds();
	double		seconds;
	int			result;

	arena_allocate = counted_allocate;
	arena_release = counted_release;
	peak = in_use;
	result = __real_LLVMFuzzerTestOneInput(bytes, size);
	seconds = fuzz_processor_seconds() - begun;
	if (peak > fuzz_bytes_floor + size * BYTES_PER_BYTE)
	{
		fprintf(stderr, "an input of %zu bytes made arenas of %zu bytes\n", size, peak);
		abort();
	}
	if (seconds > fuzz_seconds_most)
	{
		fprintf(stderr, "an input of %zu bytes took %.1f seconds of processor time\n", size, seconds);
		abort();
	}
	return result;
}
