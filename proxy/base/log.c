/*-------------------------------------------------------------------------
 *
 * log.c
 *	  The log: lines of JSON, or of text, on standard error.
 *
 * Every line is one JSON object with its keys in a fixed order.  It is built
 * in a buffer of fixed size and written with one write(), so that lines of
 * several workers do not mix.  A line that is too long is cut; it stays valid
 * JSON.
 *
 * In text format a line is klog's: the letter of the level and the time, the
 * worker instead of the process, the quoted message, then key="value" with the
 * same keys.
 *
 * The reader of standard error may stall, and a full pipe blocks its writers.
 * So lines go into a ring of fixed size, and a thread of each process writes
 * them.  A line that finds no room is dropped and counted; as soon as there is
 * room again, the log says how many were dropped.  O_NONBLOCK is no
 * alternative: it would apply to all processes that share the descriptor, also
 * to the shell.
 *
 *-------------------------------------------------------------------------
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/metrics.h"
#include "engine/base/utf8.h"

#define LINE_SIZE 8192

/* Size of the ring in bytes.  How long log_flush() waits until the ring is written, in milliseconds. */
#define RING_SIZE (256 * 1024)
#define FLUSH_MS 1000

/* Bytes reserved for the end of a line whose strings were cut. */
#define TAIL_SIZE 512

/*
 * A group is cut to GROUP_SIZE bytes.  The list of groups ends when fewer than MEMBERS_SIZE bytes remain for the
 * members that follow.
 */
#define GROUP_SIZE 256
#define MEMBERS_SIZE 1536

/* Longer messages and strings of a request are cut to this many bytes. */
#define VALUE_SIZE 2048

typedef struct Line
{
	char		bytes[LINE_SIZE];
	size_t		len;
} Line;

static const char *const level_names[] = {"error", "warning", "info", "info", "debug"};
static const char level_letters[] = "EWIID";

/* The lowest --v that shows a level. */
static const int level_verbosity[] = {0, 1, 0, 1, 2};

static int	log_worker = -1;

/* The lines that wait to be written, a ring buffer. */
static struct
{
	pthread_mutex_t lock;
	pthread_cond_t begun;		/* signalled when the thread runs */
	pthread_cond_t filled;		/* signalled when a line was added */
	pthread_cond_t emptied;		/* signalled when all lines were written */
	char		bytes[RING_SIZE];
	size_t		start;
	size_t		len;
	bool		writing;		/* a line was taken out and is not written yet */
	bool		started;		/* this process has its thread */
	bool		running;		/* and the thread runs */
	unsigned long dropped;		/* since the log last reported the number */
}			ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER,
.filled = PTHREAD_COND_INITIALIZER, .emptied = PTHREAD_COND_INITIALIZER};

static void
append_raw(Line *line, const char *text)
{
	size_t		len = strlen(text);

	if (len > LINE_SIZE - line->len)
		len = LINE_SIZE - line->len;
	memcpy(line->bytes + line->len, text, len);
	line->len += len;
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
		size_t		step = utf8_length(text + i, text + len);

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

static bool
is_text(void)
{
	return config.logging_format == LOGGING_TEXT;
}

static void
append_key(Line *line, const char *key)
{
	append_raw(line, is_text() ? " " : ",\"");
	append_raw(line, key);
	append_raw(line, is_text() ? "=" : "\":");
}

static void
append_member(Line *line, const char *key, const char *value)
{
	append_key(line, key);
	append_string(line, value != NULL ? value : "", VALUE_SIZE);
}

/* Appends a member unless its value is empty. */
static void
append_optional(Line *line, const char *key, const char *value)
{
	if (value != NULL && value[0] != '\0')
		append_member(line, key, value);
}

static void
begin_line(Line *line, LogLevel level, const char *message)
{
	struct timespec now;
	struct tm	parts;
	char		stamp[40];
	char		head[120];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	strftime(stamp, sizeof(stamp), is_text() ? "%m%d %H:%M:%S" : "%Y-%m-%dT%H:%M:%S", &parts);
	if (is_text())
		snprintf(head, sizeof(head), "%c%s.%06ld %7d ", level_letters[level], stamp, now.tv_nsec / 1000, log_worker);
	else
		snprintf(head, sizeof(head), "{\"time\":\"%s.%06ldZ\",\"level\":\"%s\",\"worker\":%d",
				 stamp, now.tv_nsec / 1000, level_names[level], log_worker);
	line->len = 0;
	append_raw(line, head);
	if (is_text())
		append_string(line, message, VALUE_SIZE);
	else
		append_member(line, "message", message);
}

static void
finish_line(Line *line)
{
	append_raw(line, is_text() ? "\n" : "}\n");
}

/* ---------- the ring; the caller holds the lock ---------- */

static bool
ring_put(const char *bytes, size_t len)
{
	size_t		end = (ring.start + ring.len) % RING_SIZE;
	size_t		first = len < RING_SIZE - end ? len : RING_SIZE - end;

	if (len > RING_SIZE - ring.len)
		return false;
	memcpy(ring.bytes + end, bytes, first);
	memcpy(ring.bytes, bytes + first, len - first);
	ring.len += len;
	return true;
}

/* Takes the first line out and returns its length. */
static size_t
ring_take(char *line)
{
	size_t		len = 0;

	do
	{
		line[len] = ring.bytes[ring.start];
		ring.start = (ring.start + 1) % RING_SIZE;
		ring.len--;
	} while (line[len++] != '\n');
	return len;
}

static void
tell_dropped(void)
{
	char		message[80];
	Line		line;

	snprintf(message, sizeof(message), "%lu log lines were dropped: standard error was not read", ring.dropped);
	begin_line(&line, LOG_ERROR, message);
	finish_line(&line);
	if (ring_put(line.bytes, line.len))
		ring.dropped = 0;
}

static void *
write_lines(void *state)
{
	static char line[LINE_SIZE];

	pthread_mutex_lock(&ring.lock);
	ring.running = true;
	pthread_cond_signal(&ring.begun);
	for (;;)
	{
		size_t		len;
		ssize_t		written;

		if (ring.dropped > 0)
			tell_dropped();
		while (ring.len == 0)
		{
			pthread_cond_broadcast(&ring.emptied);
			pthread_cond_wait(&ring.filled, &ring.lock);
		}
		len = ring_take(line);
		ring.writing = true;
		pthread_mutex_unlock(&ring.lock);
		do
			written = write(STDERR_FILENO, line, len);
		while (written < 0 && errno == EINTR);
		pthread_mutex_lock(&ring.lock);
		ring.writing = false;
	}
	return NULL;
}

/* ---------- the thread ---------- */

static void
before_fork(void)
{
	pthread_mutex_lock(&ring.lock);
}

static void
after_fork(void)
{
	pthread_mutex_unlock(&ring.lock);
}

/* The child has no thread yet.  The thread of the parent writes the waiting lines, so the child's ring starts empty. */
static void
after_fork_in_child(void)
{
	pthread_cond_init(&ring.begun, NULL);
	pthread_cond_init(&ring.filled, NULL);
	pthread_cond_init(&ring.emptied, NULL);
	ring.len = ring.start = 0;
	ring.dropped = 0;
	ring.writing = ring.started = ring.running = false;
	pthread_mutex_unlock(&ring.lock);
}

/*
 * Starts the thread and waits until it runs.  The caller holds the lock.  The thread blocks all signals, which the
 * thread of the loop handles.  A fork while the thread starts could leave a lock of the memory allocator held in the
 * child for ever: fork() does not reset the lock of AddressSanitizer's allocator.
 */
static void
start_thread(void)
{
	static bool registered;
	sigset_t	all;
	sigset_t	before;
	pthread_t	thread;

	if (!registered)
	{
		pthread_atfork(before_fork, after_fork, after_fork_in_child);
		atexit(log_flush);
	}
	registered = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ring.started = pthread_create(&thread, NULL, write_lines, NULL) == 0;
	if (ring.started)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (ring.started && !ring.running)
		pthread_cond_wait(&ring.begun, &ring.lock);
}

void
log_flush(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += FLUSH_MS % 1000 * 1000000;
	until.tv_sec += FLUSH_MS / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&ring.lock);
	while (ring.started && (ring.len > 0 || ring.writing) &&
		   pthread_cond_timedwait(&ring.emptied, &ring.lock, &until) == 0)
		;
	pthread_mutex_unlock(&ring.lock);
}

