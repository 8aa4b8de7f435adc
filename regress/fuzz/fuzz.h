/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  What every fuzz target has: its entry, and a check that ends it.
 *
 * The target is called by libFuzzer, or over files by replay.c.
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
 * Takes a line off the front as a string that ends at its first NUL, as libh2o's counted text does when it becomes
 * one.
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

/* limits.c: what one input may cost; a target may set both when it is called.  And all bytes that arenas ever took. */
extern size_t fuzz_bytes_floor;
extern double fuzz_seconds_most;
extern size_t fuzz_bytes_taken;
extern double fuzz_processor_seconds(void);

#endif							/* FUZZ_H */
