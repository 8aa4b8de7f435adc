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

/* Frames to send together.  Zeroed memory is an empty list. */
typedef struct Gathered
{
	Frame	   *frames[GATHERED_FRAMES];
	size_t		count;
	size_t		size;
} Gathered;

/* Adds a frame and a reference to it; returns false when no more frames should be added. */
extern bool gathered_add(Gathered *gathered, Frame *frame);

/*
 * Joins all frames, at least one, into one that the caller owns.  The list is then used up: zero it for further frames.
 */
extern Frame *gathered_join(Gathered *gathered);

#endif							/* GATHERED_H */
