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

/* Handles a request of the plain port: health and metrics. */
extern void health_request(HttpRequest *request);

/*
 * For the API port: answers /healthz, /livez, /readyz and /readyz/<check>.  Returns false and does nothing for any
 * other path.
 */
extern bool health_answer(HttpRequest *request);

/* Call about once a second.  Logs when readyz begins to fail or passes again. */
extern void health_tick(void);

#endif							/* HEALTH_H */
