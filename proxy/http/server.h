/*-------------------------------------------------------------------------
 *
 * server.h
 *	  How main.c, http.c and the API meet.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_H
#define SERVER_H

#include "http/http.h"

/* http.c: a worker's loop and the sockets it listens at. */
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

/* api.c: the Kubernetes API of a worker. */
extern void api_start(int worker);			/* opens the database pool, starts to read the registry */
extern void api_request(HttpRequest *request);	/* the API port */
extern bool api_ready(const char **why);	/* registry read, database answering */
extern void api_shutdown(void);				/* end watches cleanly, refuse newcomers with 429 */
extern bool api_shutting_down(void);

/* health.c */
extern void health_request(HttpRequest *request);	/* the plain port: health and metrics */
/* For the API port: answers /healthz, /livez, /readyz and /readyz/<check>; false, and nothing done, for any other path. */
extern bool health_answer(HttpRequest *request);
/* About once a second: readyz fails only after the database has been away for some seconds. */
extern void health_tick(void);

/* main.c: true from the first SIGTERM on; readyz fails then, while everything is still served. */
extern bool server_terminating(void);

#endif							/* SERVER_H */
