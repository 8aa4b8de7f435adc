/*-------------------------------------------------------------------------
 *
 * metrics.c
 *	  Counters, gauges and histograms in memory shared by all processes of the proxy.
 *
 * Every worker, and the upkeep process, has a block of its own in one shared mapping and is its only
 * writer, so there is no lock that a dying worker could leave behind.  A table
 * entry becomes visible with one atomic store after its key is complete; an
 * entry whose writer died before that is simply taken again.  Numbers are
 * written and read with relaxed atomics: a scrape may see a histogram's sum a
 * moment before its count.
 *
 * The number of series is bounded: what no longer fits a table is counted under
 * resource="other".
 *
 *-------------------------------------------------------------------------
 */
#include "base/metrics.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"

/* Powers of two; one more entry of each table takes what does not fit. */
#define COUNTER_SERIES 1024
#define DURATION_SERIES 256
#define STORED_SERIES 256
#define WEBHOOK_SERIES 64

#define VERB_SIZE 24
#define GROUP_SIZE 96
#define VERSION_SIZE 24
#define RESOURCE_SIZE 96
#define TARGET_SIZE 64

/* What is known of a target longer than that is not shown: it may be gone.  Nanoseconds. */
#define WEBHOOK_AGE ((uint64_t) 60 * 1000000000)

/* Upper bounds as kube-apiserver has them, so that its dashboards fit. */
static const double duration_bounds[] = {0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20,
30, 45, 60};
static const double lag_bounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

#define DURATION_BUCKETS (sizeof(duration_bounds) / sizeof(duration_bounds[0]))
#define LAG_BUCKETS (sizeof(lag_bounds) / sizeof(lag_bounds[0]))
#define MAX_BUCKETS 24

_Static_assert(DURATION_BUCKETS < MAX_BUCKETS && LAG_BUCKETS < MAX_BUCKETS, "one bucket more is for what is above all bounds");

typedef struct Key
{
	char		verb[VERB_SIZE];
	char		group[GROUP_SIZE];
	char		version[VERSION_SIZE];
	char		resource[RESOURCE_SIZE];
	int			code;			/* 0 in durations */
} Key;

typedef struct Histogram
{
	_Atomic uint64_t buckets[MAX_BUCKETS];	/* not cumulative */
	_Atomic uint64_t sum;		/* nanoseconds */
} Histogram;

typedef struct CounterEntry
{
	atomic_bool used;
	Key			key;
	_Atomic uint64_t count;
} CounterEntry;

typedef struct DurationEntry
{
	atomic_bool used;
	Key			key;
	Histogram	histogram;
} DurationEntry;

typedef struct StoredEntry
{
	atomic_bool used;
	char		group[GROUP_SIZE];
	char		resource[RESOURCE_SIZE];
	_Atomic int64_t objects;
	_Atomic uint64_t set_at;	/* nanoseconds of the monotonic clock: the newest worker is right */
} StoredEntry;

typedef struct WebhookEntry
{
	atomic_bool used;
	char		target[TARGET_SIZE];
	_Atomic uint64_t events;
	_Atomic uint64_t failures;
	_Atomic uint64_t known_at;	/* when these three were; 0: never */
	_Atomic uint64_t lag;		/* milliseconds */
	_Atomic uint64_t failing;	/* attempts since the last success */
	_Atomic uint64_t paused;
} WebhookEntry;

typedef struct WorkerBlock
{
	_Atomic int64_t gauges[GAUGE_COUNT];
	_Atomic int64_t resident;	/* bytes */
	_Atomic uint64_t counters[COUNTER_COUNT];
	_Atomic uint64_t restarts;
	Histogram	lag;
	CounterEntry requests[COUNTER_SERIES + 1];
	DurationEntry durations[DURATION_SERIES + 1];
	StoredEntry stored[STORED_SERIES];
	WebhookEntry webhooks[WEBHOOK_SERIES];
} WorkerBlock;

static WorkerBlock *blocks;
static int	block_count;			/* of the workers, and of the upkeep process behind them */
static int	worker_count;
static WorkerBlock *mine;		/* of this worker */
static double start_time;

static uint64_t
monotonic_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

