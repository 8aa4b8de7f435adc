/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  The progress of a long command: a line that changes on a terminal,
 *	  otherwise a line now and then.
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

extern void progress_begin(Progress *progress, const char *what);
extern void progress_step(Progress *progress, size_t done);

/* Prints a line above the one that changes.  Control characters become question marks. */
extern void progress_tell(Progress *progress, const char *format,...) __attribute__((format(printf, 2, 3)));

/* Prints the final line: the number of objects and the time. */
extern void progress_end(Progress *progress, size_t done);

#endif							/* PROGRESS_H */
