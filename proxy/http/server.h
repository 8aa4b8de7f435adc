/*-------------------------------------------------------------------------
 *
 * server.h
 *	  The loop of a worker, and the sockets that it listens at.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_H
#define SERVER_H

#include "http/http.h"

/* What is known at the end of a head of who sends a body. */
typedef enum HeadVerdict
{
	HEAD_NOT_ASKED,
	HEAD_STRANGER,				/* nobody knows, which is allowed */
	HEAD_KNOWN,
	HEAD_UNAUTHORIZED,			/* 401 */
	HEAD_BUSY					/* it cannot be found out now: 429 */
} HeadVerdict;

typedef struct HeadQuestion HeadQuestion;

typedef struct HttpListener
{
	int			fd;				/* listening; dup'ed where it is used */
	bool		tls;
	void		(*on_request) (HttpRequest *request);

	/*
	 * Who sends that?  *verdict when that is known at once; else told is called, from the loop, and the question is
	 * not to be used afterwards.  authorization: the header's value, or NULL.  NULL: nobody is asked.
	 */
	HeadQuestion *(*ask_head) (struct ClientCertificate *peer, const char *authorization, HeadVerdict *verdict,
							   void (*told) (void *state, HeadVerdict verdict), void *state);
	void		(*cancel_head) (HeadQuestion *question);	/* told is not called */
} HttpListener;

extern void http_server_start(void);
extern void http_server_listen(const HttpListener *given);
extern void http_server_unlisten(int fd);

/*
 * Runs until http_server_exit(), or, once http_server_stop_accepting() was called, until no request is open and
 * drained(): then nothing is under way that no client waits for.  tick is called about once a second, and at once
 * after a signal.
 */
extern void http_server_run(void (*tick) (void), bool (*drained) (void));

/* Closes the TLS listeners, turns keep-alive off.  The plain port serves health and metrics to the end. */
extern void http_server_stop_accepting(void);
extern size_t http_server_open_requests(void);
extern void http_server_exit(void);

#endif							/* SERVER_H */
