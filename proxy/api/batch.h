/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Writes of one object each, gathered into batches.
 *
 * Each lane has at most one batch in flight.  Writes that arrive meanwhile
 * form the next batch: at most 64 documents or 4 MB, no object twice, later
 * writes of an object in later batches.  A write to an idle lane is sent at
 * once.  When a batch of several writes fails, the database rolls it back as a
 * whole, and the proxy sends its writes one by one.
 *
 * Costly writes wait in a queue of their own.  A write is costly when its body
 * is larger than 256 KiB or when the store reports that the object is that
 * large.  The queue sends one write at a time, takes users in turn, and pauses
 * after each write for as long as the write took (at most 2 s).  Batches of
 * other writes continue meanwhile.  At most 64 costly writes wait, at most 16
 * of one user.
 *
 * At most 4,096 writes or 64 MB wait in a worker; the worker answers further
 * writes with 429.  When a client leaves before its write was sent, the write
 * is cancelled.  When it leaves later, the write is executed, and only the
 * answer is dropped.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BATCH_H
#define BATCH_H

#include "api/exchange.h"

extern void batch_write(Exchange *exchange);

#endif							/* BATCH_H */
