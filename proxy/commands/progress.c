/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  The progress of a long command.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Milliseconds between two lines. */
#define TERMINAL_MS 200
#define PLAIN_MS 10000

static uint64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void
clear_line(Progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}

void
progress_begin(Progress *progress, const char *what)
{
	*progress = (Progress) {.what = what, .terminal = isatty(STDERR_FILENO) == 1, .began_at = now_ms()};
	progress->shown_at = progress->began_at;
}

void
progress_step(Progress *progress, size_t done)
{
	uint64_t	now = now_ms();
	double		seconds = (double) (now - progress->began_at) / 1000;
	double		rate = seconds > 0 ? (double) done / seconds : 0;

	if (now - progress->shown_at < (progress->terminal ? TERMINAL_MS : PLAIN_MS))
		return;
	progress->shown_at = now;
	clear_line(progress);
	fprintf(stderr, "%s: %zu", progress->what, done);
	if (progress->total >= done && progress->total > 0)
		fprintf(stderr, " of %zu (%zu %%)", progress->total, done * 100 / progress->total);
	fprintf(stderr, ", %.0f/s", rate);
	if (progress->total > done && rate > 0)
		fprintf(stderr, ", about %.0f s left", (double) (progress->total - done) / rate + 0.5);
	if (progress->terminal)
		fflush(stderr);
	else
		fputc('\n', stderr);
	progress->shown = progress->terminal;
}

void
progress_tell(Progress *progress, const char *format,...)
{
	va_list		arguments;
	char	   *text;
	int			len;

	clear_line(progress);
	va_start(arguments, format);
	len = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (len < 0)
		abort();
	fprintf(stderr, "%s: ", progress->what);
	/* Text from a document must not control a terminal. */
	for (int i = 0; i < len; i++)
		fputc((unsigned char) text[i] < ' ' || text[i] == 0x7f ? '?' : text[i], stderr);
	fputc('\n', stderr);
	free(text);
}

void
progress_end(Progress *progress, size_t done)
{
	double		seconds = (double) (now_ms() - progress->began_at) / 1000;

	progress_tell(progress, "%zu in %.1f s, %.0f/s", done, seconds, seconds > 0 ? (double) done / seconds : 0);
}
