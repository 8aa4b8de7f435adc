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

typedef struct HttpListener
{
	int			fd;				/* listening; dup'ed where it is used */
	bool		tls;
	void		(*on_request) (HttpRequest *request);
} HttpListener;

extern void http_server_start(void);
extern void http_server_listen(const HttpListener *given);
extern void http_server_unlisten(int fd);
/*
 * Runs until http_server_exit(), or, once http_server_stop_accepting() was called, until no request is open and drained(): then nothing
 * is under way that no client waits for.  tick is called about once a second, and at once after a signal.
 */
extern void http_server_run(void (*tick) (void), bool (*drained) (void));
/* Closes the TLS listeners, turns keep-alive off.  The plain port serves health and metrics to the end. */
extern void http_server_stop_accepting(void);
extern size_t http_server_open_requests(void);
extern void http_server_exit(void);

#endif							/* SERVER_H */
