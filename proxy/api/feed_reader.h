/*-------------------------------------------------------------------------
 *
 * feed_reader.h
 *	  The feed process: reads the change log once for all workers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FEED_READER_H
#define FEED_READER_H

#include <stdbool.h>

/* Opens the database connection of the process and begins to read what the workers follow. */
extern void feed_reader_start(void);

#endif							/* FEED_READER_H */
