/*-------------------------------------------------------------------------
 *
 * watched_file.h
 *	  Files that are read again when they change.
 *
 * By looking every second: a mounted Secret changes by a symbolic link that
 * moves, and what the link leads to tells that by itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WATCHED_FILE_H
#define WATCHED_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/* What tells one state of a file from another; all zero at first, and for a file that is not there. */
typedef struct WatchedFile
{
	dev_t		device;
	ino_t		inode;
	off_t		size;
	struct timespec changed;
} WatchedFile;

/* Whether the file is another one than at the last call; never true for path "". */
extern bool watched_file_changed(WatchedFile *file, const char *path);

#endif							/* WATCHED_FILE_H */