static void
end_line(Line *line)
{
	finish_line(line);
	pthread_mutex_lock(&ring.lock);
	if (!ring.started)
		start_thread();
	/* While a report of dropped lines is due, new lines are dropped too: lines stay in order. */
	if (!ring.started || ring.dropped > 0 || !ring_put(line->bytes, line->len))
	{
		ring.dropped++;
		metrics_count(COUNTER_LOG_DROPPED, 1);
	}
	pthread_cond_signal(&ring.filled);
	pthread_mutex_unlock(&ring.lock);
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
	begin_line(&line, level, message);
	end_line(&line);
	errno = saved_errno;
}

static void
append_groups(Line *line, const LogAccess *access)
{
	append_key(line, "groups");
	append_raw(line, "[");
	for (size_t i = 0; i < access->group_count && line->len + MEMBERS_SIZE < LINE_SIZE; i++)
	{
		if (i > 0)
			append_raw(line, ",");
		append_string(line, access->groups[i], GROUP_SIZE);
	}
	append_raw(line, "]");
}

void
log_access(const LogAccess *access)
{
	bool		slow = config.slow_request_threshold > 0 && !access->lasting &&
	access->latency * 1000 >= config.slow_request_threshold;
	Line		line;
	char		number[40];

	if (config.verbosity < 1 && !slow)
		return;
	begin_line(&line, slow ? LOG_WARNING : LOG_INFO, slow ? "slow request" : "request");
	append_member(&line, "auditID", access->audit_id);
	append_optional(&line, "requestID", access->request_id);
	append_optional(&line, "traceID", access->trace_id);
	append_optional(&line, "parentID", access->parent_id);
	append_member(&line, "method", access->method);
	append_member(&line, "uri", access->uri);
	append_member(&line, "verb", access->verb);
	append_optional(&line, "group", access->group);
	append_optional(&line, "version", access->version);
	append_optional(&line, "resource", access->resource);
	append_optional(&line, "subresource", access->subresource);
	append_optional(&line, "namespace", access->namespace_name);
	append_optional(&line, "name", access->name);
	append_member(&line, "user", access->user);
	append_groups(&line, access);
	append_key(&line, "status");
	snprintf(number, sizeof(number), "%d", access->status);
	append_raw(&line, number);
	append_key(&line, "latency");
	snprintf(number, sizeof(number), "%.6f", access->latency);
	append_raw(&line, number);
	append_key(&line, "databaseWait");
	snprintf(number, sizeof(number), "%.6f", access->database_wait);
	append_raw(&line, number);
	append_key(&line, "database");
	snprintf(number, sizeof(number), "%.6f", access->database);
	append_raw(&line, number);
	append_key(&line, "bytes");
	snprintf(number, sizeof(number), "%zu", access->bytes);
	append_raw(&line, number);
	append_key(&line, "complete");
	append_raw(&line, access->complete ? "true" : "false");
	append_member(&line, "userAgent", access->user_agent);
	end_line(&line);
}
