/*-------------------------------------------------------------------------
 *
 * connection.h
 *	  Connections of clients: TLS and HTTP/2, with limits on the memory that a client can take.
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
	 * The head is complete.  Returns the pointer that the other handlers get as user; NULL: the stream was answered
	 * with stream_finish(), and no other handler is called for it.
	 */
	void	   *(*begun) (Stream *stream);
	void		(*received) (void *user, const char *bytes, size_t len);
	/* The client sends no more. */
	void		(*ended) (void *user);
	/* All bytes of stream_send() are on their way. */
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
	size_t		connections;	/* open at once; clients without a proved credential can have half of them */
	int			streams;		/* open at once on a connection */
} ConnectionLimits;

/* Numbers of connections: open now, and since the start of the process. */
typedef struct ConnectionCounts
{
	size_t		open;
	size_t		strangers;		/* open connections without a proved credential */
	uint64_t	accepted;
	uint64_t	refused;		/* closed because there were too many */
	uint64_t	broken;			/* closed because the client broke a rule, or did not read */
} ConnectionCounts;

/*
 * Begins to accept at a listening socket, which the caller owns.  Call tls_start() before.  The handlers must stay
 * valid.
 */
extern void connections_listen(int fd, const ConnectionLimits *given, const StreamHandlers *handlers);

/* Accepts no more connections, and tells clients to send no more requests (GOAWAY).  Open streams go on. */
extern void connections_stop(void);

/* Closes every connection. */
extern void connections_close(void);

extern ConnectionCounts connections_counts(void);

/* Returns the first value of a header of the request; NULL: none.  It lives as long as the stream. */
extern const char *stream_header(const Stream *stream, const char *name);

/* Reads the headers one by one, in their order; false after the last one.  The caller sets *at to 0 before. */
extern bool stream_next_header(const Stream *stream, size_t *at, const char **name, const char **value);

/* Whether there were too many or too long headers: headers beyond the limit are missing. */
extern bool stream_head_is_large(const Stream *stream);

extern ClientCertificate *stream_peer(const Stream *stream);
extern Arena *stream_arena(Stream *stream);

/* Call when the client of the stream has proved a credential: its connection may stay, and has a larger window. */
extern void stream_trust(Stream *stream);

/* Call when the client has sent a wrong credential.  After several of them, its connection is closed. */
extern void stream_distrust(Stream *stream);

/* Lets the client send so many more bytes on this stream.  When no bytes are taken, the client must stop sending. */
extern void stream_take(Stream *stream, size_t len);

/* Sends bytes, which are copied.  Before the first bytes it sends the headers of the answer. */
extern void stream_send(Stream *stream, const char *bytes, size_t len);

/*
 * Ends the answer with trailers, after the bytes of stream_send().  Then the stream is closed, even if the client wants
 * to send more; only gone() follows.
 */
extern void stream_finish(Stream *stream, const StreamHeader *trailers, size_t count);

#endif							/* GRPC_CONNECTION_H */
