/*-------------------------------------------------------------------------
 *
 * http_answer.h
 *	  The answer to a request, from its head to its end.
 *
 * This part of an HttpRequest decides which bytes are sent next.  http_server.c,
 * which uses the library, sends them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_ANSWER_H
#define HTTP_ANSWER_H

#include "http/http_message.h"
#include "base/answer_room.h"
#include "base/sockets.h"

#define CHUNK_HEAD 20			/* room for the length of a chunk */

typedef enum AnswerKind
{
	ANSWER_NONE,				/* no answer yet */
	ANSWER_WHOLE,
	ANSWER_STREAM,
	ANSWER_REFUSAL				/* the library refused the request before the handler saw it */
} AnswerKind;

/* The first member of every HttpRequest. */
typedef struct HttpAnswer
{
	HttpMessage exchange;		/* first member: http_message.c casts */
	AnswerKind	kind;
	bool		in_flight;		/* the library has bytes of a send */
	bool		last_sent;		/* that send was the last one */
	bool		chunked;		/* set by http_send_head() */
	bool		ending;			/* the stream's owner has nothing more to send */
	bool		cut;			/* the connection was reset */
	size_t		bytes_sent;		/* bytes of the body, without framing */
	uint64_t	sent_in_turn;
	SocketProgress progress;
	uint64_t	sent_at;		/* when the send in flight began, in milliseconds */
	AnswerHolding holding;		/* bytes held for the answer, with TLS's copy of the bytes in flight */

	/* The queue of answers that the loop continues. */
	bool		ready;
	uint64_t	ready_in_turn;
	struct HttpAnswer *ready_previous;
	struct HttpAnswer *ready_next;

	const char *rest;			/* the unsent rest of a whole answer or of a part of a stream */
	size_t		rest_len;
	size_t		whole_len;		/* length of a whole answer, held until its end; else 0 */
	void		(*release) (void *state);
	void	   *release_state;
	void		(*writable) (void *state);
	void	   *writable_state;
	void		(*closed) (void *state);
	void	   *closed_state;
	char		chunk_head[CHUNK_HEAD];
	char	   *chunk;			/* malloc'ed: the small chunk in flight */
} HttpAnswer;

/* Sets status and headers; length is SIZE_MAX when unknown. */
extern void http_answer_begin(HttpAnswer *answer, AnswerKind kind, int status, const HttpHeader *headers,
							  size_t header_count,
							  size_t length);

/* Call when the library took the bytes of a send, or failed to send them.  May free the request. */
extern void http_answer_taken(HttpAnswer *answer);

/* Resets the connection; then the loop ends the request. */
extern void http_answer_cut(HttpAnswer *answer);

/* Call at the end of the request: runs release() and closed(), frees everything. */
extern void http_answer_end(HttpAnswer *answer);

/* For the loop: begins a turn and continues the answers that became ready before it. */
extern void http_answers_continue(void);
extern bool http_answers_ready(void);

/* --- Implemented by http_server.c --- */

typedef struct HttpPiece
{
	const char *bytes;
	size_t		len;
} HttpPiece;

#define MAX_PIECES 3

typedef enum HttpSendState
{
	HTTP_SEND_MORE,
	HTTP_SEND_LAST,
	HTTP_SEND_ERROR				/* the send fails, and the library closes the connection */
} HttpSendState;

/* Gives the head to the library, which sends it with the first bytes. */
extern void http_send_head(HttpAnswer *answer, const AnswerHead *head);

/* Gives up to MAX_PIECES pieces to the library.  May free the request when they are the last ones. */
extern void http_send_pieces(HttpAnswer *answer, const HttpPiece *pieces, size_t count, HttpSendState state);

/*
 * Makes the peer see a reset; the connection is not used again.  On HTTP/2 it does nothing: a send of HTTP_SEND_ERROR
 * resets the stream.
 */
extern void http_reset(HttpAnswer *answer);

#endif							/* HTTP_ANSWER_H */
