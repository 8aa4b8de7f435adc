/*-------------------------------------------------------------------------
 *
 * http.h
 *	  HTTP requests and answers, without libh2o's types.
 *
 * Only the files behind http_h2o.h know libh2o: the library has no maintained
 * release any more and may have to be replaced.
 *
 * Life of a request: on_request() of the listener's handler is called with
 * the whole body at hand.  It answers at once or later, with http_reply() or
 * with a stream.  An HttpRequest is valid until its on_close function has run;
 * that function runs exactly once, however the request ends: answer sent,
 * stream ended, or client gone.  After it no function here may be called
 * with that request.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_H
#define HTTP_H

#include "base/header.h"
#include "engine/base/arena.h"

typedef struct HttpRequest HttpRequest;

extern const char *http_method(HttpRequest *request);
extern const char *http_path(HttpRequest *request); /* as sent, still percent-encoded, without the query */
extern const char *http_query(HttpRequest *request);	/* as sent, without the ?; "" when there is none */
extern const char *http_header(HttpRequest *request, const char *lower_case_name);	/* first value or NULL */
extern const char *http_body(HttpRequest *request, size_t *len);

/* What the peer proved to have in the TLS handshake (client_certificate.h); NULL for none. */
extern struct ClientCertificate *http_peer(HttpRequest *request);
extern Arena *http_arena(HttpRequest *request); /* freed when the request ends */

/* Every header, in order. */
extern const HttpHeader *http_headers(HttpRequest *request, size_t *count);

/*
 * Makes the request the last of its connection when that speaks HTTP/2: one connection of a client that nobody knows
 * must not carry a flood of requests (AUTHN-08).
 */
extern void http_last_of_http2(HttpRequest *request);

/* The answer, whatever it will be, carries this warning; the text is not copied and has no quotes. */
extern void http_set_warning(HttpRequest *request, const char *text);

/*
 * It is known who sent the request, and so whose the connection is.  False when there are too many of those that are
 * known: the request is to be refused.
 */
extern bool http_recognize(HttpRequest *request);

/* For the access log: what is asked for, and by whom.  All of it is copied. */
typedef struct HttpTarget
{
	const char *verb;			/* as in the audit log */
	const char *group;			/* from here on "" for none */
	const char *version;
	const char *resource;
	const char *subresource;
	const char *namespace_name;
	const char *name;
} HttpTarget;

extern void http_set_target(HttpRequest *request, const HttpTarget *target);
extern void http_set_user(HttpRequest *request, const char *user, const char *const *groups, size_t group_count);

/* Seconds that the request waited for a connection to the database, and that a call of the database took. */
extern void http_add_database_time(HttpRequest *request, double waited, double taken);

/* Whose share of the room for answers is used (answer_room.h); 0 before the user is known. */
extern uint64_t http_user_number(HttpRequest *request);

/* At most one function; set it before anything asynchronous is begun. */
extern void http_on_close(HttpRequest *request, void (*closed) (void *state), void *state);

/*
 * A whole answer.  body is copied.  content-length is set; audit-id, date and cache-control are added when headers do
 * not have them.  HEAD sends no body.  429 and 503 should carry retry-after.
 */
extern void http_reply(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
					   const char *body, size_t len);

/* As http_reply, but the bytes stay the caller's: release(state) is called once they are no longer needed. */
extern void http_reply_borrowed(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
								const char *body, size_t len, void (*release) (void *state), void *state);

/*
 * A chunked answer.  writable(state) is called whenever the client has taken what was sent; one send at a time, never
 * of zero bytes.  The bytes of a send must stay until the next writable() (or on_close).
 */
extern void http_stream_begin(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
							  void (*writable) (void *state), void *state);
extern void http_stream_send(HttpRequest *request, const char *bytes, size_t len);
extern bool http_stream_busy(HttpRequest *request);

/*
 * Frees what is known of the request, but for what the log will say: for a stream that goes on for long, once
 * something of it has been taken.  Afterwards the functions above have no path, no query and no header but
 * user-agent; what was in the arena is gone.
 */
extern void http_forget_request(HttpRequest *request);

/* Ends cleanly; not while a send is in flight. */
extern void http_stream_end(HttpRequest *request);

/* Resets the connection: the client must see that the answer is not whole. */
extern void http_abort(HttpRequest *request);

#endif							/* HTTP_H */
