/*-------------------------------------------------------------------------
 *
 * http_answer.h
 *	  The answer to a request, from its head to its end.
 *
 * The part of an HttpRequest that decides what is sent next.  http.c, which
 * knows the library, sends it.
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
	ANSWER_NONE,				/* not yet */
	ANSWER_WHOLE,
	ANSWER_STREAM,
	ANSWER_REFUSAL				/* the library refused the request before the handler saw it */
} AnswerKind;

/* The first member of every HttpRequest. */
typedef struct HttpAnswer
{
	HttpMessage exchange;		/* first: http_message.c knows */
	AnswerKind	kind;
	bool		in_flight;		/* the library has a send of ours */
	bool		last_sent;		/* and it was the last */
	bool		chunked;		/* http_send_head() decides */
	bool		ending;			/* the stream's owner has nothing more to send */
	bool		cut;			/* the connection was reset */
	size_t		bytes_sent;		/* of the body, without framing */
	uint64_t	sent_in_turn;
	SocketProgress progress;
	uint64_t	sent_at;		/* milliseconds: when the send in flight began */
	AnswerHolding holding;		/* bytes that are held for it, with the copy that TLS makes of what is in flight */

	/* Answers that the loop continues. */
	bool		ready;
	uint64_t	ready_in_turn;
	struct HttpAnswer *ready_previous;
	struct HttpAnswer *ready_next;

	const char *rest;			/* of a whole answer, or of a part of a stream: what is still to be sent */
	size_t		rest_len;
	size_t		whole_len;		/* of a whole answer, which stays until its end; else 0 */
	void		(*release) (void *state);
	void	   *release_state;
	void		(*writable) (void *state);
	void	   *writable_state;
	void		(*closed) (void *state);
	void	   *closed_state;
	char		chunk_head[CHUNK_HEAD];
	char	   *chunk;			/* malloc'ed: the small chunk in flight */
} HttpAnswer;

/* Settles status and headers; length is SIZE_MAX when it is not known. */
extern void http_answer_begin(HttpAnswer *answer, AnswerKind kind, int status, const HttpHeader *headers,
							  size_t header_count,
							  size_t length);

/* The library took what was sent, or failed to send it.  The request may be gone afterwards. */
extern void http_answer_taken(HttpAnswer *answer);

/* Resets the connection; the loop ends the request. */
extern void http_answer_cut(HttpAnswer *answer);

/* The request is gone: tells its owners, frees what it holds. */
extern void http_answer_end(HttpAnswer *answer);

/* For the loop: begins a turn and continues the answers that became ready before it. */
extern void http_answers_continue(void);
extern bool http_answers_ready(void);

/* --- What http.c does with the library --- */

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
	HTTP_SEND_ERROR				/* fails, and closes the connection */
} HttpSendState;

/* Hands over the head; it goes out with the first bytes that are sent. */
extern void http_send_head(HttpAnswer *answer, const AnswerHead *head);

/* Hands over up to MAX_PIECES pieces.  When they are the last, the request may be gone afterwards. */
extern void http_send_pieces(HttpAnswer *answer, const HttpPiece *pieces, size_t count, HttpSendState state);

/*
 * Makes the peer see a reset; the connection will not be used again.  Where an answer is a stream among others, a
 * send of HTTP_SEND_ERROR does it.
 */
extern void http_reset(HttpAnswer *answer);

#endif							/* HTTP_ANSWER_H */
