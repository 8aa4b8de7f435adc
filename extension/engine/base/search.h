/*-------------------------------------------------------------------------
 *
 * search.h
 *	  Search in a sorted array.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SEARCH_H
#define SEARCH_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The position of an element that compares as 0, or the position to insert it at.  order() compares an element with the
 * key; it is constant at each call, so that compilers put it into the loop.
 */
static inline size_t
search_sorted(const void *elements, size_t count, size_t size, const void *key,
			  int (*order) (const void *element, const void *key), bool *found)
{
	size_t		low = 0;
	size_t		high = count;

	*found = false;
	while (low < high)
	{
		size_t		middle = low + (high - low) / 2;
		int			compared = order((const char *) elements + middle * size, key);

		if (compared == 0)
		{
			*found = true;
			return middle;
		}
		if (compared < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif							/* SEARCH_H */
