/*-------------------------------------------------------------------------
 *
 * log.h
 *	  The log: lines of JSON, or of text, on standard error.
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
 * One line {"time":...,"level":...,"worker":N,"message":...}, or with --logging-format=text one as klog writes it.
 * --v=0 shows errors and notices, --v=1 warnings and information too, --v=2 everything.
 */
extern void log_line(LogLevel level, const char *format,...) __attribute__((format(printf, 2, 3)));

/* The number that lines carry from now on; -1, the default, is the parent process. */
extern void log_set_worker(int worker);

/*
 * Waits until everything has been written, for a second at most.  An exit() does it; before an abort() it has to be
 * called.
 */
extern void log_flush(void);

/* A request that has ended; strings may be NULL. */
typedef struct LogAccess
{
	const char *audit_id;
	const char *request_id;		/* the client's own; NULL: it gave none */
	const char *trace_id;		/* these two of the client's traceparent; NULL: none */
	const char *parent_id;
	const char *method;
	const char *uri;
	const char *verb;
	const char *group;			/* from here to name: NULL or "" where the request has none */
	const char *version;
	const char *resource;
	const char *subresource;
	const char *namespace_name;
	const char *name;
	const char *user;
	const char *const *groups;
	size_t		group_count;
	const char *user_agent;
	int			status;			/* 0: the client was gone before an answer */
	double		latency;		/* seconds, like the next two */
	double		database_wait;	/* of them, until there was a connection to the database */
	double		database;		/* and in calls of the database */
	size_t		bytes;			/* of the body, sent */
	bool		complete;		/* the whole answer was written to the connection */
	bool		lasting;		/* a watch: its latency says nothing */
} LogAccess;

/* One line for each request, from --v=1 on; for a slow one (--slow-request-threshold) always, as a warning. */
extern void log_access(const LogAccess *access);

#endif							/* LOG_H */
