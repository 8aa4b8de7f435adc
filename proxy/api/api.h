/*-------------------------------------------------------------------------
 *
 * api.h
 *	  The Kubernetes API of a worker: the functions that main.c calls.
 *
 *-------------------------------------------------------------------------
 */
#ifndef API_H
#define API_H

#include "http/http.h"

/* The parent calls this before it forks.  Exits when there is no memory. */
extern void api_init(void);

/* A worker calls this when its loop exists: opens the database connections and starts to read the registry. */
extern void api_start(int worker);

/* Handles a request of the API port. */
extern void api_request(HttpRequest *request);

/*
 * Whether the database answers and every worker has read the registry; if not, sets *why.  The kernel chooses the
 * worker of a connection, so the readiness of one worker alone does not tell a client that its next request is served.
 */
extern bool api_ready(const char **why);

/* From now on new requests get 429, as kube-apiserver answers when it no longer accepts connections.  Does not wait. */
extern void api_refuse_requests(void);

/* Whether new requests get 429. */
extern bool api_shutting_down(void);

/* Ends the watches cleanly, spread over three quarters of --shutdown-timeout.  Does not wait. */
extern void api_end_watches(void);

#endif							/* API_H */
