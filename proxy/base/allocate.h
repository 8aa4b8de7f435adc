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

/*
 * Zeroed memory that the caller frees.  Without memory the process ends, as arenas end it: another process takes its
 * place, and no request is half done.
 */
static inline void *
allocate(size_t size)
{
	void	   *memory = calloc(1, size);

	if (memory == NULL)
		abort();
	return memory;
}

/* Frees *text and sets it to a copy of value, which the caller frees; NULL stays NULL.  Ends the process likewise. */
static inline void
replace_text(char **text, const char *value)
{
	free(*text);
	*text = value == NULL ? NULL : strdup(value);
	if (value != NULL && *text == NULL)
		abort();
}

#endif							/* ALLOCATE_H */
