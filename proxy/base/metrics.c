/*-------------------------------------------------------------------------
 *
 * metrics.c
 *	  Counters, gauges and histograms in memory shared by all processes of the proxy.
 *
 * metrics_private.h describes how they are shared; metrics_text.c writes them as
 * text.
 *
 * The number of series is bounded: a series that does not fit into its table
 * counts under resource="other".
 *
 *-------------------------------------------------------------------------
 */
#include "base/metrics_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "engine/base/hash.h"

/* kube-apiserver's bounds, so that its dashboards fit. */
const double metric_duration_bounds[DURATION_BUCKETS] =
{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15,
20, 30, 45, 60};
const double metric_lag_bounds[LAG_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
const double metric_call_bounds[CALL_BUCKETS] =
{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

WorkerBlock *metric_blocks;
int			metric_block_count;
int			metric_worker_count;
int			metric_upkeep;
int			metric_feed;
double		metric_start_time;
static WorkerBlock *mine;		/* of this worker */

uint64_t
metric_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

void
metrics_init(int workers, bool upkeep)
{
	int			count = workers + upkeep + 1;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	metric_start_time = (double) now.tv_sec + (double) now.tv_nsec / 1e9;
	metric_blocks = mmap(NULL, sizeof(WorkerBlock) * (size_t) count, PROT_READ | PROT_WRITE,
						 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (metric_blocks == MAP_FAILED)
	{
		perror("kube-reports-proxy: shared memory for metrics");
		exit(1);
	}
	metric_block_count = count;
	metric_worker_count = workers;
	metric_upkeep = upkeep ? workers : -1;
	metric_feed = count - 1;
	mine = &metric_blocks[0];
}

static void
clear_gauges(WorkerBlock *block)
{
	for (int i = 0; i < GAUGE_COUNT; i++)
		atomic_store_explicit(&block->gauges[i], 0, memory_order_relaxed);
	for (size_t i = 0; i <= LASTING_SERIES; i++)
		atomic_store_explicit(&block->lasting[i].open, 0, memory_order_relaxed);
	atomic_store_explicit(&block->resident, 0, memory_order_relaxed);
	atomic_store_explicit(&block->certificate_expires_at, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&block->processor_before,
							  atomic_exchange_explicit(&block->processor, 0, memory_order_relaxed),
							  memory_order_relaxed);
}

void
metrics_attach(int worker)
{
	mine = &metric_blocks[worker];
	clear_gauges(mine);
	metrics_tick();
}

void
metrics_worker_gone(int worker, bool restarting)
{
	clear_gauges(&metric_blocks[worker]);
	if (restarting)
		atomic_fetch_add_explicit(&metric_blocks[worker].restarts, 1, memory_order_relaxed);
}

void
metrics_tick(void)
{
	FILE	   *statm = fopen("/proc/self/statm", "re");
	struct timespec used;
	long		size;
	long		resident;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	atomic_store_explicit(&mine->processor, (uint64_t) used.tv_sec * 1000000000 + (uint64_t) used.tv_nsec,
						  memory_order_relaxed);
	if (statm == NULL)
		return;
	/* NOLINTNEXTLINE(cert-err34-c): the kernel wrote these numbers */
	if (fscanf(statm, "%ld %ld", &size, &resident) == 2)
		atomic_store_explicit(&mine->resident, resident * sysconf(_SC_PAGESIZE), memory_order_relaxed);
	fclose(statm);
}

/* Copies a label value; false when it does not fit. */
static bool
set_text(char *target, size_t size, const char *value)
{
	size_t		len = value != NULL ? strlen(value) : 0;

	memset(target, 0, size);
	if (len >= size)
		return false;
	memcpy(target, value != NULL ? value : "", len);
	return true;
}

/* The verbs of the audit log as kube-apiserver's metrics spell them. */
static const char *
metric_verb(const char *verb, char *buffer, size_t size)
{
	static const char *const names[][2] = {{"create", "POST"}, {"update", "PUT"}};
	size_t		i = 0;

	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
		if (strcmp(verb, names[n][0]) == 0)
			return names[n][1];
	for (; verb[i] != '\0' && i + 1 < size; i++)
		buffer[i] = (verb[i] >= 'a' && verb[i] <= 'z') ? (char) (verb[i] - 'a' + 'A') : verb[i];
	buffer[i] = '\0';
	return buffer;
}

/* Fills every byte of a key, so that keys can be hashed and compared as bytes; false when a part does not fit. */
static bool
make_key(Key *key, const char *verb, const char *group, const char *version, const char *resource, int code)
{
	char		buffer[VERB_SIZE + 1];

	memset(key, 0, sizeof(*key));
	key->code = code;
	return set_text(key->verb, VERB_SIZE, metric_verb(verb != NULL ? verb : "", buffer, sizeof(buffer))) &&
		set_text(key->group, GROUP_SIZE, group) &&
		set_text(key->version, VERSION_SIZE, version) &&
		set_text(key->resource, RESOURCE_SIZE, resource);
}

/*
 * Returns the entry of a key in a table of this worker, and adds the entry if the key is new.  The table has count
 * entries (a power of two) of size bytes, each with a SeriesHead first, and one more entry for all keys that do not
 * fit.  fits: whether the key was complete.
 */
static void *
series_entry(void *table, size_t size, size_t count, const Key *key, bool fits)
{
	uint32_t	hash = hash_bytes(HASH_SEED, key, sizeof(*key));

	for (size_t i = 0; fits && i < count; i++)
	{
		SeriesHead *head = (SeriesHead *) ((char *) table + (hash + i) % count * size);

		if (!atomic_load_explicit(&head->used, memory_order_relaxed))
		{
			head->key = *key;
			atomic_store_explicit(&head->used, true, memory_order_release);
			return head;
		}
		if (memcmp(&head->key, key, sizeof(*key)) == 0)
			return head;
	}
	return (char *) table + count * size;
}

static void
observe(Histogram *histogram, const double *bounds, size_t bound_count, double seconds)
{
	size_t		bucket = 0;

	if (!(seconds > 0))
		seconds = 0;
	while (bucket < bound_count && seconds > bounds[bucket])
		bucket++;
	atomic_fetch_add_explicit(&histogram->buckets[bucket], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&histogram->sum, (uint64_t) (seconds * 1e9), memory_order_relaxed);
}

void
metrics_request(const char *verb, const char *group, const char *version, const char *resource,
				int code, double seconds)
{
	Key			key;
	bool		fits = make_key(&key, verb, group, version, resource, code);
	CounterEntry *counted = series_entry(mine->requests, sizeof(*counted), COUNTER_SERIES, &key, fits);
	DurationEntry *timed;

	atomic_fetch_add_explicit(&counted->count, 1, memory_order_relaxed);
	/* The duration of a watch says nothing about the speed of the server. */
	if (strcmp(key.verb, "WATCH") == 0)
		return;
	key.code /= 100;
	timed = series_entry(mine->durations, sizeof(*timed), DURATION_SERIES, &key, fits);
	observe(&timed->histogram, metric_duration_bounds, DURATION_BUCKETS, seconds);
}

void
metrics_lasting(const char *verb, const char *group, const char *version, const char *resource, long delta)
{
	Key			key;
	bool		fits = make_key(&key, verb, group, version, resource, 0);
	LastingEntry *entry = series_entry(mine->lasting, sizeof(*entry), LASTING_SERIES, &key, fits);

	atomic_fetch_add_explicit(&entry->open, delta, memory_order_relaxed);
}

void
metrics_gauge_add(MetricGauge gauge, long delta)
{
	atomic_fetch_add_explicit(&mine->gauges[gauge], delta, memory_order_relaxed);
}

uint64_t
metrics_total(MetricCounter counter)
{
	uint64_t	sum = 0;

	for (int w = 0; w < metric_block_count; w++)
		sum += atomic_load_explicit(&metric_blocks[w].counters[counter], memory_order_relaxed);
	return sum;
}

void
metrics_count(MetricCounter counter, unsigned long delta)
{
	/* The log calls this before the metrics exist. */
	if (mine == NULL)
		return;
	atomic_fetch_add_explicit(&mine->counters[counter], delta, memory_order_relaxed);
}

void
metrics_feed_lag(double seconds)
{
	observe(&mine->lag, metric_lag_bounds, LAG_BUCKETS, seconds);
}

void
metrics_stored_objects(const char *group, const char *resource, long objects)
{
	StoredEntry wanted = {0};

	if (!set_text(wanted.group, GROUP_SIZE, group) || !set_text(wanted.resource, RESOURCE_SIZE, resource))
		return;
	for (size_t i = 0; i < STORED_SERIES; i++)
	{
		StoredEntry *entry = &mine->stored[i];
		bool		used = atomic_load_explicit(&entry->used, memory_order_relaxed);

		if (used && (strcmp(entry->group, wanted.group) != 0 || strcmp(entry->resource, wanted.resource) != 0))
			continue;
		atomic_store_explicit(&entry->objects, objects, memory_order_relaxed);
		atomic_store_explicit(&entry->set_at, metric_nanoseconds(), memory_order_relaxed);
		if (!used)
		{
			memcpy(entry->group, wanted.group, GROUP_SIZE);
			memcpy(entry->resource, wanted.resource, RESOURCE_SIZE);
			atomic_store_explicit(&entry->used, true, memory_order_release);
		}
		return;
	}
}

/* Returns the entry of a target in this worker's table; NULL when the table is full. */
static WebhookEntry *
webhook_entry(const char *target)
{
	char		wanted[TARGET_SIZE];

	if (!set_text(wanted, sizeof(wanted), target))
		return NULL;
	for (size_t i = 0; i < WEBHOOK_SERIES; i++)
	{
		WebhookEntry *entry = &mine->webhooks[i];

		if (!atomic_load_explicit(&entry->used, memory_order_relaxed))
		{
			memcpy(entry->target, wanted, sizeof(wanted));
			atomic_store_explicit(&entry->used, true, memory_order_release);
			return entry;
		}
		if (strcmp(entry->target, wanted) == 0)
			return entry;
	}
	return NULL;
}

void
metrics_webhook_sent(const char *target, unsigned long events)
{
	WebhookEntry *entry = webhook_entry(target);

	if (entry != NULL)
		atomic_fetch_add_explicit(&entry->events, events, memory_order_relaxed);
}

void
metrics_webhook_failed(const char *target)
{
	WebhookEntry *entry = webhook_entry(target);

	if (entry != NULL)
		atomic_fetch_add_explicit(&entry->failures, 1, memory_order_relaxed);
}

void
metrics_webhook_state(const char *target, double lag_seconds, int failures, bool paused)
{
	WebhookEntry *entry = webhook_entry(target);

	if (entry == NULL)
		return;
	atomic_store_explicit(&entry->lag, (uint64_t) (lag_seconds * 1000), memory_order_relaxed);
	atomic_store_explicit(&entry->failing, (uint64_t) failures, memory_order_relaxed);
	atomic_store_explicit(&entry->paused, paused, memory_order_relaxed);
	atomic_store_explicit(&entry->known_at, metric_nanoseconds(), memory_order_relaxed);
}

void
metrics_database_call(size_t number, const char *call, double waited, double taken)
{
	CallEntry  *entry = &mine->calls[number < METRICS_CALLS ? number : 0];

	if (number >= METRICS_CALLS)
		return;
	if (!atomic_load_explicit(&entry->used, memory_order_relaxed))
	{
		set_text(entry->call, CALL_SIZE, call);
		atomic_store_explicit(&entry->used, true, memory_order_release);
	}
	observe(&entry->histogram, metric_call_bounds, CALL_BUCKETS, taken);
	observe(&mine->call_waits, metric_call_bounds, CALL_BUCKETS, waited);
}

void
metrics_pending(const char *what, unsigned long waiting, double oldest_seconds)
{
	char		wanted[WHAT_SIZE];

	if (!set_text(wanted, sizeof(wanted), what))
		return;
	for (size_t i = 0; i < PENDING_SERIES; i++)
	{
		PendingEntry *entry = &mine->pending[i];
		bool		used = atomic_load_explicit(&entry->used, memory_order_relaxed);

		if (used && strcmp(entry->what, wanted) != 0)
			continue;
		atomic_store_explicit(&entry->waiting, waiting, memory_order_relaxed);
		atomic_store_explicit(&entry->oldest, (uint64_t) (oldest_seconds * 1000), memory_order_relaxed);
		atomic_store_explicit(&entry->known_at, metric_nanoseconds(), memory_order_relaxed);
		if (!used)
		{
			memcpy(entry->what, wanted, sizeof(wanted));
			atomic_store_explicit(&entry->used, true, memory_order_release);
		}
		return;
	}
}

void
metrics_task_tried(size_t number, const char *task, bool succeeded)
{
	TaskEntry  *entry = &mine->tasks[number < METRICS_CALLS ? number : 0];
	struct timespec now;

	if (number >= METRICS_CALLS)
		return;
	if (succeeded)
	{
		clock_gettime(CLOCK_REALTIME, &now);
		atomic_store_explicit(&entry->succeeded_at, (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000,
							  memory_order_relaxed);
	}
	if (!atomic_load_explicit(&entry->used, memory_order_relaxed))
	{
		set_text(entry->task, WHAT_SIZE, task);
		atomic_store_explicit(&entry->used, true, memory_order_release);
	}
}

void
metrics_certificate_expires(int64_t at)
{
	if (mine != NULL)
		atomic_store_explicit(&mine->certificate_expires_at, at > 0 ? (uint64_t) at : 1, memory_order_relaxed);
}
