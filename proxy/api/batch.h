/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Writes of one object each, gathered into batches.
 *
 * For every lane one batch is in flight; what arrives meanwhile forms the
 * next one: at most 64 documents or 4 MB, no object twice, later writes of an
 * object behind earlier ones.  A write that finds its lane idle is sent at
 * once.  When a batch of several fails, it was rolled back as a whole, and its
 * members are sent one by one.
 *
 * What costs much, a body of more than 256 KiB or a write to an object of that
 * size, which the store tells of, waits in a queue of its own: one at a time,
 * the users in turn, and a rest after each as long as it took (2 s at most).
 * Others' batches go on beside it.  At most 64 of these wait, 16 of one user.
 *
 * At most 4,096 writes or 64 MB wait in a worker; beyond that 429.  A client
 * that leaves before its write was sent takes it back; afterwards its outcome
 * is only not told.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BATCH_H
#define BATCH_H

#include "api/exchange.h"

extern void batch_write(Exchange *exchange);

#endif							/* BATCH_H */