void
metrics_init(int workers, bool upkeep)
{
	int			count = workers + upkeep;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	start_time = (double) now.tv_sec + (double) now.tv_nsec / 1e9;
	blocks = mmap(NULL, sizeof(WorkerBlock) * (size_t) count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (blocks == MAP_FAILED)
	{
		perror("kube-reports-proxy: shared memory for metrics");
		exit(1);
	}
	block_count = count;
	worker_count = workers;
	mine = &blocks[0];
}

static void
clear_gauges(WorkerBlock *block)
{
	for (int i = 0; i < GAUGE_COUNT; i++)
		atomic_store_explicit(&block->gauges[i], 0, memory_order_relaxed);
	atomic_store_explicit(&block->resident, 0, memory_order_relaxed);
}

void
metrics_attach(int worker)
{
	mine = &blocks[worker];
	clear_gauges(mine);
	metrics_tick();
}

void
metrics_worker_gone(int worker, bool restarting)
{
	clear_gauges(&blocks[worker]);
	if (restarting)
		atomic_fetch_add_explicit(&blocks[worker].restarts, 1, memory_order_relaxed);
}

void
metrics_tick(void)
{
	FILE	   *statm = fopen("/proc/self/statm", "re");
	long		size;
	long		resident;

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

static uint32_t
hash_bytes(const void *bytes, size_t len)
{
	const unsigned char *byte = bytes;
	uint32_t	hash = 2166136261u;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ byte[i]) * 16777619u;
	return hash;
}

/* The entry of a key in this worker's table, made when it is new; the overflow entry when the table is full. */
static CounterEntry *
counter_entry(const Key *key, bool fits)
{
	uint32_t	hash = hash_bytes(key, sizeof(*key));

	for (size_t i = 0; fits && i < COUNTER_SERIES; i++)
	{
		CounterEntry *entry = &mine->requests[(hash + i) % COUNTER_SERIES];

		if (!atomic_load_explicit(&entry->used, memory_order_relaxed))
		{
			entry->key = *key;
			atomic_store_explicit(&entry->used, true, memory_order_release);
			return entry;
		}
		if (memcmp(&entry->key, key, sizeof(*key)) == 0)
			return entry;
	}
	return &mine->requests[COUNTER_SERIES];
}

static DurationEntry *
duration_entry(const Key *key, bool fits)
{
	uint32_t	hash = hash_bytes(key, sizeof(*key));

	for (size_t i = 0; fits && i < DURATION_SERIES; i++)
	{
		DurationEntry *entry = &mine->durations[(hash + i) % DURATION_SERIES];

		if (!atomic_load_explicit(&entry->used, memory_order_relaxed))
		{
			entry->key = *key;
			atomic_store_explicit(&entry->used, true, memory_order_release);
			return entry;
		}
		if (memcmp(&entry->key, key, sizeof(*key)) == 0)
			return entry;
	}
	return &mine->durations[DURATION_SERIES];
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
metrics_request(const char *verb, const char *group, const char *version, const char *resource, int code, double seconds)
{
	Key			key;
	bool		fits = make_key(&key, verb, group, version, resource, code);

	atomic_fetch_add_explicit(&counter_entry(&key, fits)->count, 1, memory_order_relaxed);
	key.code = 0;
	/* How long a watch was open says nothing about how fast the server is. */
	if (strcmp(key.verb, "WATCH") != 0)
		observe(&duration_entry(&key, fits)->histogram, duration_bounds, DURATION_BUCKETS, seconds);
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

	for (int w = 0; w < block_count; w++)
		sum += atomic_load_explicit(&blocks[w].counters[counter], memory_order_relaxed);
	return sum;
}

void
metrics_count(MetricCounter counter, unsigned long delta)
{
	/* The log counts, and begins before there are metrics. */
	if (mine == NULL)
		return;
	atomic_fetch_add_explicit(&mine->counters[counter], delta, memory_order_relaxed);
}

void
metrics_feed_lag(double seconds)
{
	observe(&mine->lag, lag_bounds, LAG_BUCKETS, seconds);
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
		atomic_store_explicit(&entry->set_at, monotonic_nanoseconds(), memory_order_relaxed);
		if (!used)
		{
			memcpy(entry->group, wanted.group, GROUP_SIZE);
			memcpy(entry->resource, wanted.resource, RESOURCE_SIZE);
			atomic_store_explicit(&entry->used, true, memory_order_release);
		}
		return;
	}
}

/* The entry of a target in this worker's table; NULL when it is full. */
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
	atomic_store_explicit(&entry->known_at, monotonic_nanoseconds(), memory_order_relaxed);
}

/* --- The text --- */

