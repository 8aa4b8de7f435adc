/*-------------------------------------------------------------------------
 *
 * counts.h
 *	  What kube-reports-evidence counts, as text for Prometheus.
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
	OPERATION_OTHER,			/* health, and what was refused before its path was known */
	OPERATION_UPLOAD,
	OPERATION_DOWNLOAD,
	OPERATION_COUNT
} Operation;

/* A request has ended; status: of the answer, 0: the connection was cut before the answer was sent. */
extern void counts_request(Operation operation, unsigned status);

/* A file was announced, or given back: bytes of its body. */
extern void counts_stored(uint64_t bytes);
extern void counts_sent(uint64_t bytes);

/* A function of the store has failed: STORE_FULL or another outcome but STORE_OK. */
extern void counts_store_failure(StoreOutcome outcome);

/* Files were removed from the store; left: those of this round that could not be removed. */
extern void counts_removal(unsigned removed, unsigned left);

/* Connections were cut, because they were too slow. */
extern void counts_slow(unsigned connections);

/* Appends the counts, and the gauges that the caller has. */
extern void counts_write(StrBuf *buf, unsigned connections, unsigned uploads, bool database_up);

#endif							/* EVIDENCE_COUNTS_H */
