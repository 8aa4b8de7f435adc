/*-------------------------------------------------------------------------
 *
 * log.c
 *	  JSON lines on standard error.
 *
 * Every line is one JSON object with its keys in a fixed order, built in a
 * buffer of fixed size and handed over with one write(), so that lines of
 * several workers do not mix.  What does not fit is cut; the line stays valid
 * JSON.
 *
 *-------------------------------------------------------------------------
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"

#define LINE_SIZE 8192

/* Room that is kept for the end of a line whose strings were cut. */
#define TAIL_SIZE 256

/* A group is cut to so many bytes, and the list of them ends where the members behind it would lack room. */
#define GROUP_SIZE 256
#define MEMBERS_SIZE 1536

/* The longest string of a request that is logged. */
#define VALUE_SIZE 2048

typedef struct Line
{
	char		bytes[LINE_SIZE];
	size_t		len;
} Line;

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* The lowest --v that shows a level. */
static const int level_verbosity[] = {0, 1, 1, 2};

static int	log_worker = -1;

static void
append_raw(Line *line, const char *text)
{
	size_t		len = strlen(text);

	if (len > LINE_SIZE - line->len)
		len = LINE_SIZE - line->len;
	memcpy(line->bytes + line->len, text, len);
	line->len += len;
}

/* The length of the valid UTF-8 character at the start of bytes, 0 when there is none. */
static size_t
utf8_length(const unsigned char *bytes, size_t len)
{
	uint32_t	point;
	size_t		need;

	if (bytes[0] < 0x80)
		return 1;
	if (bytes[0] >= 0xc2 && bytes[0] < 0xe0)
		need = 2;
	else if ((bytes[0] & 0xf0) == 0xe0)
		need = 3;
	else if (bytes[0] >= 0xf0 && bytes[0] < 0xf5)
		need = 4;
	else
		return 0;
	if (len < need)
		return 0;
	point = bytes[0] & (0xff >> (need + 1));
	for (size_t i = 1; i < need; i++)
	{
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (bytes[i] & 0x3f);
	}
	if ((need == 3 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) ||
		(need == 4 && (point < 0x10000 || point > 0x10ffff)))
		return 0;
	return need;
}

/* Appends a quoted JSON string of at most limit bytes of text. */
static void
append_string(Line *line, const char *text, size_t limit)
{
	const unsigned char *bytes = (const unsigned char *) text;
	size_t		len = strnlen(text, limit);

	append_raw(line, "\"");
	for (size_t i = 0; i < len;)
	{
		size_t		step = utf8_length(bytes + i, len - i);

		/* An escape takes six bytes at most. */
		if (line->len + 6 + TAIL_SIZE > LINE_SIZE)
			break;
		if (step == 0)
		{
			append_raw(line, "\\ufffd");
			i++;
			continue;
		}
		if (bytes[i] == '"' || bytes[i] == '\\')
			line->bytes[line->len++] = '\\';
		if (bytes[i] < 0x20 || bytes[i] == 0x7f)
		{
			char		escape[8];

			snprintf(escape, sizeof(escape), "\\u%04x", bytes[i]);
			append_raw(line, escape);
		}
		else
		{
			memcpy(line->bytes + line->len, bytes + i, step);
			line->len += step;
		}
		i += step;
	}
	append_raw(line, "\"");
}

static void
append_member(Line *line, const char *key, const char *value)
{
	append_raw(line, ",\"");
	append_raw(line, key);
	append_raw(line, "\":");
	append_string(line, value != NULL ? value : "", VALUE_SIZE);
}

static void
begin_line(Line *line, LogLevel level)
{
	struct timespec now;
	struct tm	parts;
	char		stamp[40];
	char		head[120];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(head, sizeof(head), "{\"time\":\"%s.%06ldZ\",\"level\":\"%s\",\"worker\":%d",
			 stamp, now.tv_nsec / 1000, level_names[level], log_worker);
	line->len = 0;
	append_raw(line, head);
}

static void
end_line(Line *line)
{
	ssize_t		written;

	append_raw(line, "}\n");
	do
		written = write(STDERR_FILENO, line->bytes, line->len);
	while (written < 0 && errno == EINTR);
}

void
log_set_worker(int worker)
{
	log_worker = worker;
}

void
log_line(LogLevel level, const char *format,...)
{
	char		message[VALUE_SIZE];
	Line		line;
	va_list		args;
	int			saved_errno = errno;

	if (level_verbosity[level] > config.verbosity)
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	begin_line(&line, level);
	append_member(&line, "message", message);
	end_line(&line);
	errno = saved_errno;
}

void
log_access(const LogAccess *access)
{
	Line		line;
	char		numbers[160];

	if (config.verbosity < 1)
		return;
	begin_line(&line, LOG_INFO);
	append_member(&line, "auditID", access->audit_id);
	append_member(&line, "method", access->method);
	append_member(&line, "uri", access->uri);
	append_member(&line, "verb", access->verb);
	append_member(&line, "user", access->user);
	append_raw(&line, ",\"groups\":[");
	for (size_t i = 0; i < access->group_count && line.len + MEMBERS_SIZE < LINE_SIZE; i++)
	{
		if (i > 0)
			append_raw(&line, ",");
		append_string(&line, access->groups[i], GROUP_SIZE);
	}
	append_raw(&line, "]");
	snprintf(numbers, sizeof(numbers), ",\"status\":%d,\"latency\":%.6f,\"bytes\":%zu,\"complete\":%s",
			 access->status, access->latency, access->bytes, access->complete ? "true" : "false");
	append_raw(&line, numbers);
	append_member(&line, "userAgent", access->user_agent);
	end_line(&line);
}
