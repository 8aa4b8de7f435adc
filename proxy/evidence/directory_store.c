/*-------------------------------------------------------------------------
 *
 * directory_store.c
 *	  Files of evidence in a directory, such as a mounted volume.
 *
 * A file is written to .incoming, synchronized, and renamed to its place.  The
 * writer holds a lock on its file, so several processes can share a volume: a
 * file of .incoming without a lock has no writer any more and may be removed.
 *
 * Whoever can write to the volume can put links there.  No link is followed.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/log.h"
#include "evidence/store.h"

#define INCOMING ".incoming"

/* How often a directory is made again when another process removes it because it is empty. */
#define ATTEMPTS 10

struct StoreWriter
{
	int			fd;
	bool		renamed;
	char		key[KEY_SIZE];
	char		incoming[KEY_SIZE];
};

struct StoreReader
{
	int			fd;
};

static int	root = -1;

static StoreOutcome
failed(const char *what, char *why)
{
	int			error = errno;

	snprintf(why, WHY_SIZE, "%s: %s", what, strerror(error));
	/* EFBIG: the limit of file sizes of the process or of the file system. */
	return error == ENOSPC || error == EDQUOT || error == EFBIG ? STORE_FULL : STORE_FAILED;
}

static void
incoming_name(const char *key, char *name)
{
	const char *last = strrchr(key, '/');

	snprintf(name, KEY_SIZE, INCOMING "/%.400s", last == NULL ? key : last + 1);
}

/*
 * Opens a directory below the root; -1 with errno.  A link in the way is an error (ELOOP or ENOTDIR): what leads out of
 * the store is none of its directories, whoever has made it.  make: directories that are missing are made, and those
 * that get an entry are synchronized.
 */
static int
open_below(const char *path, bool make)
{
	int			at = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char		part[KEY_SIZE];

	while (at >= 0 && *path != '\0')
	{
		size_t		len = strcspn(path, "/");
		int			next;
		int			error;

		snprintf(part, sizeof(part), "%.*s", (int) len, path);
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0 && errno == ENOENT && make && ((mkdirat(at, part, 0750) == 0 && fsync(at) == 0) ||
													errno == EEXIST))
			next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		error = errno;
		close(at);
		errno = error;
		at = next;
		path += len + (path[len] == '/');
	}
	return at;
}

/* The directory of a key, as open_below(); *name: the rest of the key. */
static int
open_above(const char *key, bool make, const char **name)
{
	const char *last = strrchr(key, '/');
	char		above[KEY_SIZE];

	snprintf(above, sizeof(above), "%.*s", last == NULL ? 0 : (int) (last - key), key);
	*name = last == NULL ? key : last + 1;
	return open_below(above, make);
}

/* Closes a directory, and keeps errno. */
static void
leave_directory(int at)
{
	int			error = errno;

	close(at);
	errno = error;
}

/* ---------- writing ---------- */

static StoreOutcome
open_file(StoreWriter **writer, const StoreFile *file, char *why)
{
	struct statvfs space;
	StoreWriter *fresh;

	if (file->bytes > 0 && fstatvfs(root, &space) == 0 &&
		(uint64_t) space.f_bavail * space.f_frsize < (uint64_t) file->bytes)
	{
		snprintf(why, WHY_SIZE, "the file system does not have enough room");
		return STORE_FULL;
	}
	fresh = allocate(sizeof(StoreWriter));
	snprintf(fresh->key, sizeof(fresh->key), "%s", file->key);
	incoming_name(file->key, fresh->incoming);
	fresh->fd = openat(root, fresh->incoming, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fresh->fd < 0 || flock(fresh->fd, LOCK_EX | LOCK_NB) != 0)
	{
		StoreOutcome outcome = failed("cannot create a file", why);

		if (fresh->fd >= 0)
		{
			close(fresh->fd);
			unlinkat(root, fresh->incoming, 0);
		}
		free(fresh);
		return outcome;
	}
	*writer = fresh;
	return STORE_OK;
}

static StoreOutcome
write_file(StoreWriter *writer, const char *bytes, size_t len, char *why)
{
	while (len > 0)
	{
		ssize_t		written = write(writer->fd, bytes, len);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return failed("cannot write a file", why);
		bytes += written;
		len -= (size_t) written;
	}
	return STORE_OK;
}

