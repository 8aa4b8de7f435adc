/*-------------------------------------------------------------------------
 *
 * forward.h
 *	  What senders of other clusters forward: /v1/forward/...
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_H
#define FORWARD_H

#include "http/server.h"

/*
 * Looks up whether the database knows the sender, at the end of the head of a request with a body
 * (HttpListener.ask_head).  Unknown senders get 401 before their body is read.
 */
extern HeadQuestion *forward_ask_head(struct ClientCertificate *peer, const char *authorization, HeadVerdict *verdict,
									  void (*told) (void *state, HeadVerdict verdict), void *state);
extern void forward_cancel_head(HeadQuestion *asked);

/* Handles a request at --forward-port. */
extern void forward_request(HttpRequest *request);

#endif							/* FORWARD_H */
