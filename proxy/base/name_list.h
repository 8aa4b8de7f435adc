/*-------------------------------------------------------------------------
 *
 * name_list.h
 *	  Lists of names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NAME_LIST_H
#define NAME_LIST_H

#include "engine/base/arena.h"

typedef struct NameList
{
	const char **names;
	size_t		count;
} NameList;

/* Splits a list at its commas and removes blanks around the names; "" is an empty list.  False when a name is empty. */
extern bool name_list_split(Arena *arena, const char *text, NameList *list);

extern bool name_list_has(const NameList *list, const char *name);

#endif							/* NAME_LIST_H */
