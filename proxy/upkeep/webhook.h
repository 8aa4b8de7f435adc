/*-------------------------------------------------------------------------
 *
 * webhook.h
 *	  Sends new failures to the targets of add_webhook().
 *
 * Each event is delivered at least once: a batch counts as sent when its
 * target has answered with a code from 200 to 299 and the database has noted
 * that.  A target has one batch in progress at a time, however many proxies
 * there are.  The events of the next batch follow in history.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WEBHOOK_H
#define WEBHOOK_H

#include <stdbool.h>

/* The upkeep process calls this when its loop exists; does nothing with --webhooks=false. */
extern void webhooks_start(void);

/* Starts no more batches; batches in progress are finished. */
extern void webhooks_end(void);

/* Whether a batch is in progress, or the database has not noted its outcome yet. */
extern bool webhooks_under_way(void);

#endif							/* WEBHOOK_H */
