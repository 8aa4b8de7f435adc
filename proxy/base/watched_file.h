/*-------------------------------------------------------------------------
 *
 * watched_file.h
 *	  Files that are read again when they change.
 *
 * Files are checked every second.  A mounted Secret changes through a symbolic
 * link; stat() follows the link, so that the change shows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WATCHED_FILE_H
#define WATCHED_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/* Identifies the state of a file; all zero at first and for a missing file. */
typedef struct WatchedFile
{
	dev_t		device;
	ino_t		inode;
	off_t		size;
	struct timespec changed;
} WatchedFile;

/* Whether the file has changed since the last call; never true for path "". */
extern bool watched_file_changed(WatchedFile *file, const char *path);

#endif							/* WATCHED_FILE_H */
