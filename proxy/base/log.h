/*-------------------------------------------------------------------------
 *
 * log.h
 *	  The log: lines of JSON, or of text, on standard error.
 *
 * Logging never waits for the reader of standard error: when the buffer is
 * full, lines are dropped and counted.
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
	LOG_NOTICE,					/* always shown: steps of the start, and the end of a problem */
	LOG_INFO,
	LOG_DEBUG
} LogLevel;

/*
 * Writes one line {"time":...,"level":...,"worker":N,"message":...}; with --logging-format=text, a line in klog's
 * format.  --v=0 shows errors and notices, --v=1 also warnings and information, --v=2 everything.  Keeps errno.
 */
extern void log_line(LogLevel level, const char *format,...) __attribute__((format(printf, 2, 3)));

/* Sets the number in the lines; -1, the default, is the parent process. */
extern void log_set_worker(int worker);

/* Waits until all lines are written, at most one second.  exit() calls it; before abort() the caller must call it. */
extern void log_flush(void);

/* A request that has ended; strings may be NULL. */
typedef struct LogAccess
{
	const char *audit_id;
	const char *request_id;		/* the client's own; NULL: none */
	const char *trace_id;		/* trace_id and parent_id come from the client's traceparent; NULL: none */
	const char *parent_id;
	const char *method;
	const char *uri;
	const char *verb;
	const char *group;			/* group to name: NULL or "" when the request has none */
	const char *version;
	const char *resource;
	const char *subresource;
	const char *namespace_name;
	const char *name;
	const char *user;
	const char *const *groups;
	size_t		group_count;
	const char *user_agent;
	int			status;			/* 0: the client left before an answer */
	double		latency;		/* seconds, like the next two */
	double		database_wait;	/* part of the latency: waiting for a database connection */
	double		database;		/* part of the latency: calls of the database */
	size_t		bytes;			/* of the body, sent */
	bool		complete;		/* the whole answer was written to the connection */
	bool		lasting;		/* a watch: its latency has no meaning */
} LogAccess;

/* Writes one line per request, from --v=1 on; a slow request (--slow-request-threshold) always, as a warning. */
extern void log_access(const LogAccess *access);

#endif							/* LOG_H */
