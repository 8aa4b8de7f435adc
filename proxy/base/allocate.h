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

#endif							/* ALLOCATE_H */
