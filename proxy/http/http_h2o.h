/*-------------------------------------------------------------------------
 *
 * http_h2o.h
 *	  What the files that see libh2o share.
 *
 * These are http.c (requests and the loop), http_connection.c (connections and
 * those who wait for them), http_h2o.c (what takes the place of functions of
 * the library) and loop_socket.c.  Nobody else includes h2o.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_H2O_H
#define HTTP_H2O_H

#include <h2o.h>
#include <h2o/http1.h>
#include <h2o/http2.h>

#include "http/http_answer.h"
#include "http/http_client.h"
#include "http/http_head.h"
#include "base/loop.h"
#include "http/server.h"

/*
 * libh2o refuses bodies itself so much above our own limit; between the two the
 * whole body is read and refused by us, and the connection stays open.
 */
#define BODY_MARGIN ((size_t) 1024 * 1024)

/* Hangs on the socket's on_close. */
typedef struct Connection
{
	HttpClient	client;
	HttpListener listener;		/* that it came to */
	struct ClientCertificate *peer; /* NULL: none */
	HttpRefusal refusal;		/* of the request that was read last */
	HeadQuestion *question;		/* who sends the body of a request whose head is whole; NULL: nobody is asked */
	HeadVerdict verdict;		/* the answer, until the head is judged again */
	h2o_socket_t *asking;		/* the socket, which is not read meanwhile, */
	h2o_socket_cb read;			/* and what the library reads it with */
	LoopTimer	resume;
	size_t		open;			/* requests */
	bool		ending;			/* HTTP/2: to be closed once nothing is open */
	size_t		late;			/* requests that came nevertheless */
	LoopTimer	end;
	uint64_t	head_begun_at;	/* when a head was first seen half read; 0: none is */
	HttpRequest *lingering;		/* its refusal was sent; what the client still sends is thrown away */
} Connection;

struct HttpRequest
{
	HttpAnswer	answer;			/* first: http_answer.c and http_message.c know */
	h2o_generator_t generator;
	h2o_req_t  *req;
	Connection *connection;
	h2o_linklist_t open;		/* in open_requests */
	size_t		held;			/* bytes that the connection holds for it */

	/* A refusal. */
	h2o_ostream_t *refusal;
	size_t		lingered;		/* bytes thrown away */
	LoopTimer	linger;
};

static inline h2o_socket_t *
connection_socket(h2o_req_t *req)
{
	return req->conn->callbacks->get_socket(req->conn);
}

/* --- http.c --- */

extern h2o_globalconf_t http_conf;
extern h2o_context_t http_context;

/* --- http_connection.c --- */

extern void connections_start(void);

/* Makes new connections use the files as they are now. */
extern void connections_reload_tls(void);

/* Closes the sockets of the API; those for health and metrics go on. */
extern void connections_stop_accepting(void);

/* Looks at all connections, about once a second: cuts those whose head takes too long. */
extern void connections_check_heads(uint64_t now);

/* For what close_request() and the end of connections let go; an estimate of what could be given back to the system. */
extern size_t http_freed_bytes;

/*
 * What becomes of a request of HTTP/1, by its head: whether it is refused at once, and what is held for its body.  len:
 * bytes that have come so far.
 */
extern HttpRefusal connection_judge(Connection *connection, HttpHeadOutcome outcome, const HttpHead *head, size_t len);

/* Stops reading until the question that connection_judge() asked is answered. */
extern void connection_suspend(Connection *connection, h2o_socket_t *socket);

/* The peer's certificate may tell who it is; the refusal when it does and there are too many. */
extern HttpRefusal connection_recognize(Connection *connection);

/* Counts and logs a refusal. */
extern void connection_note_refusal(HttpRefusal refusal, const char *method, const char *uri);

/* --- http_h2o.c --- */

/* The name of a header that stands for all header lines of a request of HTTP/1, unread. */
#define HEAD_LINES_NAME ":lines"

/* Milliseconds until one of libh2o's time-outs is due, at most max_wait. */
extern uint64_t h2o_next_due(uint64_t max_wait);

#endif							/* HTTP_H2O_H */
