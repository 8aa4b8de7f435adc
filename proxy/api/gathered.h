/*-------------------------------------------------------------------------
 *
 * gathered.h
 *	  Frames of events that a watch sends together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GATHERED_H
#define GATHERED_H

#include "api/feed.h"

#define GATHERED_FRAMES 64

/* Zeroed: empty. */
typedef struct Gathered
{
	Frame	   *frames[GATHERED_FRAMES];
	size_t		count;
	size_t		size;
} Gathered;

/* Holds the frame; false when no more should be added. */
extern bool gathered_add(Gathered *gathered, Frame *frame);

/* Joins all frames into one that the caller owns.  At least one frame must have been added. */
extern Frame *gathered_join(Gathered *gathered);

#endif							/* GATHERED_H */
