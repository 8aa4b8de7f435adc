/*-------------------------------------------------------------------------
 *
 * slow_flush.c
 *	  Makes every flush to disk take two milliseconds longer.
 *
 * Preloaded into PostgreSQL by the create benchmark: a stand-in for storage
 * over a network.
 *
 *-------------------------------------------------------------------------
 */
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#define DELAY_NANOSECONDS 2000000

static int
delayed(const char *name, int fd)
{
	struct timespec delay = {0, DELAY_NANOSECONDS};
	int			(*flush) (int) = (int (*) (int)) dlsym(RTLD_NEXT, name);

	/* A signal does not shorten the delay. */
	while (nanosleep(&delay, &delay) != 0)
		;
	return flush(fd);
}

int
fdatasync(int fd)
{
	return delayed("fdatasync", fd);
}

int
fsync(int fd)
{
	return delayed("fsync", fd);
}
