/*-------------------------------------------------------------------------
 *
 * log.h
 *	  JSON lines on standard error.
 *
 * Nothing here waits for whoever reads standard error: lines that find no room
 * among those that wait are dropped and counted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum LogLevel
{
	LOG_ERROR,
	LOG_WARNING,
	LOG_NOTICE,					/* information that is always shown: how a start went, and that trouble is over */
	LOG_INFO,
	LOG_DEBUG
} LogLevel;

/*
 * One line {"time":...,"level":...,"worker":N,"message":...}.  --v=0 shows errors and notices, --v=1 warnings and information
 * too, --v=2 everything.
 */
extern void log_line(LogLevel level, const char *format,...) __attribute__((format(printf, 2, 3)));

/* The number that lines carry from now on; -1, the default, is the parent process. */
extern void log_set_worker(int worker);

/* Waits until everything has been written, for a second at most.  An exit() does it; before an abort() it has to be called. */
extern void log_flush(void);

/* A request that has ended; strings may be NULL. */
typedef struct LogAccess
{
	const char *audit_id;
	const char *method;
	const char *uri;
	const char *verb;
	const char *user;
	const char *const *groups;
	size_t		group_count;
	const char *user_agent;
	int			status;			/* 0: the client was gone before an answer */
	double		latency;		/* seconds */
	size_t		bytes;			/* of the body, sent */
	bool		complete;		/* the whole answer was written to the connection */
} LogAccess;

/* One line for each request, from --v=1 on. */
extern void log_access(const LogAccess *access);

#endif							/* LOG_H */