/* One series of the answer: the sum over all workers. */
typedef struct Total
{
	const Key  *key;			/* NULL: the overflow entry */
	uint64_t	count;
	uint64_t	buckets[MAX_BUCKETS];
	uint64_t	sum;
} Total;

typedef struct TotalList
{
	Total	   *entries;
	size_t		count;
} TotalList;

static uint64_t
load(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static int
compare_keys(const void *left, const void *right)
{
	const Total *a = left;
	const Total *b = right;
	int			order;

	if (a->key == NULL || b->key == NULL)
		return (a->key == NULL) - (b->key == NULL);
	if ((order = strcmp(a->key->group, b->key->group)) != 0 ||
		(order = strcmp(a->key->version, b->key->version)) != 0 ||
		(order = strcmp(a->key->resource, b->key->resource)) != 0 ||
		(order = strcmp(a->key->verb, b->key->verb)) != 0)
		return order;
	return (a->key->code > b->key->code) - (a->key->code < b->key->code);
}

/* Sorts and adds up entries of the same key. */
static void
merge_totals(TotalList *list)
{
	size_t		kept = 0;

	qsort(list->entries, list->count, sizeof(Total), compare_keys);
	for (size_t i = 0; i < list->count; i++)
	{
		Total	   *total = &list->entries[i];

		if (kept == 0 || compare_keys(&list->entries[kept - 1], total) != 0)
		{
			list->entries[kept++] = *total;
			continue;
		}
		list->entries[kept - 1].count += total->count;
		list->entries[kept - 1].sum += total->sum;
		for (size_t b = 0; b < MAX_BUCKETS; b++)
			list->entries[kept - 1].buckets[b] += total->buckets[b];
	}
	list->count = kept;
}

static void
add_histogram(Total *total, const Histogram *histogram)
{
	for (size_t b = 0; b < MAX_BUCKETS; b++)
	{
		uint64_t	count = load(&histogram->buckets[b]);

		total->buckets[b] += count;
		total->count += count;
	}
	total->sum += load(&histogram->sum);
}

void
metrics_write_head(StrBuf *buf, const char *name, const char *type, const char *help)
{
	strbuf_printf(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void
metrics_write_label(StrBuf *buf, const char *name, const char *value)
{
	strbuf_printf(buf, "%s=\"", name);
	for (; *value != '\0'; value++)
	{
		if (*value == '\\' || *value == '"')
			strbuf_putc(buf, '\\');
		if (*value == '\n')
			strbuf_puts(buf, "\\n");
		else
			strbuf_putc(buf, *value);
	}
	strbuf_putc(buf, '"');
}

/* The labels of a key, without braces. */
static void
write_key(StrBuf *buf, const Key *key)
{
	static const Key other = {.resource = "other"};

	if (key == NULL)
		key = &other;
	metrics_write_label(buf, "verb", key->verb);
	strbuf_putc(buf, ',');
	metrics_write_label(buf, "group", key->group);
	strbuf_putc(buf, ',');
	metrics_write_label(buf, "version", key->version);
	strbuf_putc(buf, ',');
	metrics_write_label(buf, "resource", key->resource);
}

static void
write_histogram(StrBuf *buf, const char *name, const Total *total, bool keyed, const double *bounds, size_t bound_count)
{
	uint64_t	cumulated = 0;

	for (size_t b = 0; b <= bound_count; b++)
	{
		cumulated += total->buckets[b];
		strbuf_printf(buf, "%s_bucket{", name);
		if (keyed)
		{
			write_key(buf, total->key);
			strbuf_putc(buf, ',');
		}
		if (b < bound_count)
			strbuf_printf(buf, "le=\"%g\"} %llu\n", bounds[b], (unsigned long long) cumulated);
		else
			strbuf_printf(buf, "le=\"+Inf\"} %llu\n", (unsigned long long) cumulated);
	}
	for (int part = 0; part < 2; part++)
	{
		strbuf_printf(buf, "%s_%s", name, part == 0 ? "sum" : "count");
		if (keyed)
		{
			strbuf_putc(buf, '{');
			write_key(buf, total->key);
			strbuf_putc(buf, '}');
		}
		if (part == 0)
			strbuf_printf(buf, " %.9g\n", (double) total->sum / 1e9);
		else
			strbuf_printf(buf, " %llu\n", (unsigned long long) cumulated);
	}
}

static void
write_requests(StrBuf *buf)
{
	TotalList	list = {arena_alloc0(buf->arena, sizeof(Total) * (COUNTER_SERIES + 1) * (size_t) block_count), 0};

	for (int w = 0; w < block_count; w++)
		for (size_t i = 0; i <= COUNTER_SERIES; i++)
		{
			const CounterEntry *entry = &blocks[w].requests[i];
			bool		overflow = i == COUNTER_SERIES;

			if (overflow ? load(&entry->count) == 0 : !atomic_load_explicit(&entry->used, memory_order_acquire))
				continue;
			list.entries[list.count].key = overflow ? NULL : &entry->key;
			list.entries[list.count++].count = load(&entry->count);
		}
	merge_totals(&list);
	metrics_write_head(buf, "apiserver_request_total", "counter", "Requests answered, by verb, resource and code.");
	for (size_t i = 0; i < list.count; i++)
	{
		const Total *total = &list.entries[i];

		strbuf_puts(buf, "apiserver_request_total{");
		write_key(buf, total->key);
		if (total->key == NULL)
			strbuf_puts(buf, ",code=\"\"");
		else
			strbuf_printf(buf, ",code=\"%d\"", total->key->code);
		strbuf_printf(buf, "} %llu\n", (unsigned long long) total->count);
	}
}

static void
write_durations(StrBuf *buf)
{
	TotalList	list = {arena_alloc0(buf->arena, sizeof(Total) * (DURATION_SERIES + 1) * (size_t) block_count), 0};

	for (int w = 0; w < block_count; w++)
		for (size_t i = 0; i <= DURATION_SERIES; i++)
		{
			const DurationEntry *entry = &blocks[w].durations[i];
			Total	   *total = &list.entries[list.count];
			bool		overflow = i == DURATION_SERIES;

			if (!overflow && !atomic_load_explicit(&entry->used, memory_order_acquire))
				continue;
			add_histogram(total, &entry->histogram);
			total->key = overflow ? NULL : &entry->key;
			if (!overflow || total->count > 0)
				list.count++;
		}
	merge_totals(&list);
	metrics_write_head(buf, "apiserver_request_duration_seconds", "histogram", "Time from request to the end of the answer; watches are left out.");
	for (size_t i = 0; i < list.count; i++)
		write_histogram(buf, "apiserver_request_duration_seconds", &list.entries[i], true, duration_bounds, DURATION_BUCKETS);
}

static void
write_stored(StrBuf *buf)
{
	metrics_write_head(buf, "apiserver_storage_objects", "gauge", "Objects stored, as last counted.");
	for (int w = 0; w < block_count; w++)
		for (size_t i = 0; i < STORED_SERIES; i++)
		{
			const StoredEntry *entry = &blocks[w].stored[i];
			bool		newest = true;
			int64_t		objects;

			if (!atomic_load_explicit(&entry->used, memory_order_acquire))
				break;
			for (int other = 0; other < block_count && newest; other++)
				for (size_t j = 0; other != w && j < STORED_SERIES; j++)
				{
					const StoredEntry *rival = &blocks[other].stored[j];

					if (!atomic_load_explicit(&rival->used, memory_order_acquire))
						break;
					if (strcmp(rival->group, entry->group) == 0 && strcmp(rival->resource, entry->resource) == 0)
					{
						uint64_t	theirs = load(&rival->set_at);
						uint64_t	ours = load(&entry->set_at);

						newest = theirs < ours || (theirs == ours && other > w);
						break;
					}
				}
			objects = atomic_load_explicit(&entry->objects, memory_order_relaxed);
			if (!newest || objects < 0)
				continue;
			strbuf_puts(buf, "apiserver_storage_objects{resource=\"");
			strbuf_puts(buf, entry->resource);
			if (entry->group[0] != '\0')
				strbuf_printf(buf, ".%s", entry->group);
			strbuf_printf(buf, "\"} %lld\n", (long long) objects);
		}
}

static long long
gauge_sum(MetricGauge gauge)
{
	long long	sum = 0;

	for (int w = 0; w < block_count; w++)
		sum += atomic_load_explicit(&blocks[w].gauges[gauge], memory_order_relaxed);
	return sum;
}

static void
write_gauges(StrBuf *buf)
{
	static const struct
	{
		MetricGauge gauge;
		const char *name;
		const char *help;
	}			gauges[] =
	{
		{GAUGE_WATCHERS, "kube_reports_watchers", "Watches that are open."},
		{GAUGE_CONNECTIONS, "kube_reports_connections", "Client connections that are open."},
		{GAUGE_STRANGERS, "kube_reports_unknown_connections", "Client connections of which it is not known whose they are."},
		{GAUGE_REQUEST_BYTES, "kube_reports_buffered_body_bytes", "Bytes of requests that are held, or kept free for what was announced."},
		{GAUGE_ANSWER_BYTES, "kube_reports_buffered_answer_bytes", "Bytes of answers that are held for clients."},
		{GAUGE_FEEDS, "kube_reports_feeds", "Lanes whose change log is followed, over all workers."},
		{GAUGE_DB_QUEUED, "kube_reports_database_queued_calls", "Calls that wait for a database connection."},
	};
	static const struct
	{
		MetricGauge gauge;
		const char *use;
	}			uses[] =
	{
		{GAUGE_DB_READS, "reads"},
		{GAUGE_DB_WRITES, "writes"},
		{GAUGE_DB_UPKEEP, "upkeep"},
		{GAUGE_DB_STANDBY, "standby"},
	};
	long long	connections = gauge_sum(GAUGE_DB_CONNECTIONS);
	long long	busy = gauge_sum(GAUGE_DB_BUSY);
	long long	resident = 0;

	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
	{
		metrics_write_head(buf, gauges[i].name, "gauge", gauges[i].help);
		strbuf_printf(buf, "%s %lld\n", gauges[i].name, gauge_sum(gauges[i].gauge));
	}
	metrics_write_head(buf, "kube_reports_database_connections", "gauge", "Database connections, by what they do.");
	strbuf_printf(buf, "kube_reports_database_connections{state=\"busy\"} %lld\n", busy);
	strbuf_printf(buf, "kube_reports_database_connections{state=\"idle\"} %lld\n", connections > busy ? connections - busy : 0);
	metrics_write_head(buf, "kube_reports_database_connections_open", "gauge", "Database connections that are open or being opened, by use.");
	for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
		strbuf_printf(buf, "kube_reports_database_connections_open{use=\"%s\"} %lld\n", uses[i].use, gauge_sum(uses[i].gauge));
	metrics_write_head(buf, "kube_reports_database_connections_limit", "gauge", "The most of them, without the standby's: --database-connections.");
	strbuf_printf(buf, "kube_reports_database_connections_limit %d\n", config.connections);
	for (int w = 0; w < block_count; w++)
		resident += atomic_load_explicit(&blocks[w].resident, memory_order_relaxed);
	metrics_write_head(buf, "process_resident_memory_bytes", "gauge", "Memory held by all processes that the proxy has started.");
	strbuf_printf(buf, "process_resident_memory_bytes %lld\n", resident);
	metrics_write_head(buf, "process_start_time_seconds", "gauge", "When the proxy was started.");
	strbuf_printf(buf, "process_start_time_seconds %.3f\n", start_time);
}

static void
write_counters(StrBuf *buf)
{
	static const struct
	{
		MetricCounter counter;
		const char *name;
		const char *help;
	}			counters[] =
	{
		{COUNTER_WATCH_EVENTS, "kube_reports_watch_events_total", "Events handed to watchers."},
		{COUNTER_WATCH_BYTES, "kube_reports_watch_bytes_total", "Bytes of these events."},
		{COUNTER_WATCH_OVERFLOWS, "kube_reports_watch_overflows_total", "Watches closed because their client was too slow."},
		{COUNTER_DB_CALLS, "kube_reports_database_calls_total", "Calls of database functions."},
		{COUNTER_DB_ERRORS, "kube_reports_database_errors_total", "Calls that failed."},
		{COUNTER_DB_INTERRUPTS, "kube_reports_database_interrupts_total", "Calls stopped because their time was up or their client gone."},
		{COUNTER_DB_REFUSALS, "kube_reports_database_refusals_total", "Connections that the database refused for want of room (53300)."},
		{COUNTER_BATCHES, "kube_reports_write_batches_total", "Batches of writes."},
		{COUNTER_BATCHED_WRITES, "kube_reports_batched_writes_total", "Writes in these batches."},
		{COUNTER_LOG_DROPPED, "kube_reports_log_lines_dropped_total", "Log lines dropped because nobody read standard error."},
		{COUNTER_LARGE_HEADS, "kube_reports_large_heads_total", "Requests refused because their head was too large (431)."},
		{COUNTER_REFUSED_BODIES, "kube_reports_refused_bodies_total", "Requests refused because too many bodies were held (429)."},
		{COUNTER_REFUSED_CLIENTS, "kube_reports_refused_connections_total", "Requests refused because too many clients were connected (429)."},
		{COUNTER_ANSWERS_CUT, "kube_reports_cut_answers_total", "Answers cut because their clients took nothing while too much was held."},
		{COUNTER_ANSWERS_REFUSED, "kube_reports_refused_answers_total", "Answers refused because too much was held for clients."},
		{COUNTER_CONNECTIONS_ENDED, "kube_reports_ended_connections_total", "Connections of unknown clients that had to make room."},
		{COUNTER_COSTLY_WRITES, "kube_reports_costly_writes_total", "Writes that cost much and were sent alone."},
	};
	uint64_t	restarts = 0;

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
	{
		metrics_write_head(buf, counters[i].name, "counter", counters[i].help);
		strbuf_printf(buf, "%s %llu\n", counters[i].name, (unsigned long long) metrics_total(counters[i].counter));
	}
	for (int w = 0; w < worker_count; w++)
		restarts += load(&blocks[w].restarts);
	metrics_write_head(buf, "kube_reports_worker_restarts_total", "counter", "Workers that died and were started again.");
	strbuf_printf(buf, "kube_reports_worker_restarts_total %llu\n", (unsigned long long) restarts);
	if (block_count == worker_count)
		return;
	metrics_write_head(buf, "kube_reports_upkeep_restarts_total", "counter", "How often the upkeep process died and was started again.");
	strbuf_printf(buf, "kube_reports_upkeep_restarts_total %llu\n", (unsigned long long) load(&blocks[worker_count].restarts));
}

static void
write_webhook_metric(StrBuf *buf, const char *name, const char *type, const char *help, size_t offset, bool of_now, double unit)
{
	uint64_t	now = monotonic_nanoseconds();

	metrics_write_head(buf, name, type, help);
	for (int w = 0; w < block_count; w++)
		for (size_t i = 0; i < WEBHOOK_SERIES; i++)
		{
			const WebhookEntry *entry = &blocks[w].webhooks[i];
			uint64_t	known_at = load(&entry->known_at);

			if (!atomic_load_explicit(&entry->used, memory_order_acquire))
				break;
			if (of_now && (known_at == 0 || now > known_at + WEBHOOK_AGE))
				continue;
			strbuf_printf(buf, "%s{", name);
			metrics_write_label(buf, "target", entry->target);
			strbuf_printf(buf, "} %.12g\n", (double) load((const _Atomic uint64_t *) ((const char *) entry + offset)) * unit);
		}
}

/* One process sends: no target is in two tables. */
static void
write_webhooks(StrBuf *buf)
{
	write_webhook_metric(buf, "kube_reports_webhook_events_total", "counter", "New failures that a target acknowledged to this proxy.",
						 offsetof(WebhookEntry, events), false, 1);
	write_webhook_metric(buf, "kube_reports_webhook_failures_total", "counter", "Batches of this proxy that a target did not acknowledge.",
						 offsetof(WebhookEntry, failures), false, 1);
	write_webhook_metric(buf, "kube_reports_webhook_lag_seconds", "gauge", "Age of the oldest event that a target has not acknowledged.",
						 offsetof(WebhookEntry, lag), true, 0.001);
	write_webhook_metric(buf, "kube_reports_webhook_failing_attempts", "gauge", "Attempts that failed since a target's last acknowledgement.",
						 offsetof(WebhookEntry, failing), true, 1);
	write_webhook_metric(buf, "kube_reports_webhook_paused", "gauge", "Whether a target is paused.",
						 offsetof(WebhookEntry, paused), true, 1);
}

void
metrics_write(StrBuf *buf)
{
	Total		lag = {0};

	write_requests(buf);
	write_durations(buf);
	write_stored(buf);
	write_gauges(buf);
	write_counters(buf);
	write_webhooks(buf);
	for (int w = 0; w < block_count; w++)
		add_histogram(&lag, &blocks[w].lag);
	metrics_write_head(buf, "kube_reports_feed_lag_seconds", "histogram", "Time between the commit of a change and its reading.");
	write_histogram(buf, "kube_reports_feed_lag_seconds", &lag, false, lag_bounds, LAG_BUCKETS);
	metrics_write_head(buf, "kube_reports_build_info", "gauge", "The version of the proxy; always 1.");
	strbuf_printf(buf, "kube_reports_build_info{version=\"%s\"} 1\n", KUBE_REPORTS_VERSION);
}
