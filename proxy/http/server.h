/*-------------------------------------------------------------------------
 *
 * server.h
 *	  The loop of a worker, and its listening sockets.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_H
#define SERVER_H

#include "http/http.h"

/* What the worker knows at the end of a head about the client of a request with a body. */
typedef enum HeadVerdict
{
	HEAD_NOT_ASKED,
	HEAD_STRANGER,				/* unknown client, which may send the body */
	HEAD_KNOWN,
	HEAD_UNAUTHORIZED,			/* 401 */
	HEAD_BUSY					/* too many reviews are in progress: 429 */
} HeadVerdict;

typedef struct HeadQuestion HeadQuestion;

typedef struct HttpListener
{
	int			fd;				/* listening socket; users dup() it */
	bool		tls;
	void		(*on_request) (HttpRequest *request);

	/*
	 * Looks up the client of a request with a body.  When the answer is known at once, sets *verdict and returns NULL.
	 * Otherwise the loop calls told() later, and the question must not be used afterwards.  authorization: the
	 * header's value, or NULL.  When ask_head is NULL, clients are not looked up.
	 */
	HeadQuestion *(*ask_head) (struct ClientCertificate *peer, const char *authorization, HeadVerdict *verdict,
							   void (*told) (void *state, HeadVerdict verdict), void *state);
	void		(*cancel_head) (HeadQuestion *question);	/* told() will not be called */
} HttpListener;

/* Start the loop; accept at a listener, which is copied; stop accepting at a descriptor. */
extern void http_server_start(void);
extern void http_server_listen(const HttpListener *given);
extern void http_server_unlisten(int fd);

/*
 * Runs the loop until http_server_exit() is called.  After http_server_stop_accepting(), the loop also ends when no
 * request is open and drained() returns true (no background work is in progress).  Calls tick() about once a second,
 * and at once after a signal.
 */
extern void http_server_run(void (*tick) (void), bool (*drained) (void));

/* Closes the TLS listeners and turns keep-alive off.  The plain port serves health and metrics to the end. */
extern void http_server_stop_accepting(void);
extern size_t http_server_open_requests(void);
extern void http_server_exit(void);

#endif							/* SERVER_H */
