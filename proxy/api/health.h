/*-------------------------------------------------------------------------
 *
 * health.h
 *	  /livez, /readyz, /healthz and /metrics.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HEALTH_H
#define HEALTH_H

#include "http/http.h"

/* A request of the plain port: health and metrics. */
extern void health_request(HttpRequest *request);

/*
 * For the API port: answers /healthz, /livez, /readyz and /readyz/<check>; false, and nothing done, for any other
 * path.
 */
extern bool health_answer(HttpRequest *request);

/* About once a second: readyz fails only after the database has been away for some seconds. */
extern void health_tick(void);

#endif							/* HEALTH_H */