/* Another process may remove a directory that is empty before the file is in it. */
static bool
move_into_place(StoreWriter *writer)
{
	for (int attempt = 0; attempt < ATTEMPTS; attempt++)
	{
		const char *name;
		int			at = open_above(writer->key, true, &name);
		bool		durable;

		if (at >= 0 && renameat(root, writer->incoming, at, name) == 0)
		{
			writer->renamed = true;
			durable = fsync(at) == 0;
			leave_directory(at);
			return durable;
		}
		if (at >= 0)
			leave_directory(at);
		if (errno != ENOENT)
			return false;
	}
	return false;
}

static StoreOutcome
finish_file(StoreWriter *writer, char *why)
{
	if (fsync(writer->fd) != 0)
		return failed("cannot flush a file to the disk", why);
	if (!move_into_place(writer))
		return failed("cannot move a file to its place", why);
	return STORE_OK;
}

static void
close_file(StoreWriter *writer)
{
	if (!writer->renamed)
		unlinkat(root, writer->incoming, 0);
	close(writer->fd);
	free(writer);
}

/* ---------- removing ---------- */

/* Removes a file of .incoming, unless a writer holds its lock. */
static void
remove_abandoned(const char *path)
{
	int			fd = openat(root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		unlinkat(root, path, 0);
	close(fd);
}

static StoreOutcome
remove_file(const char *key, char *why)
{
	char		path[KEY_SIZE];
	char	   *slash;
	const char *name;
	StoreOutcome outcome = STORE_OK;
	bool		empty;
	int			at;

	incoming_name(key, path);
	remove_abandoned(path);
	at = open_above(key, false, &name);
	if ((at < 0 || unlinkat(at, name, 0) != 0) && errno != ENOENT)
		outcome = failed("cannot remove a file", why);
	if (at >= 0)
		close(at);
	/* Remove the directories of the scan and of the cluster if they are empty now. */
	snprintf(path, sizeof(path), "%s", key);
	while (outcome == STORE_OK && (slash = strrchr(path, '/')) != NULL)
	{
		*slash = '\0';
		at = open_above(path, false, &name);
		if (at < 0)
			continue;
		empty = unlinkat(at, name, AT_REMOVEDIR) == 0;
		close(at);
		if (!empty)
			break;
	}
	return outcome;
}

static void
sweep_incoming(void)
{
	int			fd = openat(root, INCOMING, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR		   *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (directory != NULL && (entry = readdir(directory)) != NULL)
	{
		char		path[KEY_SIZE];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), INCOMING "/%.400s", entry->d_name);
		remove_abandoned(path);
	}
	if (directory != NULL)
		closedir(directory);
}

/* ---------- reading ---------- */

static StoreOutcome
open_reader(StoreReader **reader, const char *key, int64_t bytes, char *why)
{
	const char *name;
	int			at = open_above(key, false, &name);
	int			fd = -1;
	struct stat status;

	if (at >= 0)
	{
		/* Of a pipe nobody writes to, this would wait. */
		fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		leave_directory(at);
	}
	if (fd < 0)
	{
		bool		missing = errno == ENOENT;
		StoreOutcome outcome = failed("cannot read a file", why);

		return missing ? STORE_GONE : outcome;
	}
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != bytes)
	{
		close(fd);
		snprintf(why, WHY_SIZE, "the file has another size than when it was stored");
		return STORE_GONE;
	}
	*reader = allocate(sizeof(StoreReader));
	(*reader)->fd = fd;
	return STORE_OK;
}

static ssize_t
read_file(StoreReader *reader, char *buffer, size_t size)
{
	ssize_t		got;

	do
		got = read(reader->fd, buffer, size);
	while (got < 0 && errno == EINTR);
	return got;
}

static void
close_reader(StoreReader *reader)
{
	close(reader->fd);
	free(reader);
}

static const Store directory_store = {
	.provider = "directory",
	.open = open_file,
	.write = write_file,
	.finish = finish_file,
	.close = close_file,
	.remove = remove_file,
	.read_open = open_reader,
	.read = read_file,
	.read_close = close_reader,
};

const Store *
directory_store_open(const char *path, char *why)
{
	root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || (mkdirat(root, INCOMING, 0750) != 0 && errno != EEXIST) ||
		faccessat(root, INCOMING, W_OK | X_OK, 0) != 0)
	{
		snprintf(why, WHY_SIZE, "%.180s: %s", path, strerror(errno));
		return NULL;
	}
	sweep_incoming();
	return &directory_store;
}
