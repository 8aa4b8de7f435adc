/*-------------------------------------------------------------------------
 *
 * counts.h
 *	  The counters of kube-reports-evidence, and their text for Prometheus.
 *
 * All functions may be called by any thread.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_COUNTS_H
#define EVIDENCE_COUNTS_H

#include <stdint.h>

#include "engine/base/arena.h"
#include "evidence/store.h"

typedef enum Operation
{
	OPERATION_OTHER,			/* health checks, and requests that were refused before their path was known */
	OPERATION_UPLOAD,
	OPERATION_DOWNLOAD,
	OPERATION_COUNT
} Operation;

/* Counts a request that has ended.  status: of its answer; 0: the connection was cut before the answer was sent. */
extern void counts_request(Operation operation, unsigned status);

/* Count the bytes of a file that was announced; of a file that was sent to a client. */
extern void counts_stored(uint64_t bytes);
extern void counts_sent(uint64_t bytes);

/* Counts a failure of the store: outcome is not STORE_OK. */
extern void counts_store_failure(StoreOutcome outcome);

/* Counts files that were removed from the store.  left: number of files that could not be removed in this round. */
extern void counts_removal(unsigned removed, unsigned left);

/* Counts connections that were cut because they were too slow. */
extern void counts_slow(unsigned connections);

/* Appends the counters as Prometheus text, and gauges with the given values. */
extern void counts_write(StrBuf *buf, unsigned connections, unsigned uploads, bool database_up);

#endif							/* EVIDENCE_COUNTS_H */
