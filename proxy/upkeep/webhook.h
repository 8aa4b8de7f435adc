/*-------------------------------------------------------------------------
 *
 * webhook.h
 *	  Sends new failures to the targets of add_webhook().
 *
 * Delivers at least once: a batch counts as sent when its target has answered
 * with a code from 200 to 299 and the database has noted that.  For each
 * target one batch is in progress at a time, whatever the number of proxies;
 * the next batch follows it in history.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WEBHOOK_H
#define WEBHOOK_H

#include <stdbool.h>

/* Starts webhooks in the upkeep process; does nothing with --webhooks=false. */
extern void webhooks_start(void);

/* Starts no more batches; batches in progress are finished. */
extern void webhooks_end(void);

/* Whether a batch is in progress or its outcome is not noted yet. */
extern bool webhooks_under_way(void);

#endif							/* WEBHOOK_H */
