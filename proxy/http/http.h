/*-------------------------------------------------------------------------
 *
 * http.h
 *	  HTTP requests and answers, without libh2o's types.
 *
 * Only the files that include http_h2o.h use libh2o: the library has no
 * maintained release any more, and may have to be replaced.
 *
 * Life of a request: the listener calls on_request() when it has the whole
 * body.  The handler answers at once or later, with http_reply() or with a
 * stream.  An HttpRequest is valid until its on_close function has run.  That
 * function runs exactly once, however the request ends: answer sent, stream
 * ended, or client gone.  After that, no function here may be called with the
 * request.
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

/* Returns the first value of a header; NULL when the request does not have the header. */
extern const char *http_header(HttpRequest *request, const char *lower_case_name);
extern const char *http_body(HttpRequest *request, size_t *len);

/* Returns the certificate that the peer proved to own in the TLS handshake (client_certificate.h); NULL for none. */
extern struct ClientCertificate *http_peer(HttpRequest *request);
extern Arena *http_arena(HttpRequest *request); /* freed when the request ends */

/* Returns all headers in their order, an array of *count elements. */
extern const HttpHeader *http_headers(HttpRequest *request, size_t *count);

/*
 * On HTTP/2, makes this request the last one of its connection, because an unknown client must not send a flood of
 * requests on one connection (AUTHN-08).  On HTTP/1 it does nothing.
 */
extern void http_last_of_http2(HttpRequest *request);

/* Adds a header warning to every kind of answer.  The text is not copied and must not contain quotes. */
extern void http_set_warning(HttpRequest *request, const char *text);

/* Marks the client of the connection as known.  False when too many clients are known: then refuse the request. */
extern bool http_recognize(HttpRequest *request);

/*
 * Counts further bytes as held for the request until it ends: the bytes of its unpacked body.  False when there is no
 * room beside the bytes that are held for other requests: then refuse the request.
 */
extern bool http_hold(HttpRequest *request, size_t bytes);

/* The target and the user of a request, for the access log.  Both are copied. */
typedef struct HttpTarget
{
	const char *verb;			/* as in the audit log */
	const char *group;			/* "" for none, as in the members below */
	const char *version;
	const char *resource;
	const char *subresource;
	const char *namespace_name;
	const char *name;
} HttpTarget;

extern void http_set_target(HttpRequest *request, const HttpTarget *target);
extern void http_set_user(HttpRequest *request, const char *user, const char *const *groups, size_t group_count);

/* Adds seconds to the two times in the log line: of waits for a database connection, and of database calls. */
extern void http_add_database_time(HttpRequest *request, double waited, double taken);

/* Returns the number of the user for the room for answers (answer_room.h); 0 before the user is known. */
extern uint64_t http_user_number(HttpRequest *request);

/* Sets the function that is called when the request ends.  Call before anything asynchronous begins, and only once. */
extern void http_on_close(HttpRequest *request, void (*closed) (void *state), void *state);

/*
 * Sends a whole answer.  body is copied.  content-length is set; audit-id, date and cache-control are added when
 * headers lack them.  The answer to HEAD has no body.  429 and 503 should have retry-after.
 */
extern void http_reply(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
					   const char *body, size_t len);

/* As http_reply(), but the bytes are not copied: release(state) is called when they are no longer needed. */
extern void http_reply_borrowed(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
								const char *body, size_t len, void (*release) (void *state), void *state);

/*
 * Begins a chunked answer.  writable(state) is called whenever the client has taken the last send.  Only one send may
 * be in flight, never of zero bytes.  The bytes of a send must stay valid until the next writable() (or on_close).
 */
extern void http_stream_begin(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
							  void (*writable) (void *state), void *state);
extern void http_stream_send(HttpRequest *request, const char *bytes, size_t len);
extern bool http_stream_busy(HttpRequest *request);

/*
 * Frees the memory of the request, except the texts for the log.  Call for a long stream, after the client has taken a
 * part of it.  Afterwards the functions above return no path, no query and no header except user-agent, and the old
 * contents of the arena are gone.
 */
extern void http_forget_request(HttpRequest *request);

/* Ends the stream cleanly.  Do not call while a send is in flight. */
extern void http_stream_end(HttpRequest *request);

/* Resets the connection, so that the client sees that the answer is incomplete. */
extern void http_abort(HttpRequest *request);

#endif							/* HTTP_H */
