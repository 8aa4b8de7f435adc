/*-------------------------------------------------------------------------
 *
 * counts.c
 *	  The counters of kube-reports-evidence, and their text for Prometheus.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/counts.h"

#include <stdatomic.h>

#include "base/metrics.h"

/* HTTP statuses below this are counted one by one; all others count as 0, which is shown as "cut". */
#define STATUSES 600

/*
 * The status of uploads for which there is no room.  It is shown before the first of them, because one is an alert:
 * increase() of a series that begins with 1 is 0.
 */
#define STATUS_FULL 507

static struct
{
	atomic_ullong requests[OPERATION_COUNT][STATUSES];
	atomic_ullong stored_bytes;
	atomic_ullong sent_bytes;
	atomic_ullong store_full;
	atomic_ullong store_failed;
	atomic_ullong removed;
	atomic_ullong slow;
	atomic_uint unremoved;
}			counts;

static const char *const operations[OPERATION_COUNT] = {"other", "upload", "download"};

void
counts_request(Operation operation, unsigned status)
{
	atomic_fetch_add(&counts.requests[operation][status < STATUSES ? status : 0], 1);
}

void
counts_stored(uint64_t bytes)
{
	atomic_fetch_add(&counts.stored_bytes, bytes);
}

void
counts_sent(uint64_t bytes)
{
	atomic_fetch_add(&counts.sent_bytes, bytes);
}

void
counts_store_failure(StoreOutcome outcome)
{
	atomic_fetch_add(outcome == STORE_FULL ? &counts.store_full : &counts.store_failed, 1);
}

void
counts_removal(unsigned removed, unsigned left)
{
	atomic_fetch_add(&counts.removed, removed);
	atomic_store(&counts.unremoved, left);
}

void
counts_slow(unsigned connections)
{
	atomic_fetch_add(&counts.slow, connections);
}

static void
put(StrBuf *buf, const char *name, const char *type, const char *help, unsigned long long value)
{
	metrics_write_head(buf, name, type, help);
	strbuf_printf(buf, "%s %llu\n", name, value);
}

static void
put_requests(StrBuf *buf)
{
	static const char name[] = "kube_reports_evidence_requests_total";

	metrics_write_head(buf, name, "counter",
					   "Requests that have ended, by operation and code (cut: without an answer).");
	for (int operation = 0; operation < OPERATION_COUNT; operation++)
	{
		for (int status = 0; status < STATUSES; status++)
		{
			unsigned long long count = atomic_load(&counts.requests[operation][status]);

			if (count == 0 && !(operation == OPERATION_UPLOAD && status == STATUS_FULL))
				continue;
			strbuf_printf(buf, "%s{operation=\"%s\",code=\"", name, operations[operation]);
			if (status == 0)
				strbuf_puts(buf, "cut");
			else
				strbuf_printf(buf, "%d", status);
			strbuf_printf(buf, "\"} %llu\n", count);
		}
	}
}

void
counts_write(StrBuf *buf, unsigned connections, unsigned uploads, bool database_up)
{
	static const char failures[] = "kube_reports_evidence_store_failures_total";

	put_requests(buf);
	put(buf, "kube_reports_evidence_stored_bytes_total", "counter", "Bytes of files that were announced.",
		atomic_load(&counts.stored_bytes));
	put(buf, "kube_reports_evidence_sent_bytes_total", "counter", "Bytes of files that were sent to clients.",
		atomic_load(&counts.sent_bytes));
	metrics_write_head(buf, failures, "counter", "Failures of the store; reason full: it has no room.");
	strbuf_printf(buf, "%s{reason=\"full\"} %llu\n", failures, atomic_load(&counts.store_full));
	strbuf_printf(buf, "%s{reason=\"other\"} %llu\n", failures, atomic_load(&counts.store_failed));
	put(buf, "kube_reports_evidence_removed_files_total", "counter",
		"Files that were removed from the store by rotation, retention and after interrupted uploads.",
		atomic_load(&counts.removed));
	put(buf, "kube_reports_evidence_unremoved_files", "gauge",
		"Files that could not be removed from the store in the last round.", atomic_load(&counts.unremoved));
	put(buf, "kube_reports_evidence_slow_connections_total", "counter",
		"Connections that were cut because they were too slow.", atomic_load(&counts.slow));
	put(buf, "kube_reports_evidence_connections", "gauge", "Connections that are open.", connections);
	put(buf, "kube_reports_evidence_uploads", "gauge", "Uploads in progress (--max-uploads).", uploads);
	put(buf, "kube_reports_evidence_database_up", "gauge", "Whether the database answers.", database_up);
}
