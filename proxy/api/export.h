/*-------------------------------------------------------------------------
 *
 * export.h
 *	  Results and events as JSON lines or CSV: /v1/export/...
 *
 *	  /v1/export/results, /v1/export/events						of the whole cluster
 *	  /v1/export/namespaces/<namespace>/results, .../events	of the reports in a namespace
 *
 * A request is authorized like any that is not about a resource: get on its
 * path.  What is served is decided by the very path that was authorized.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXPORT_H
#define EXPORT_H

#include "api/exchange.h"

/* Whether a path, as it was authorized, is one of these. */
extern bool export_serves(const Route *route);

/* Answers such a request. */
extern void export_start(Exchange *exchange);

#endif							/* EXPORT_H */
