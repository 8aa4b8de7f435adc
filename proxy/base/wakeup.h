/*-------------------------------------------------------------------------
 *
 * wakeup.h
 *	  What one worker has written, told to the others of the proxy.
 *
 * A hint, for watches to be quick: it may be lost, or come when its reader
 * knows already, or after a restart of its reader.  What is true is in the
 * log, and polls find it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WAKEUP_H
#define WAKEUP_H

#include <stdint.h>

/* Called by the parent before it forks; exits when the system has no sockets left. */
extern void wakeup_init(int workers);

/* Called by a worker whose loop is there: heard runs for each write that another worker tells of. */
extern void wakeup_attach(int worker, void (*heard) (int lane, int64_t version));

/* A write of this worker was committed. */
extern void wakeup_tell(int lane, int64_t version);

#endif							/* WAKEUP_H */
