/*-------------------------------------------------------------------------
 *
 * http_h2o.h
 *	  Declarations shared by the files that use libh2o.
 *
 * These are http_server.c (requests and the loop), http_connection.c (connections and
 * listening sockets), http_h2o.c (replacements for functions of the library)
 * and loop_socket.c.  No other file includes h2o.h.
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
 * libh2o's limit on bodies is this much above the limit of the proxy.  The proxy reads bodies between the two limits
 * whole, refuses them itself, and keeps the connection open.
 */
#define BODY_MARGIN ((size_t) 1024 * 1024)

/* A connection of a client; the data of the socket's on_close callback. */
typedef struct Connection
{
	HttpClient	client;
	HttpListener listener;		/* the listener that accepted the connection */
	struct ClientCertificate *peer; /* NULL: none */
	HttpRefusal refusal;		/* refusal of the last head */
	HeadQuestion *question;		/* the look-up of the client (ask_head) in progress; NULL: none */
	HeadVerdict verdict;		/* the answer to it, until the head is judged again */
	h2o_socket_t *asking;		/* the socket, from which nothing is read meanwhile */
	h2o_socket_cb read;			/* the library's read callback of that socket */
	LoopTimer	resume;
	size_t		open;			/* number of open requests */
	bool		ending;			/* HTTP/2: closes when no request is open */
	size_t		late;			/* requests that arrived after ending was set */
	LoopTimer	end;
	uint64_t	head_begun_at;	/* when a partial head was first seen; 0: none */
	HttpRequest *lingering;		/* a refused request whose further bytes are discarded */
} Connection;

struct HttpRequest
{
	HttpAnswer	answer;			/* first member: http_answer.c and http_message.c cast */
	h2o_generator_t generator;
	h2o_req_t  *req;
	Connection *connection;
	h2o_linklist_t open;		/* in open_requests */
	size_t		held;			/* bytes held for the request */

	/* For a refusal. */
	h2o_ostream_t *refusal;
	size_t		lingered;		/* bytes discarded */
	uint64_t	linger_until;	/* when the connection is closed at the latest */
	LoopTimer	linger;
};

static inline h2o_socket_t *
connection_socket(h2o_req_t *req)
{
	return req->conn->callbacks->get_socket(req->conn);
}

/* --- http_server.c --- */

extern h2o_globalconf_t http_conf;
extern h2o_context_t http_context;

/* --- http_connection.c --- */

extern void connections_start(void);

/* Makes new connections use the current TLS files and CAs. */
extern void connections_reload_tls(void);

/* Closes the listening sockets of the API.  The sockets for health and metrics stay open. */
extern void connections_stop_accepting(void);

/* Cuts connections whose head takes too long.  Call about once a second. */
extern void connections_check_heads(uint64_t now);

/* Estimate of the bytes that ended requests and connections have freed; malloc_trim() can return them to the system. */
extern size_t http_freed_bytes;

/*
 * Judges an HTTP/1 request by its head: refuses it, or holds room for its head and body.  len: bytes received so far.
 */
extern HttpRefusal connection_judge(Connection *connection, HttpHeadOutcome outcome, const HttpHead *head, size_t len);

/* Stops reading until the question that connection_judge() asked is answered. */
extern void connection_suspend(Connection *connection, h2o_socket_t *socket);

/* Identifies the client by its certificate, if any.  Returns a refusal when too many clients are known. */
extern HttpRefusal connection_recognize(Connection *connection);

/* Counts and logs a refusal. */
extern void connection_note_refusal(HttpRefusal refusal, const char *method, const char *uri);

/* --- http_h2o.c --- */

/* The name of a pseudo header whose value is all header lines of an HTTP/1 request, unparsed. */
#define HEAD_LINES_NAME ":lines"

/* Returns the milliseconds until one of libh2o's time-outs is due, at most max_wait. */
extern uint64_t h2o_next_due(uint64_t max_wait);

#endif							/* HTTP_H2O_H */
