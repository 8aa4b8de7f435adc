/*-------------------------------------------------------------------------
 *
 * upkeep.h
 *	  The upkeep process: background work for the store and the cluster.
 *
 * The process runs beside the workers, with two database connections of its
 * own.  So clients never wait for it, and its faults end no watch.  Its work:
 * maintenance of the log and of history, catching up after a restore, folding
 * of counts, merging of reports, deleted namespaces, the active policies,
 * webhooks, the caBundle of APIServices, and the readings for result metrics.
 * Locks in the database let proxies take turns, so any number of proxies may
 * run this process.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UPKEEP_H
#define UPKEEP_H

#include <stdbool.h>

/* Starts all work; the loop of the process must exist. */
extern void upkeep_start(void);

/* Starts no more work; work in progress is finished. */
extern void upkeep_end(void);
extern bool upkeep_drained(void);

#endif							/* UPKEEP_H */
