/*-------------------------------------------------------------------------
 *
 * metrics.h
 *	  Counters, gauges and histograms in memory shared by all processes of the proxy.
 *
 * Any worker can answer a scrape for the whole proxy: each process adds to its
 * own block, and the scrape sums the blocks up.  When a worker dies, its
 * counters are kept and its gauges are cleared.
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

/* A process calls this after the fork, before every other function here: selects its block and clears the gauges. */
extern void metrics_attach(int worker);

/* A worker calls this about once a second: records the memory it holds. */
extern void metrics_tick(void);

/* The parent calls this when a worker has ended: clears its gauges, and counts a restart when restarting is true. */
extern void metrics_worker_gone(int worker, bool restarting);

/*
 * Counts a request that has ended, and its duration unless it is a watch.  verb: as in the audit log (get list watch
 * create update patch delete deletecollection, or "" for non-resource paths).  code: the HTTP status.
 */
extern void metrics_request(const char *verb, const char *group, const char *version, const char *resource, int code,
							double seconds);

/* Counts a watch or another lasting request that has begun (delta 1) or ended (-1). */
extern void metrics_lasting(const char *verb, const char *group, const char *version, const char *resource, long delta);

/* Gauges of this process.  The text shows the sum of all processes. */
typedef enum MetricGauge
{
	GAUGE_READING,				/* requests in progress, without watches */
	GAUGE_MUTATING,
	GAUGE_CONNECTIONS,
	GAUGE_STRANGERS,			/* connections whose user is not known yet */
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
	COUNTER_FEED_OVERRUNS,		/* times that a worker was too slow for the feed process */
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
	COUNTER_CONNECTIONS_ENDED,	/* connections without a known user, closed to make room */
	COUNTER_COSTLY_WRITES,
	COUNTER_COUNT
} MetricCounter;
extern void metrics_count(MetricCounter counter, unsigned long delta);

/* Returns the sum of a counter over all processes. */
extern uint64_t metrics_total(MetricCounter counter);

/* Adds a delay to the histogram: the seconds between the commit of a change and its reading by the feed process. */
extern void metrics_feed_lag(double seconds);

/* Sets apiserver_storage_objects of a resource: the process that counted the objects calls this. */
extern void metrics_stored_objects(const char *group, const char *resource, long objects);

/*
 * For a webhook target: a batch with that many events was acknowledged; a batch failed; the state of the target that
 * the database has (lag: age of the oldest event that is not acknowledged; failures since the last success).
 */
extern void metrics_webhook_sent(const char *target, unsigned long events);
extern void metrics_webhook_failed(const char *target);
extern void metrics_webhook_state(const char *target, double lag_seconds, int failures, bool paused);

/* The numbers that identify calls of the database, and tasks, are below this. */
#define METRICS_CALLS 64

/*
 * Counts a call of the database that has ended.  number: identifies the call, below METRICS_CALLS.  waited: seconds
 * until the call had a connection.  taken: seconds from then to the answer.
 */
extern void metrics_database_call(size_t number, const char *call, double waited, double taken);

/*
 * For the upkeep process: sets how many items of a kind of work wait, and the age of the oldest; records that a task
 * has ended now.  number: identifies the task, below METRICS_CALLS.  The time of a task that has never succeeded is
 * shown as 0.
 */
extern void metrics_pending(const char *what, unsigned long waiting, double oldest_seconds);
extern void metrics_task_tried(size_t number, const char *task, bool succeeded);

/* Sets the expiry time of the certificate that this process uses, in seconds of the epoch. */
extern void metrics_certificate_expires(int64_t at);

/* Appends all metrics as Prometheus text. */
extern void metrics_write(StrBuf *buf);

/* For other files that write metrics: appends the HELP and TYPE lines of a metric; appends name="value", escaped. */
extern void metrics_write_head(StrBuf *buf, const char *name, const char *type, const char *help);
extern void metrics_write_label(StrBuf *buf, const char *name, const char *value);

#endif							/* METRICS_H */
