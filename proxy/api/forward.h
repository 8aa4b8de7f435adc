/*-------------------------------------------------------------------------
 *
 * forward.h
 *	  What senders of other clusters forward: /v1/forward/...
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_H
#define FORWARD_H

#include "http/http.h"

/* Handles a request at --forward-port. */
extern void forward_request(HttpRequest *request);

#endif							/* FORWARD_H */
