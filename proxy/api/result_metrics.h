/*-------------------------------------------------------------------------
 *
 * result_metrics.h
 *	  policy_report_result and cluster_policy_report_result: numbers of results
 *	  for Prometheus.
 *
 * Names, labels and values are the same as in Policy Reporter's simple mode,
 * so that its dashboards work.  The upkeep process reads the numbers when they
 * are scraped, at most once in --result-metrics-interval for the whole proxy.
 * All workers show the same reading.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RESULT_METRICS_H
#define RESULT_METRICS_H

#include "engine/base/arena.h"

/* Call in the parent before it forks. */
extern void result_metrics_init(void);

/* The upkeep process calls this when its loop exists: from then on it reads when a worker asks. */
extern void result_metrics_serve(void);

/* A scrape that waits for a reading; embedded in its owner's struct, zeroed at first. */
typedef struct ResultScrape
{
	struct ResultScrape *previous;
	struct ResultScrape *next;
	void		(*ready) (void *state); /* NULL when the scrape does not wait */
	void	   *state;
} ResultScrape;

/*
 * Makes the reading new enough, then calls ready() once, maybe before this function returns.  Waits at most three
 * seconds.  Uses the last reading when the database is away, or when another worker asked within the interval.
 */
extern void result_metrics_refresh(ResultScrape *scrape, void (*ready) (void *state), void *state);

/* Ends the wait of a scrape, if it waits: ready() will not be called. */
extern void result_metrics_cancel(ResultScrape *scrape);

/*
 * Writes the Prometheus text of the last reading; nothing when the reading is too old, or when --result-metrics-series
 * is 0.
 */
extern void result_metrics_write(StrBuf *buf);

#endif							/* RESULT_METRICS_H */
