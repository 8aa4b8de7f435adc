/*-------------------------------------------------------------------------
 *
 * result_metrics.h
 *	  policy_report_result and cluster_policy_report_result: how many results
 *	  there are, for Prometheus.
 *
 * Names, labels and values are those of Policy Reporter's simple mode, so that
 * its dashboards fit.  They are read when somebody scrapes, by the upkeep
 * process, at most once in --result-metrics-interval for the whole proxy;
 * all workers show the same reading.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RESULT_METRICS_H
#define RESULT_METRICS_H

#include "engine/base/arena.h"

/* Called by the parent before it forks. */
extern void result_metrics_init(void);

/* Called by the upkeep process whose loop is there: reads when a worker asks. */
extern void result_metrics_serve(void);

/* A scrape that waits for a reading; embedded in its owner's struct, zeroed at first. */
typedef struct ResultScrape
{
	struct ResultScrape *previous;
	struct ResultScrape *next;
	void		(*ready) (void *state); /* NULL: does not wait */
	void	   *state;
} ResultScrape;

/*
 * Sees to it that the reading is new enough; then ready runs, once, maybe before this returns.  It does not wait for
 * a database that is away, nor for longer than three seconds, nor where another worker has asked already: what has
 * been read before will do then.
 */
extern void result_metrics_refresh(ResultScrape *scrape, void (*ready) (void *state), void *state);

/* ready will not run. */
extern void result_metrics_cancel(ResultScrape *scrape);

/*
 * The Prometheus text of the last reading; nothing when it is too old to be shown, or when --result-metrics-series is
 * 0.
 */
extern void result_metrics_write(StrBuf *buf);

#endif							/* RESULT_METRICS_H */
