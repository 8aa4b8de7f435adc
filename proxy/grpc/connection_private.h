/*-------------------------------------------------------------------------
 *
 * connection_private.h
 *	  Shared by connection.c and stream.c: a connection, its streams and its session of libnghttp2.
 *
 * connection.c has the sockets, TLS and time limits; stream.c has the streams
 * and the callbacks of libnghttp2.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GRPC_CONNECTION_PRIVATE_H
#define GRPC_CONNECTION_PRIVATE_H

#include <nghttp2/nghttp2.h>

#include "base/loop.h"
#include "grpc/connection.h"

#define HEAD_BYTES ((size_t) 16 * 1024) /* limit of the names and values of a head together */
#define HEAD_FIELDS 100
#define QUEUED_FRAMES 256		/* limit of frames that wait for the client to read */
#define WINDOW 65535			/* window in bytes of a stream, and of a stranger's connection */

typedef struct Connection Connection;

typedef struct Header
{
	const char *name;
	const char *value;
} Header;

struct Stream
{
	Connection *connection;
	Stream	   *previous;
	Stream	   *next;
	int32_t		id;
	void	   *user;			/* NULL before begun(), or when begun() refused the stream */
	Arena		arena;
	Header		headers[HEAD_FIELDS];
	size_t		header_count;
	size_t		head_bytes;
	bool		large;
	size_t		owed;			/* bytes of the connection's window that were not given back yet */
	size_t		untaken;		/* bytes of the stream's window that were not given back yet */
	char	   *out;			/* bytes of stream_send(), owned */
	size_t		out_len;
	size_t		out_sent;
	size_t		out_size;
	bool		answered;		/* the headers of the answer are submitted */
	bool		finished;		/* stream_finish() was called */
	bool		reset;			/* RST_STREAM is submitted */
	nghttp2_nv *trailers;		/* trailers of stream_finish(), in the arena */
	size_t		trailer_count;
};

struct Connection
{
	Connection *previous;		/* list of all connections, newest last */
	Connection *next;
	int			fd;
	LoopSocket *socket;
	SSL		   *ssl;
	ClientCertificate *peer;
	nghttp2_session *session;	/* NULL during the handshake */
	Stream	   *streams;
	size_t		stream_count;
	bool		trusted;
	bool		going_away;
	bool		broken;			/* to be closed at the end of its turn */
	bool		running;		/* inside run() */
	int			wrong_credentials;
	uint64_t	active_at;		/* when the last stream ended, or the connection began */
	uint64_t	progress_at;	/* when the client last took bytes, or nothing waited */
	char	   *out;			/* frames that OpenSSL has not taken; OUT_BYTES, NULL: none */
	size_t		out_len;
	size_t		out_sent;
	bool		writable_asked;
	LoopTimer	turn;			/* runs the connection soon */
	LoopTimer	watch;			/* checks the time limits */
};

/* ---------- connection.c ---------- */

extern ConnectionCounts connection_counts;

/* Makes the loop run a turn of the connection soon, which sends the frames that handlers have submitted. */
extern void connection_run_soon(Connection *connection);

/* Closes the connection at the end of its turn, without GOAWAY.  why: reason for the log; NULL: nothing is wrong. */
extern void connection_break(Connection *connection, const char *why);

/* ---------- stream.c ---------- */

/* Sets the handlers.  Call once, before the first session. */
extern void streams_start(const StreamHandlers *given);

/* Begins the HTTP/2 session of a connection, with at most so many streams, and submits the settings. */
extern void streams_open(Connection *connection, int most_streams);

/* Ends every stream of a connection that is being closed. */
extern void streams_close(Connection *connection);

#endif							/* GRPC_CONNECTION_PRIVATE_H */
