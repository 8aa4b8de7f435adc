/*-------------------------------------------------------------------------
 *
 * wakeup.h
 *	  Tells the other workers of the proxy what one worker has written.
 *
 * A hint that makes watches fast.  It may be lost, come late, or come after a
 * restart of its reader.  The change log of the database is what counts, and
 * polls find its changes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WAKEUP_H
#define WAKEUP_H

#include <stdint.h>

/* The parent calls this before it forks; exits when no sockets are left. */
extern void wakeup_init(int workers);

/* A worker calls this when its loop exists: heard() runs for each write that another worker reports. */
extern void wakeup_attach(int worker, void (*heard) (int lane, int64_t version));

/* A write of this worker was committed. */
extern void wakeup_tell(int lane, int64_t version);

#endif							/* WAKEUP_H */
