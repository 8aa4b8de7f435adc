/*-------------------------------------------------------------------------
 *
 * watched_file.c
 *	  Files that are read again when they change.
 *
 *-------------------------------------------------------------------------
 */
#include "base/watched_file.h"

#include <string.h>

bool
watched_file_changed(WatchedFile *file, const char *path)
{
	struct stat status;
	WatchedFile now;

	/* memcmp() also compares the padding. */
	memset(&now, 0, sizeof(now));
	if (path[0] != '\0' && stat(path, &status) == 0)
	{
		now.device = status.st_dev;
		now.inode = status.st_ino;
		now.size = status.st_size;
		now.changed = status.st_mtim;
	}
	if (memcmp(&now, file, sizeof(now)) == 0)
		return false;
	*file = now;
	return true;
}
