/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  How far a long command has come: a line that changes on a terminal,
 *	  a line now and then elsewhere.
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
	size_t		total;			/* as far as it is known; 0: it is not */
	bool		terminal;
	bool		shown;			/* a line stands on the terminal */
	uint64_t	began_at;		/* milliseconds */
	uint64_t	shown_at;
} Progress;

extern void progress_begin(Progress *progress, const char *what);
extern void progress_step(Progress *progress, size_t done);

/* A line of its own, above the one that changes; control characters become question marks. */
extern void progress_tell(Progress *progress, const char *format,...) __attribute__((format(printf, 2, 3)));

/* The last word: how many in what time. */
extern void progress_end(Progress *progress, size_t done);

#endif							/* PROGRESS_H */
