/*-------------------------------------------------------------------------
 *
 * metrics_private.h
 *	  The shared memory of metrics: metrics.c counts, metrics_text.c reads.
 *
 * Each process but the parent has its own block in one shared mapping
 * and is the only writer of that block.  So there is no lock that a dying
 * worker could leave behind.  A table entry becomes visible with one atomic
 * store after its key is complete; an entry whose writer died before that
 * store is reused.  Numbers are written and read with relaxed atomics: a
 * scrape may see the sum of a histogram a moment before its count.
 *
 *-------------------------------------------------------------------------
 */
#ifndef METRICS_PRIVATE_H
#define METRICS_PRIVATE_H

#include <stdatomic.h>

#include "base/metrics.h"

/* Sizes of the tables, powers of two.  The tables of requests have one more entry, for keys that do not fit. */
#define COUNTER_SERIES 1024
#define DURATION_SERIES 512
#define STORED_SERIES 256
#define WEBHOOK_SERIES 64
#define LASTING_SERIES 256
#define PENDING_SERIES 8

#define VERB_SIZE 24
#define GROUP_SIZE 96
#define VERSION_SIZE 24
#define RESOURCE_SIZE 96
#define TARGET_SIZE 64
#define CALL_SIZE 24
#define WHAT_SIZE 24

#define DURATION_BUCKETS 23
#define LAG_BUCKETS 12
#define CALL_BUCKETS 14
#define MAX_BUCKETS 24

_Static_assert(DURATION_BUCKETS < MAX_BUCKETS && LAG_BUCKETS < MAX_BUCKETS && CALL_BUCKETS < MAX_BUCKETS,
			   "the last bucket counts values above all bounds");

/* Upper bounds, in seconds. */
extern const double metric_duration_bounds[DURATION_BUCKETS];
extern const double metric_lag_bounds[LAG_BUCKETS];
extern const double metric_call_bounds[CALL_BUCKETS];

typedef struct Key
{
	char		verb[VERB_SIZE];
	char		group[GROUP_SIZE];
	char		version[VERSION_SIZE];
	char		resource[RESOURCE_SIZE];
	int			code;			/* HTTP status; in DurationEntry its first digit (2 for 2xx), in LastingEntry 0 */
} Key;

typedef struct Histogram
{
	_Atomic uint64_t buckets[MAX_BUCKETS];	/* not cumulative */
	_Atomic uint64_t sum;		/* nanoseconds */
} Histogram;

/* The first member of each entry of a table that is found by its key. */
typedef struct SeriesHead
{
	atomic_bool used;
	Key			key;
} SeriesHead;

typedef struct CounterEntry
{
	SeriesHead	head;
	_Atomic uint64_t count;
} CounterEntry;

typedef struct DurationEntry
{
	SeriesHead	head;
	Histogram	histogram;
} DurationEntry;

typedef struct StoredEntry
{
	atomic_bool used;
	char		group[GROUP_SIZE];
	char		resource[RESOURCE_SIZE];
	_Atomic int64_t objects;
	_Atomic uint64_t set_at;	/* nanoseconds of the monotonic clock; a scrape takes the newest value */
} StoredEntry;

typedef struct WebhookEntry
{
	atomic_bool used;
	char		target[TARGET_SIZE];
	_Atomic uint64_t events;
	_Atomic uint64_t failures;
	_Atomic uint64_t known_at;	/* when lag, failing and paused were set; 0: never */
	_Atomic uint64_t lag;		/* milliseconds */
	_Atomic uint64_t failing;	/* attempts since the last success */
	_Atomic uint64_t paused;
} WebhookEntry;

typedef struct LastingEntry
{
	SeriesHead	head;
	_Atomic int64_t open;
} LastingEntry;

typedef struct CallEntry
{
	atomic_bool used;
	char		call[CALL_SIZE];
	Histogram	histogram;
} CallEntry;

typedef struct PendingEntry
{
	atomic_bool used;
	char		what[WHAT_SIZE];
	_Atomic uint64_t known_at;	/* nanoseconds of the monotonic clock */
	_Atomic uint64_t waiting;
	_Atomic uint64_t oldest;	/* milliseconds */
} PendingEntry;

typedef struct TaskEntry
{
	atomic_bool used;
	char		task[WHAT_SIZE];
	_Atomic uint64_t succeeded_at;	/* milliseconds of the epoch; 0: never */
} TaskEntry;

typedef struct WorkerBlock
{
	_Atomic int64_t gauges[GAUGE_COUNT];
	_Atomic int64_t resident;	/* bytes */
	_Atomic uint64_t counters[COUNTER_COUNT];
	_Atomic uint64_t restarts;
	_Atomic uint64_t processor; /* processor time of the present process, nanoseconds */
	_Atomic uint64_t processor_before;	/* processor time of the ended processes that had this block, nanoseconds */
	_Atomic uint64_t certificate_expires_at;	/* seconds of the epoch; 0: unknown */
	Histogram	lag;
	Histogram	call_waits;
	CounterEntry requests[COUNTER_SERIES + 1];
	DurationEntry durations[DURATION_SERIES + 1];
	StoredEntry stored[STORED_SERIES];
	WebhookEntry webhooks[WEBHOOK_SERIES];
	LastingEntry lasting[LASTING_SERIES + 1];
	CallEntry	calls[METRICS_CALLS];
	PendingEntry pending[PENDING_SERIES];
	TaskEntry	tasks[METRICS_CALLS];
} WorkerBlock;

extern WorkerBlock *metric_blocks;
extern int	metric_block_count; /* workers first, then the upkeep process and the feed process */
extern int	metric_worker_count;
extern int	metric_upkeep;		/* number of the upkeep process's block; -1: there is none */
extern int	metric_feed;
extern double metric_start_time;

/* Nanoseconds of the monotonic clock. */
extern uint64_t metric_nanoseconds(void);

#endif							/* METRICS_PRIVATE_H */
