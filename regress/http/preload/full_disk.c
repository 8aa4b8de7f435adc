/*
 * full_disk.c: a disk that is full, loaded into a server before its C library.
 *
 * With a limit on the size of files, a write fails with EFBIG; on a full disk, with ENOSPC.  PostgreSQL 15 writes until
 * a page is cut, and takes both for a full disk; later versions allocate several pages at once and distinguish them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

static ssize_t
written(ssize_t result)
{
	if (result < 0 && errno == EFBIG)
		errno = ENOSPC;
	return result;
}

static int
allocated(int result)
{
	return result == EFBIG ? ENOSPC : result;
}

int
posix_fallocate(int fd, off_t offset, off_t len)
{
	return allocated(REAL(posix_fallocate) (fd, offset, len));
}

int
posix_fallocate64(int fd, off64_t offset, off64_t len)
{
	return allocated(REAL(posix_fallocate64) (fd, offset, len));
}

ssize_t
pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
	return written(REAL(pwrite) (fd, bytes, len, offset));
}

ssize_t
pwrite64(int fd, const void *bytes, size_t len, off64_t offset)
{
	return written(REAL(pwrite64) (fd, bytes, len, offset));
}

ssize_t
pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
	return written(REAL(pwritev) (fd, parts, count, offset));
}

ssize_t
pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
	return written(REAL(pwritev64) (fd, parts, count, offset));
}
