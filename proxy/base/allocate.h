/*-------------------------------------------------------------------------
 *
 * allocate.h
 *	  Memory outside of arenas.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ALLOCATE_H
#define ALLOCATE_H

#include <stdlib.h>
#include <string.h>

/* Returns size zeroed bytes, which the caller frees.  When there is no memory, the process aborts, as with an arena. */
static inline void *
allocate(size_t size)
{
	void	   *memory = calloc(1, size);

	if (memory == NULL)
		abort();
	return memory;
}

/* Frees *text and sets it to a copy of value, which the caller frees; NULL gives NULL.  Aborts without memory. */
static inline void
replace_text(char **text, const char *value)
{
	free(*text);
	*text = value == NULL ? NULL : strdup(value);
	if (value != NULL && *text == NULL)
		abort();
}

#endif							/* ALLOCATE_H */
