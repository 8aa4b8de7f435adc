/*-------------------------------------------------------------------------
 *
 * metrics.h
 *	  Counters, gauges and histograms in memory shared by all processes of the proxy.
 *
 * Whichever worker is asked answers for the whole proxy.  Every worker, and the
 * upkeep process as if it were one more, adds to its own slots; a scrape sums them up.  The slots of a worker that
 * died stay counted (counters) or are cleared (gauges).
 *
 *-------------------------------------------------------------------------
 */
#ifndef METRICS_H
#define METRICS_H

#include "engine/base/arena.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/*
 * Called by the parent before it forks.  upkeep: there is an upkeep process, whose number is the one behind the last
 * worker's.
 */
extern void metrics_init(int workers, bool upkeep);

/* Called by a worker first of all; clears the gauges of its slots. */
extern void metrics_attach(int worker);

/* Called by a worker about once a second: notes the memory it holds. */
extern void metrics_tick(void);

/*
 * Called by the parent when a worker is gone: clears its gauges and, unless it is meant to stay away, counts a
 * restart.
 */
extern void metrics_worker_gone(int worker, bool restarting);

/*
 * verb as in the audit log (get list watch create update patch delete deletecollection, or "" for non-resource
 * paths).
 */
extern void metrics_request(const char *verb, const char *group, const char *version, const char *resource, int code,
							double seconds);

/* A watch, or whatever else lasts, has begun (1) or ended (-1). */
extern void metrics_lasting(const char *verb, const char *group, const char *version, const char *resource, long delta);

/* Gauges of this worker; the sum of all workers is shown. */
typedef enum MetricGauge
{
	GAUGE_READING,				/* requests under way, but for watches */
	GAUGE_MUTATING,
	GAUGE_CONNECTIONS,
	GAUGE_STRANGERS,			/* connections of which it is not known whose they are */
	GAUGE_REQUEST_BYTES,
	GAUGE_ANSWER_BYTES,
	GAUGE_DB_CONNECTIONS,
	GAUGE_DB_BUSY,
	GAUGE_DB_QUEUED,
	GAUGE_FEEDS,
	GAUGE_DB_READS,				/* connections that are open or being opened, by use */
	GAUGE_DB_WRITES,
	GAUGE_DB_UPKEEP,
	GAUGE_DB_STANDBY,
	GAUGE_COUNT
} MetricGauge;
extern void metrics_gauge_add(MetricGauge gauge, long delta);

typedef enum MetricCounter
{
	COUNTER_WATCH_EVENTS,		/* events handed to watchers */
	COUNTER_WATCH_BYTES,
	COUNTER_WATCH_OVERFLOWS,	/* streams closed because their queue was full */
	COUNTER_DB_ERRORS,
	COUNTER_DB_INTERRUPTS,		/* calls that were stopped at the server */
	COUNTER_DB_REFUSALS,		/* connections that the server had no room for */
	COUNTER_BATCHES,
	COUNTER_BATCHED_WRITES,
	COUNTER_LOG_DROPPED,
	COUNTER_LARGE_HEADS,		/* requests refused with 431 */
	COUNTER_REFUSED_BODIES,		/* and with 429 for their body */
	COUNTER_REFUSED_CLIENTS,	/* or because too many clients are there */
	COUNTER_ANSWERS_CUT,		/* because their clients took nothing while too much was held */
	COUNTER_ANSWERS_REFUSED,	/* because too much was held */
	COUNTER_CONNECTIONS_ENDED,	/* connections of strangers that had to make room */
	COUNTER_COSTLY_WRITES,
	COUNTER_COUNT
} MetricCounter;
extern void metrics_count(MetricCounter counter, unsigned long delta);

/* The sum of all processes. */
extern uint64_t metrics_total(MetricCounter counter);

/* Seconds between the commit of a change and its reading by this worker's feed. */
extern void metrics_feed_lag(double seconds);

/* apiserver_storage_objects: set by the worker that counted. */
extern void metrics_stored_objects(const char *group, const char *resource, long objects);

/* Targets of new failures: a batch that was acknowledged; one that was not; how a target is, as the database says. */
extern void metrics_webhook_sent(const char *target, unsigned long events);
extern void metrics_webhook_failed(const char *target);
extern void metrics_webhook_state(const char *target, double lag_seconds, int failures, bool paused);

/*
 * A call of the database has ended.  number: below 32, always the same for a call; seconds waited for a connection,
 * and on it.
 */
extern void metrics_database_call(size_t number, const char *call, double waited, double taken);

/* Of the upkeep process: what waits to be done; a step of maintenance was. */
extern void metrics_pending(const char *what, unsigned long waiting, double oldest_seconds);
extern void metrics_maintained(void);

/* When the certificate of this process expires: seconds of the epoch. */
extern void metrics_certificate_expires(int64_t at);

/* The Prometheus text. */
extern void metrics_write(StrBuf *buf);

/* Parts of it, for others that write some: the head of a metric; a label with its value escaped. */
extern void metrics_write_head(StrBuf *buf, const char *name, const char *type, const char *help);
extern void metrics_write_label(StrBuf *buf, const char *name, const char *value);

#endif							/* METRICS_H */
