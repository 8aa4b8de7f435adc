/*-------------------------------------------------------------------------
 *
 * export.h
 *	  Results and events as JSON lines or CSV: /v1/export/...
 *
 *	  /v1/export/results, /v1/export/events						of the whole cluster
 *	  /v1/export/namespaces/<namespace>/results, .../events	of the reports in a namespace
 *	  /v1/fleet/clusters, matrix, scores, score, drift, remediations, events
 *															of the clusters that the proxy's role reads
 *	  /v1/policy-reporter/...								what Policy Reporter UI asks for: see policy_reporter.h
 *
 * A request is authorized like any non-resource request: get on its path.  The
 * function that answers reads the same string, so that no other path is
 * served.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXPORT_H
#define EXPORT_H

#include "api/exchange.h"

/* Whether the authorized path is one of the paths above. */
extern bool export_serves(const Route *route);

/* Whether a client may send its token as the password of HTTP Basic: Policy Reporter UI can send nothing else. */
extern bool export_takes_basic(const Route *route);

/* Answers a request for an export. */
extern void export_start(Exchange *exchange);

#endif							/* EXPORT_H */
