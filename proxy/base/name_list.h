/*-------------------------------------------------------------------------
 *
 * name_list.h
 *	  Lists of names, as flags and ConfigMaps give them.
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

/* Names separated by commas, without the blanks around them; "" is an empty list.  False when a name is empty. */
extern bool name_list_split(Arena *arena, const char *text, NameList *list);

/*
 * A JSON array of strings, none empty, as the ConfigMap extension-apiserver-authentication has it; text NULL or "" is
 * an empty list.
 */
extern bool name_list_parse(Arena *arena, const char *text, NameList *list);

extern bool name_list_has(const NameList *list, const char *name);

#endif							/* NAME_LIST_H */
