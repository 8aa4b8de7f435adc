/*-------------------------------------------------------------------------
 *
 * metrics_text.c
 *	  Writes metrics as Prometheus text: the sums over all processes of the proxy.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/metrics_private.h"

/* Nanoseconds.  Older values of a webhook target or of upkeep are not shown: they may have changed. */
#define KNOWN_AGE ((uint64_t) 60 * 1000000000)


/* One series of the text: the sum over all processes. */
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

/* Sorts the entries and adds up those with the same key. */
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

static long long
gauge_sum(MetricGauge gauge)
{
	long long	sum = 0;

	for (int w = 0; w < metric_block_count; w++)
		sum += atomic_load_explicit(&metric_blocks[w].gauges[gauge], memory_order_relaxed);
	return sum;
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

/* labels: without braces, or NULL */
static void
write_histogram(StrBuf *buf, const char *name, const Total *total, const char *labels, const double *bounds,
				size_t bound_count)
{
	uint64_t	cumulated = 0;

	for (size_t b = 0; b <= bound_count; b++)
	{
		cumulated += total->buckets[b];
		strbuf_printf(buf, "%s_bucket{%s%s", name, labels != NULL ? labels : "", labels != NULL ? "," : "");
		if (b < bound_count)
			strbuf_printf(buf, "le=\"%g\"} %llu\n", bounds[b], (unsigned long long) cumulated);
		else
			strbuf_printf(buf, "le=\"+Inf\"} %llu\n", (unsigned long long) cumulated);
	}
	for (int part = 0; part < 2; part++)
	{
		strbuf_printf(buf, "%s_%s", name, part == 0 ? "sum" : "count");
		if (labels != NULL)
			strbuf_printf(buf, "{%s}", labels);
		if (part == 0)
			strbuf_printf(buf, " %.9g\n", (double) total->sum / 1e9);
		else
			strbuf_printf(buf, " %llu\n", (unsigned long long) cumulated);
	}
}

static void
write_requests(StrBuf *buf)
{
	TotalList	list = {arena_alloc0(buf->arena,
									 sizeof(Total) * (COUNTER_SERIES + 1) * (size_t) metric_block_count), 0};

	for (int w = 0; w < metric_block_count; w++)
		for (size_t i = 0; i <= COUNTER_SERIES; i++)
		{
			const CounterEntry *entry = &metric_blocks[w].requests[i];
			bool		overflow = i == COUNTER_SERIES;

			if (overflow ? load(&entry->count) == 0 : !atomic_load_explicit(&entry->head.used, memory_order_acquire))
				continue;
			list.entries[list.count].key = overflow ? NULL : &entry->head.key;
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
	TotalList	list = {arena_alloc0(buf->arena,
									 sizeof(Total) * (DURATION_SERIES + 1) * (size_t) metric_block_count), 0};

	for (int w = 0; w < metric_block_count; w++)
		for (size_t i = 0; i <= DURATION_SERIES; i++)
		{
			const DurationEntry *entry = &metric_blocks[w].durations[i];
			Total	   *total = &list.entries[list.count];
			bool		overflow = i == DURATION_SERIES;

			if (!overflow && !atomic_load_explicit(&entry->head.used, memory_order_acquire))
				continue;
			add_histogram(total, &entry->histogram);
			total->key = overflow ? NULL : &entry->head.key;
			if (!overflow || total->count > 0)
				list.count++;
		}
	merge_totals(&list);
	metrics_write_head(buf, "apiserver_request_duration_seconds", "histogram",
					   "Time from request to the end of the answer; watches are left out.");
	for (size_t i = 0; i < list.count; i++)
	{
		StrBuf		labels;

		strbuf_init(&labels, buf->arena);
		write_key(&labels, list.entries[i].key);
		if (list.entries[i].key == NULL)
			strbuf_puts(&labels, ",code=\"\"");
		else
			strbuf_printf(&labels, ",code=\"%d%s\"", list.entries[i].key->code,
						  list.entries[i].key->code > 0 ? "xx" : "");
		write_histogram(buf, "apiserver_request_duration_seconds", &list.entries[i], labels.bytes,
						metric_duration_bounds, DURATION_BUCKETS);
	}
}

static void
write_under_way(StrBuf *buf)
{
	TotalList	list = {arena_alloc0(buf->arena,
									 sizeof(Total) * (LASTING_SERIES + 1) * (size_t) metric_block_count), 0};

	metrics_write_head(buf, "apiserver_current_inflight_requests", "gauge",
					   "Requests under way; watches are left out.");
	strbuf_printf(buf, "apiserver_current_inflight_requests{request_kind=\"readOnly\"} %lld\n",
				  gauge_sum(GAUGE_READING));
	strbuf_printf(buf, "apiserver_current_inflight_requests{request_kind=\"mutating\"} %lld\n",
				  gauge_sum(GAUGE_MUTATING));
	for (int w = 0; w < metric_block_count; w++)
		for (size_t i = 0; i <= LASTING_SERIES; i++)
		{
			const LastingEntry *entry = &metric_blocks[w].lasting[i];
			bool		overflow = i == LASTING_SERIES;
			int64_t		open = atomic_load_explicit(&entry->open, memory_order_relaxed);

			if (overflow ? open == 0 : !atomic_load_explicit(&entry->head.used, memory_order_acquire))
				continue;
			list.entries[list.count].key = overflow ? NULL : &entry->head.key;
			list.entries[list.count++].count = (uint64_t) (open > 0 ? open : 0);
		}
	merge_totals(&list);
	metrics_write_head(buf, "apiserver_longrunning_requests", "gauge", "Watches that are open, by resource.");
	for (size_t i = 0; i < list.count; i++)
	{
		strbuf_puts(buf, "apiserver_longrunning_requests{");
		write_key(buf, list.entries[i].key);
		strbuf_printf(buf, "} %llu\n", (unsigned long long) list.entries[i].count);
	}
}

static void
write_database_calls(StrBuf *buf)
{
	Total		waits = {0};

	metrics_write_head(buf, "kube_reports_database_call_duration_seconds", "histogram",
					   "Time from when a call of a database function has a connection to its answer.");
	for (size_t i = 0; i < METRICS_CALLS; i++)
	{
		Total		total = {0};
		const char *call = NULL;
		StrBuf		labels;

		for (int w = 0; w < metric_block_count; w++)
		{
			const CallEntry *entry = &metric_blocks[w].calls[i];

			if (!atomic_load_explicit(&entry->used, memory_order_acquire))
				continue;
			call = entry->call;
			add_histogram(&total, &entry->histogram);
		}
		if (call == NULL)
			continue;
		strbuf_init(&labels, buf->arena);
		metrics_write_label(&labels, "call", call);
		write_histogram(buf, "kube_reports_database_call_duration_seconds", &total, labels.bytes,
						metric_call_bounds, CALL_BUCKETS);
	}
	for (int w = 0; w < metric_block_count; w++)
		add_histogram(&waits, &metric_blocks[w].call_waits);
	metrics_write_head(buf, "kube_reports_database_wait_seconds", "histogram",
					   "Time that calls wait for a database connection.");
	write_histogram(buf, "kube_reports_database_wait_seconds", &waits, NULL, metric_call_bounds, CALL_BUCKETS);
}

/* Writes the values of the upkeep process, if there is one. */
static void
write_upkeep(StrBuf *buf)
{
	const WorkerBlock *block = &metric_blocks[metric_upkeep >= 0 ? metric_upkeep : 0];
	uint64_t	now = metric_nanoseconds();

	if (metric_upkeep < 0)
		return;
	metrics_write_head(buf, "kube_reports_upkeep_last_success_timestamp_seconds", "gauge",
					   "Time of the last success of a task of upkeep; 0 before the first.");
	for (size_t i = 0; i < METRICS_CALLS; i++)
	{
		const TaskEntry *entry = &block->tasks[i];

		if (!atomic_load_explicit(&entry->used, memory_order_acquire))
			continue;
		strbuf_puts(buf, "kube_reports_upkeep_last_success_timestamp_seconds{");
		metrics_write_label(buf, "task", entry->task);
		strbuf_printf(buf, "} %.3f\n", (double) load(&entry->succeeded_at) / 1000);
	}
	for (int oldest = 0; oldest < 2; oldest++)
	{
		const char *name = oldest ? "kube_reports_pending_oldest_seconds" : "kube_reports_pending";

		metrics_write_head(buf, name, "gauge",
						   oldest ? "Age of the oldest item that waits for upkeep." :
						   "Items that wait for upkeep.");
		for (size_t i = 0; i < PENDING_SERIES; i++)
		{
			const PendingEntry *entry = &block->pending[i];

			if (!atomic_load_explicit(&entry->used, memory_order_acquire) || now > load(&entry->known_at) + KNOWN_AGE)
				continue;
			strbuf_printf(buf, "%s{", name);
			metrics_write_label(buf, "what", entry->what);
			if (oldest)
				strbuf_printf(buf, "} %.12g\n", (double) load(&entry->oldest) / 1000);
			else
				strbuf_printf(buf, "} %llu\n", (unsigned long long) load(&entry->waiting));
		}
	}
}

static void
write_processes(StrBuf *buf)
{
	long long	resident = 0;
	uint64_t	processor = 0;
	uint64_t	expires = 0;

	for (int w = 0; w < metric_block_count; w++)
	{
		const WorkerBlock *block = &metric_blocks[w];
		uint64_t	at = load(&block->certificate_expires_at);

		resident += atomic_load_explicit(&block->resident, memory_order_relaxed);
		processor += load(&block->processor) + load(&block->processor_before);
		if (at != 0 && (expires == 0 || at < expires))
			expires = at;
	}
	if (expires != 0)
	{
		metrics_write_head(buf, "kube_reports_serving_certificate_expiration_timestamp_seconds", "gauge",
						   "When the certificate of the API port expires.");
		strbuf_printf(buf, "kube_reports_serving_certificate_expiration_timestamp_seconds %llu\n",
					  (unsigned long long) expires);
	}
	metrics_write_head(buf, "process_resident_memory_bytes", "gauge",
					   "Memory held by all processes that the proxy has started.");
	strbuf_printf(buf, "process_resident_memory_bytes %lld\n", resident);
	metrics_write_head(buf, "process_cpu_seconds_total", "counter",
					   "Processor time of all processes that the proxy has started.");
	strbuf_printf(buf, "process_cpu_seconds_total %.3f\n", (double) processor / 1e9);
	metrics_write_head(buf, "process_start_time_seconds", "gauge", "When the proxy was started.");
	strbuf_printf(buf, "process_start_time_seconds %.3f\n", metric_start_time);
}

static void
write_stored(StrBuf *buf)
{
	metrics_write_head(buf, "apiserver_storage_objects", "gauge", "Objects stored, as last counted.");
	for (int w = 0; w < metric_block_count; w++)
		for (size_t i = 0; i < STORED_SERIES; i++)
		{
			const StoredEntry *entry = &metric_blocks[w].stored[i];
			bool		newest = true;
			int64_t		objects;

			if (!atomic_load_explicit(&entry->used, memory_order_acquire))
				break;
			for (int other = 0; other < metric_block_count && newest; other++)
				for (size_t j = 0; other != w && j < STORED_SERIES; j++)
				{
					const StoredEntry *rival = &metric_blocks[other].stored[j];

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
		{GAUGE_CONNECTIONS, "kube_reports_connections", "Client connections that are open."},
		{GAUGE_STRANGERS, "kube_reports_unknown_connections",
		"Client connections whose user is not known yet."},
		{GAUGE_REQUEST_BYTES, "kube_reports_buffered_body_bytes",
		"Bytes of requests that are held or announced."},
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
		{GAUGE_DB_FEED, "feed"},
		{GAUGE_DB_STANDBY, "standby"},
	};
	long long	connections = gauge_sum(GAUGE_DB_CONNECTIONS);
	long long	busy = gauge_sum(GAUGE_DB_BUSY);

	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
	{
		metrics_write_head(buf, gauges[i].name, "gauge", gauges[i].help);
		strbuf_printf(buf, "%s %lld\n", gauges[i].name, gauge_sum(gauges[i].gauge));
	}
	metrics_write_head(buf, "kube_reports_database_connections", "gauge",
					   "Database connections, without those to the standby, by what they do.");
	strbuf_printf(buf, "kube_reports_database_connections{state=\"busy\"} %lld\n", busy);
	strbuf_printf(buf, "kube_reports_database_connections{state=\"idle\"} %lld\n",
				  connections > busy ? connections - busy : 0);
	metrics_write_head(buf, "kube_reports_database_connections_open", "gauge",
					   "Database connections that are open or being opened, by use.");
	for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
		strbuf_printf(buf, "kube_reports_database_connections_open{use=\"%s\"} %lld\n", uses[i].use,
					  gauge_sum(uses[i].gauge));
	metrics_write_head(buf, "kube_reports_database_connections_limit", "gauge",
					   "Limit of database connections, without those to the standby: --database-connections.");
	strbuf_printf(buf, "kube_reports_database_connections_limit %d\n", config.connections);
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
		{COUNTER_WATCH_OVERFLOWS, "kube_reports_watch_overflows_total",
		"Watches closed because their client was too slow."},
		{COUNTER_FEED_RENDERED, "kube_reports_feed_events_rendered_total",
		"Events that the feed process read for all watchers, once for each representation."},
		{COUNTER_WATCH_RENDERED, "kube_reports_watch_events_rendered_total",
		"Events that watches read on their own to catch up, once for each representation."},
		{COUNTER_FEED_OVERRUNS, "kube_reports_feed_overruns_total",
		"How often a worker was too slow for the feed process."},
		{COUNTER_DB_ERRORS, "kube_reports_database_errors_total", "Calls that failed."},
		{COUNTER_DB_INTERRUPTS, "kube_reports_database_interrupts_total",
		"Calls cancelled because their time was over or their client had left."},
		{COUNTER_DB_REFUSALS, "kube_reports_database_refusals_total",
		"Connections that the database refused for want of room (53300)."},
		{COUNTER_BATCHES, "kube_reports_write_batches_total", "Batches of writes."},
		{COUNTER_BATCHED_WRITES, "kube_reports_batched_writes_total", "Writes in these batches."},
		{COUNTER_LOG_DROPPED, "kube_reports_log_lines_dropped_total",
		"Log lines dropped because nobody read standard error."},
		{COUNTER_LARGE_HEADS, "kube_reports_large_heads_total",
		"Requests refused because their head was too large (431)."},
		{COUNTER_REFUSED_BODIES, "kube_reports_refused_bodies_total",
		"Requests refused because too many bodies were held (429)."},
		{COUNTER_REFUSED_CLIENTS, "kube_reports_refused_connections_total",
		"Requests refused because too many clients were connected (429)."},
		{COUNTER_ANSWERS_CUT, "kube_reports_cut_answers_total",
		"Answers cut because their clients took nothing while too much was held."},
		{COUNTER_ANSWERS_REFUSED, "kube_reports_refused_answers_total",
		"Answers refused because too much was held for clients."},
		{COUNTER_CONNECTIONS_ENDED, "kube_reports_ended_connections_total",
		"Connections without a known user, closed to make room."},
		{COUNTER_COSTLY_WRITES, "kube_reports_costly_writes_total", "Writes that cost much and were sent alone."},
	};
	uint64_t	restarts = 0;

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
	{
		metrics_write_head(buf, counters[i].name, "counter", counters[i].help);
		strbuf_printf(buf, "%s %llu\n", counters[i].name, (unsigned long long) metrics_total(counters[i].counter));
	}
	for (int w = 0; w < metric_worker_count; w++)
		restarts += load(&metric_blocks[w].restarts);
	metrics_write_head(buf, "kube_reports_worker_restarts_total", "counter",
					   "Workers that died and were started again.");
	strbuf_printf(buf, "kube_reports_worker_restarts_total %llu\n", (unsigned long long) restarts);
	metrics_write_head(buf, "kube_reports_feed_restarts_total", "counter",
					   "How often the feed process died and was started again.");
	strbuf_printf(buf, "kube_reports_feed_restarts_total %llu\n",
				  (unsigned long long) load(&metric_blocks[metric_feed].restarts));
	/* Without an upkeep process it is 0: a sum with a series that does not exist is empty. */
	metrics_write_head(buf, "kube_reports_upkeep_restarts_total", "counter",
					   "How often the upkeep process died and was started again.");
	strbuf_printf(buf, "kube_reports_upkeep_restarts_total %llu\n",
				  metric_upkeep < 0 ? 0 : (unsigned long long) load(&metric_blocks[metric_upkeep].restarts));
}

static void
write_webhook_metric(StrBuf *buf, const char *name, const char *type, const char *help, size_t offset, bool of_now,
					 double unit)
{
	uint64_t	now = metric_nanoseconds();

	metrics_write_head(buf, name, type, help);
	for (int w = 0; w < metric_block_count; w++)
		for (size_t i = 0; i < WEBHOOK_SERIES; i++)
		{
			const WebhookEntry *entry = &metric_blocks[w].webhooks[i];
			uint64_t	known_at = load(&entry->known_at);

			if (!atomic_load_explicit(&entry->used, memory_order_acquire))
				break;
			if (of_now && (known_at == 0 || now > known_at + KNOWN_AGE))
				continue;
			strbuf_printf(buf, "%s{", name);
			metrics_write_label(buf, "target", entry->target);
			strbuf_printf(buf, "} %.12g\n",
						  (double) load((const _Atomic uint64_t *) ((const char *) entry + offset)) * unit);
		}
}

/* Only one process sends webhooks, so no target is in two tables. */
static void
write_webhooks(StrBuf *buf)
{
	write_webhook_metric(buf, "kube_reports_webhook_events_total", "counter",
						 "New failures that a target acknowledged to this proxy.",
						 offsetof(WebhookEntry, events), false, 1);
	write_webhook_metric(buf, "kube_reports_webhook_failures_total", "counter",
						 "Batches of this proxy that a target did not acknowledge.",
						 offsetof(WebhookEntry, failures), false, 1);
	write_webhook_metric(buf, "kube_reports_webhook_lag_seconds", "gauge",
						 "Age of the oldest event that a target has not acknowledged.",
						 offsetof(WebhookEntry, lag), true, 0.001);
	write_webhook_metric(buf, "kube_reports_webhook_failing_attempts", "gauge",
						 "Attempts that failed since a target's last acknowledgement.",
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
	write_under_way(buf);
	write_stored(buf);
	write_gauges(buf);
	write_database_calls(buf);
	write_counters(buf);
	write_upkeep(buf);
	write_processes(buf);
	write_webhooks(buf);
	for (int w = 0; w < metric_block_count; w++)
		add_histogram(&lag, &metric_blocks[w].lag);
	metrics_write_head(buf, "kube_reports_feed_lag_seconds", "histogram",
					   "Time from the commit of a change until a worker has it for its watchers.");
	write_histogram(buf, "kube_reports_feed_lag_seconds", &lag, NULL, metric_lag_bounds, LAG_BUCKETS);
	metrics_write_head(buf, "kube_reports_build_info", "gauge", "The version of the proxy; always 1.");
	strbuf_printf(buf, "kube_reports_build_info{version=\"%s\"} 1\n", KUBE_REPORTS_VERSION);
}
