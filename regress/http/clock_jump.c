/*-------------------------------------------------------------------------
 *
 * clock_jump.c
 *	  Loaded into a program: shifts its wall clock by a number of seconds that a file has.
 *
 * CLOCK_OFFSET_FILE names a file with the eight bytes of a number, which may be
 * changed while the program runs.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void
open_offset(void)
{
	const char *path = getenv("CLOCK_OFFSET_FILE");
	int			fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void	   *mapped = fd >= 0 ? mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (mapped == MAP_FAILED)
		abort();
	offset = mapped;
	close(fd);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	int			result = (int) syscall(SYS_clock_gettime, clock, now);

	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && offset != NULL)
		now->tv_sec += *offset;
	return result;
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec exact;

	clock_gettime(CLOCK_REALTIME, &exact);
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *now)
{
	struct timespec exact;

	clock_gettime(CLOCK_REALTIME, &exact);
	if (now != NULL)
		*now = exact.tv_sec;
	return exact.tv_sec;
}
