/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  For every fuzz target: its entry point, and a check that aborts.
 *
 * libFuzzer calls the target, or replay.c calls it for files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static inline void
check(bool holds)
{
	if (!holds)
		abort();
}

/*
 * Removes the first line and returns it as a string.  The string ends at the line's first NUL, as counted text of
 * libh2o does when it becomes a string.
 */
static inline const char *
take_line(Arena *arena, const char **next, size_t *left)
{
	const char *newline = *left > 0 ? memchr(*next, '\n', *left) : NULL;
	size_t		len = newline != NULL ? (size_t) (newline - *next) : *left;
	const char *line = arena_strndup(arena, *next, len);

	*next += len + (newline != NULL);
	*left -= len + (newline != NULL);
	return line;
}

/*
 * limits.c: the limits of one input, which a target may set when it is called; and the total of all bytes that arenas
 * have allocated.
 */
extern size_t fuzz_bytes_floor;
extern double fuzz_seconds_most;
extern size_t fuzz_bytes_taken;
extern double fuzz_processor_seconds(void);

#endif							/* FUZZ_H */
