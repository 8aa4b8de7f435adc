/*-------------------------------------------------------------------------
 *
 * webhook.h
 *	  Sends new failures to the targets of add_webhook().
 *
 * At least once: a batch counts as sent when its target has answered with a
 * code from 200 to 299, and the database knows.  One batch of a target is
 * under way at a time, whatever the number of proxies, and the next one
 * follows it in history.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WEBHOOK_H
#define WEBHOOK_H

#include <stdbool.h>

/* For the upkeep process; nothing happens with --webhooks=false. */
extern void webhooks_start(void);

/* Begins no more batches; what is under way is finished. */
extern void webhooks_end(void);

/* Whether a batch is under way, or its outcome not noted yet. */
extern bool webhooks_under_way(void);

#endif							/* WEBHOOK_H */
