/*-------------------------------------------------------------------------
 *
 * key_list.h
 *	  The keys of listed objects: namespace and name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_KEY_LIST_H
#define FORWARD_KEY_LIST_H

#include "engine/base/arena.h"

/* Namespace and name of an object, each ended by NUL. */
typedef char Key;

typedef struct KeyList
{
	Arena		arena;			/* memory of the keys and of the array */
	const Key **keys;
	size_t		count;
	size_t		capacity;
} KeyList;

/* Makes a list without keys. */
extern void key_list_init(KeyList *list);

/* Frees the keys; the list is one without keys then. */
extern void key_list_free(KeyList *list);

/* Adds a copy of a key. */
extern void key_list_add(KeyList *list, const char *namespace, const char *name);

/* Puts the keys into the order of the receiver, each once. */
extern void key_list_sort(KeyList *list);

/* Returns the keys of two sorted lists in order, each once, in memory of the first list; *count: how many there are. */
extern const Key **key_list_union(KeyList *list, const KeyList *other, size_t *count);

#endif							/* FORWARD_KEY_LIST_H */
