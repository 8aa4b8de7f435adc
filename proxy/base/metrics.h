/*-------------------------------------------------------------------------
 *
 * metrics.h
 *	  Counters, gauges and histograms in memory shared by all processes of the proxy.
 *
 * Any worker answers for the whole proxy.  Each process adds
 * to its own slots; a scrape sums them up.  When a worker dies, its
 * counters stay counted and its gauges are cleared.
 *
 *-------------------------------------------------------------------------
 */
#ifndef METRICS_H
#define METRICS_H

#include "engine/base/arena.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/*
 * The parent calls this before it forks.  The numbers of the upkeep process, if there is one, and of the feed process
 * follow the last worker's.
 */
extern void metrics_init(int workers, bool upkeep);

/* A worker calls this first; clears the gauges of its slots. */
extern void metrics_attach(int worker);

/* A worker calls this about once a second: records the memory it holds. */
extern void metrics_tick(void);

/*
 * The parent calls this when a worker has ended: clears its gauges, and counts a restart if the worker is restarting.
 */
extern void metrics_worker_gone(int worker, bool restarting);

/*
 * verb as in the audit log (get list watch create update patch delete deletecollection, or "" for non-resource
 * paths).
 */
extern void metrics_request(const char *verb, const char *group, const char *version, const char *resource, int code,
							double seconds);

/* A watch or another lasting request has begun (1) or ended (-1). */
extern void metrics_lasting(const char *verb, const char *group, const char *version, const char *resource, long delta);

/* Gauges of this worker.  The text shows the sum of all workers. */
typedef enum MetricGauge
{
	GAUGE_READING,				/* requests in progress, without watches */
	GAUGE_MUTATING,
	GAUGE_CONNECTIONS,
	GAUGE_STRANGERS,			/* connections of unknown users */
	GAUGE_REQUEST_BYTES,
	GAUGE_ANSWER_BYTES,
	GAUGE_DB_CONNECTIONS,
	GAUGE_DB_BUSY,
	GAUGE_DB_QUEUED,
	GAUGE_FEEDS,
	GAUGE_DB_READS,				/* connections that are open or being opened, by use (five gauges) */
	GAUGE_DB_WRITES,
	GAUGE_DB_UPKEEP,
	GAUGE_DB_FEED,
	GAUGE_DB_STANDBY,
	GAUGE_COUNT
} MetricGauge;
extern void metrics_gauge_add(MetricGauge gauge, long delta);

typedef enum MetricCounter
{
	COUNTER_WATCH_EVENTS,		/* events handed to watchers */
	COUNTER_WATCH_BYTES,
	COUNTER_WATCH_OVERFLOWS,	/* streams closed because their queue was full */
	COUNTER_WATCH_RENDERED,		/* events read by watches on their own, once for each representation */
	COUNTER_FEED_RENDERED,		/* events read by the feed process, likewise */
	COUNTER_FEED_OVERRUNS,		/* how often a worker was too slow for the feed process */
	COUNTER_DB_ERRORS,
	COUNTER_DB_INTERRUPTS,		/* calls cancelled at the server */
	COUNTER_DB_REFUSALS,		/* connections refused because the server had no room */
	COUNTER_BATCHES,
	COUNTER_BATCHED_WRITES,
	COUNTER_LOG_DROPPED,
	COUNTER_LARGE_HEADS,		/* requests refused with 431 */
	COUNTER_REFUSED_BODIES,		/* requests refused with 429 because of their body */
	COUNTER_REFUSED_CLIENTS,	/* clients refused because there are too many */
	COUNTER_ANSWERS_CUT,		/* answers cut because the client took nothing while too much was held */
	COUNTER_ANSWERS_REFUSED,	/* answers refused because too much was held */
	COUNTER_CONNECTIONS_ENDED,	/* connections of unknown users, closed to make room */
	COUNTER_COSTLY_WRITES,
	COUNTER_COUNT
} MetricCounter;
extern void metrics_count(MetricCounter counter, unsigned long delta);

/* The sum of all processes. */
extern uint64_t metrics_total(MetricCounter counter);

/* Seconds between the commit of a change and the moment when this worker's feed read it. */
extern void metrics_feed_lag(double seconds);

/* apiserver_storage_objects: set by the worker that counted the objects. */
extern void metrics_stored_objects(const char *group, const char *resource, long objects);

/* For a webhook target: a batch was acknowledged; a batch failed; the state of the target as the database has it. */
extern void metrics_webhook_sent(const char *target, unsigned long events);
extern void metrics_webhook_failed(const char *target);
extern void metrics_webhook_state(const char *target, double lag_seconds, int failures, bool paused);

/* The numbers of calls of the database, and of tasks, are below this. */
#define METRICS_CALLS 64

/*
 * A call of the database has ended.  number: below METRICS_CALLS, fixed for each call.  waited, taken: seconds until
 * there was a connection, and on the connection.
 */
extern void metrics_database_call(size_t number, const char *call, double waited, double taken);

/*
 * For the upkeep process: work that waits; a task has succeeded, whose number is below METRICS_CALLS and fixed for its
 * name.
 */
extern void metrics_pending(const char *what, unsigned long waiting, double oldest_seconds);
extern void metrics_task_succeeded(size_t number, const char *task);

/* The expiry time of the certificate that this process uses: seconds of the epoch. */
extern void metrics_certificate_expires(int64_t at);

/* Writes the Prometheus text. */
extern void metrics_write(StrBuf *buf);

/* Parts of that text, for other files that write metrics: the head of a metric; a label with its value escaped. */
extern void metrics_write_head(StrBuf *buf, const char *name, const char *type, const char *help);
extern void metrics_write_label(StrBuf *buf, const char *name, const char *value);

#endif							/* METRICS_H */
