/*-------------------------------------------------------------------------
 *
 * json_duplicate.h
 *	  Duplicate members of JSON objects, with their paths, as kube-apiserver
 *	  reports them in warnings.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JSON_DUPLICATE_H
#define JSON_DUPLICATE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/json.h"

/* A place in a document: an array or object, and the index or key of one of its values. */
typedef struct JsonPlace
{
	const struct JsonPlace *parent;
	bool		is_array;
	JsonText	key;
	size_t		index;
} JsonPlace;

typedef struct DuplicateNote
{
	size_t		offset;			/* of the key in the text */
	const char *path;
} DuplicateNote;

/* The duplicates that a parser has met; all zero at the start. */
typedef struct DuplicateNotes
{
	DuplicateNote *notes;		/* in the arena given to duplicate_note() */
	size_t		count;
	size_t		bytes;			/* of all paths */
} DuplicateNotes;

/* Notes that key repeats in the object at parent.  Beyond a limit of number and of bytes, nothing is noted. */
extern void duplicate_note(Arena *arena, DuplicateNotes *notes, const JsonPlace *parent, JsonText key, size_t offset);

/* Reports the noted duplicates in document order, each path once, at most 100 paths. */
extern void duplicates_tell(DuplicateNotes *notes, JsonDuplicate duplicate, void *state);

#endif							/* JSON_DUPLICATE_H */
