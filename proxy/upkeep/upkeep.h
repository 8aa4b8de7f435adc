/*-------------------------------------------------------------------------
 *
 * upkeep.h
 *	  The upkeep process: what the store and the cluster need besides answers.
 *
 * It runs beside the workers, with two database connections of its own, so
 * that clients never wait for it and its faults cost no watch: maintenance of
 * the log and of history, catching up after a restore, folding of counts,
 * merging of reports, namespaces that are gone, the active policies, webhooks, the caBundle of
 * APIServices, and the readings for result metrics.  Proxies take turns by
 * locks in the database, so any number of them may have one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UPKEEP_H
#define UPKEEP_H

#include <stdbool.h>

/* Begins everything, in a process whose loop is there. */
extern void upkeep_start(void);

/* Begins nothing more; what is under way is finished. */
extern void upkeep_end(void);
extern bool upkeep_drained(void);

#endif							/* UPKEEP_H */
