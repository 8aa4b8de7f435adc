/*-------------------------------------------------------------------------
 *
 * read.h
 *	  Rows of stored objects as the bytes of answers.
 *
 * A row has a version, the metadata, and the body in the form of
 * stored_bytes() (codec/packed.h); the body is null when the answer does not
 * show it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef READ_H
#define READ_H

#include "engine/answers/read_plan.h"
#include "engine/answers/render.h"

/* The form of the objects of an answer. */
typedef struct ReadForm
{
	const Definition *definition;	/* a form that splices stored texts uses only api_version and kind */
	Transform	transform;
} ReadForm;

typedef struct ReadRow
{
	int64_t		version;
	JsonText	metadata;
	JsonText	body;			/* packed; bytes NULL, or empty: the form does not need the body */
} ReadRow;

/* The part of an answer that a row becomes. */
typedef enum ReadPart
{
	READ_ANSWER,				/* the answer to a get, with a newline */
	READ_ITEM,					/* an item of a list */
	READ_ADDED,					/* the frame of an initial event */
	READ_CHANGED				/* the object of an event */
} ReadPart;

typedef enum ReadOutcome
{
	READ_DONE,
	READ_DAMAGED,				/* the body cannot be unpacked */
	READ_COSTLY					/* rendering exceeded the budget of the row */
} ReadOutcome;

/*
 * Memory for an unpacked body, which rows use one after the other.  Zeroed memory is valid: nothing is allocated yet.
 */
typedef struct ReadRoom
{
	char	   *bytes;
	size_t		size;
} ReadRoom;

extern void read_room_free(ReadRoom *room);

/*
 * Renders a row and appends it to buf.  now: the present time, from which ages are counted, in seconds since 1970.  The
 * function frees the trees that it has parsed.  Unless the outcome is READ_DONE, buf may have a part of the row.
 */
extern ReadOutcome read_render(StrBuf *buf, ReadRoom *room, const ReadForm *form, ReadPart part, const ReadRow *row,
							   int64_t now);

#endif							/* READ_H */
