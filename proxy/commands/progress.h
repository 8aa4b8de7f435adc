/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  The progress of a long command: on a terminal one line that changes,
 *	  elsewhere a line every ten seconds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Progress
{
	const char *what;
	size_t		total;			/* 0: unknown */
	bool		terminal;
	bool		shown;			/* the terminal shows a line */
	uint64_t	began_at;		/* milliseconds */
	uint64_t	shown_at;
} Progress;

/* Begin the progress of work on objects; show how many objects are done. */
extern void progress_begin(Progress *progress, const char *what);
extern void progress_step(Progress *progress, size_t done);

/* Prints a line above the line that changes.  Control characters become question marks. */
extern void progress_tell(Progress *progress, const char *format,...) __attribute__((format(printf, 2, 3)));

/* Prints the final line: the number of objects and the time. */
extern void progress_end(Progress *progress, size_t done);

#endif							/* PROGRESS_H */
