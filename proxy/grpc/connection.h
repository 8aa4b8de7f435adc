/*-------------------------------------------------------------------------
 *
 * connection.h
 *	  Connections of clients: TLS and HTTP/2, with limits on what a client can make the process hold.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GRPC_CONNECTION_H
#define GRPC_CONNECTION_H

#include "engine/base/json.h"
#include "trust/client_certificate.h"

/*
 * A request and its answer.  Valid from begun() to gone(); gone() is called exactly once for each begun(), also when
 * the connection breaks.
 */
typedef struct Stream Stream;

typedef struct StreamHandlers
{
	/*
	 * The head is complete.  Returns what is stored as the user of the stream; NULL: the stream was answered with
	 * stream_finish(), and no other handler is called for it.
	 */
	void	   *(*begun) (Stream *stream);
	void		(*received) (void *user, const char *bytes, size_t len);
	/* The client sends no more. */
	void		(*ended) (void *user);
	/* Everything of stream_send() is on its way. */
	void		(*sent) (void *user);
	void		(*gone) (void *user);
} StreamHandlers;

/* A header of an answer or a trailer; the bytes are copied. */
typedef struct StreamHeader
{
	const char *name;			/* lower case */
	JsonText	value;
} StreamHeader;

typedef struct ConnectionLimits
{
	size_t		connections;	/* open at once; clients that have proved no credential can have half of them */
	int			streams;		/* open at once on a connection */
} ConnectionLimits;

/* What connections have done since the start of the process. */
typedef struct ConnectionCounts
{
	size_t		open;
	size_t		strangers;		/* of these, without a proved credential */
	uint64_t	accepted;
	uint64_t	refused;		/* closed because there were too many */
	uint64_t	broken;			/* closed because of what the client sent or did not read */
} ConnectionCounts;

/*
 * Begins to accept at a listening socket, which stays the caller's.  tls_start() was called.  The handlers stay valid.
 */
extern void connections_listen(int fd, const ConnectionLimits *given, const StreamHandlers *handlers);

/* Accepts no more connections, and tells clients to send no more requests (GOAWAY).  Open streams go on. */
extern void connections_stop(void);

/* Closes every connection. */
extern void connections_close(void);

extern ConnectionCounts connections_counts(void);

/* The value of a header of the request, the first of several; NULL: none.  It lives as long as the stream. */
extern const char *stream_header(const Stream *stream, const char *name);

/* All headers in order: false after the last one.  *at begins with 0. */
extern bool stream_next_header(const Stream *stream, size_t *at, const char **name, const char **value);

/* Whether the headers were too many or too long: those beyond the limit are missing. */
extern bool stream_head_is_large(const Stream *stream);

extern ClientCertificate *stream_peer(const Stream *stream);
extern Arena *stream_arena(Stream *stream);

/* The client of the stream has proved a credential: its connection may stay, and hold more. */
extern void stream_trust(Stream *stream);

/* The client of the stream has shown a wrong credential.  After several of them its connection is closed. */
extern void stream_distrust(Stream *stream);

/* Lets the client send so many bytes more on this stream.  What received() gets and is never taken stops the client. */
extern void stream_take(Stream *stream, size_t len);

/* Sends bytes, which are copied, after headers of the answer if there are none yet. */
extern void stream_send(Stream *stream, const char *bytes, size_t len);

/*
 * Ends the answer with trailers, after what stream_send() got.  Then the stream is closed, even if the client would
 * send more; only gone() follows.
 */
extern void stream_finish(Stream *stream, const StreamHeader *trailers, size_t count);

#endif							/* GRPC_CONNECTION_H */
