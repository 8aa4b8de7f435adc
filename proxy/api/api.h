/*-------------------------------------------------------------------------
 *
 * api.h
 *	  The Kubernetes API of a worker, as main.c sees it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef API_H
#define API_H

#include "http/http.h"

/* Opens the database pool, starts to read the registry. */
extern void api_start(int worker);

/* Handles a request of the API port. */
extern void api_request(HttpRequest *request);

/* Whether the registry is read and the database answers; if not, sets *why. */
extern bool api_ready(const char **why);

/* Ends watches cleanly and refuses new requests with 429. */
extern void api_shutdown(void);
extern bool api_shutting_down(void);

#endif							/* API_H */
