/*-------------------------------------------------------------------------
 *
 * http_answer.c
 *	  The answer to a request, from its head to its end.
 *
 * An answer may have one send in flight, whose bytes stay valid until the
 * library has taken them.  A send may end its own request.  Therefore the
 * functions of http.h do not send the end of an answer, and do not close a
 * connection: they mark the answer as ready, and the loop continues it.
 *
 *-------------------------------------------------------------------------
 */
#include "http/http_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"

#define SEND_SLICE ((size_t) 256 * 1024)	/* sent at a time; TLS copies these bytes */
#define COPIED_CHUNK ((size_t) 16000)	/* chunks up to this size are copied together, to fit one TLS record */

static uint64_t turn;			/* counts turns of the loop */

/* The queue of ready answers, in the order of ready_in_turn. */
static HttpAnswer *first_ready;
static HttpAnswer *last_ready;

/* http_server.c defines HttpRequest; it begins with an HttpAnswer. */
static HttpAnswer *
http_answer_of(HttpRequest *request)
{
	return (HttpAnswer *) request;
}

/* --- The queue --- */

/* Lets the loop continue an answer. */
static void
make_ready(HttpAnswer *answer)
{
	if (answer->ready)
		return;
	answer->ready = true;
	answer->ready_in_turn = turn;
	answer->ready_previous = last_ready;
	answer->ready_next = NULL;
	if (last_ready != NULL)
		last_ready->ready_next = answer;
	else
		first_ready = answer;
	last_ready = answer;
}

static void
make_unready(HttpAnswer *answer)
{
	if (!answer->ready)
		return;
	answer->ready = false;
	if (answer->ready_previous != NULL)
		answer->ready_previous->ready_next = answer->ready_next;
	else
		first_ready = answer->ready_next;
	if (answer->ready_next != NULL)
		answer->ready_next->ready_previous = answer->ready_previous;
	else
		last_ready = answer->ready_previous;
}

bool
http_answers_ready(void)
{
	return first_ready != NULL;
}

/* Counts the bytes held for an answer.  in_flight: how many of them are in flight, of which TLS holds a copy. */
static void
hold(HttpAnswer *answer, size_t in_flight)
{
	size_t		own = answer->whole_len > 0 ? answer->whole_len : answer->rest_len + in_flight;

	answer_room_hold(&answer->holding, own + in_flight);
}

/* --- Sending --- */

void
http_answer_begin(HttpAnswer *answer, AnswerKind kind, int status, const HttpHeader *headers,
				  size_t header_count, size_t length)
{
	AnswerHead	head;

	http_message_answer(&answer->exchange, status, headers, header_count, length, &head);
	answer->kind = kind;
	answer->holding.user = answer->exchange.user_number;
	http_send_head(answer, &head);
}

static void
send_pieces(HttpAnswer *answer, const HttpPiece *pieces, size_t count, HttpSendState state)
{
	size_t		bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += pieces[i].len;
	hold(answer, bytes);
	answer->in_flight = true;
	answer->last_sent = state != HTTP_SEND_MORE;
	answer->sent_in_turn = turn;
	answer->progress.at = answer->sent_at = loop_now();
	http_send_pieces(answer, pieces, count, state);
}

/* Removes the next slice from the rest and returns it. */
static HttpPiece
next_slice(HttpAnswer *answer)
{
	HttpPiece	slice = {answer->rest, answer->rest_len < SEND_SLICE ? answer->rest_len : SEND_SLICE};

	answer->rest += slice.len;
	answer->rest_len -= slice.len;
	answer->bytes_sent += slice.len;
	return slice;
}

/* Sends a part of a stream, or the first slice of a long part. */
static void
send_part(HttpAnswer *answer)
{
	HttpPiece	slice = next_slice(answer);
	const char *bytes = slice.bytes;
	size_t		len = slice.len;
	size_t		head_len;

	if (!answer->chunked)
	{
		send_pieces(answer, &(HttpPiece) {bytes, len}, 1, HTTP_SEND_MORE);
		return;
	}
	head_len = (size_t) snprintf(answer->chunk_head, CHUNK_HEAD, "%zx\r\n", len);
	if (len <= COPIED_CHUNK)
	{
		answer->chunk = malloc(head_len + len + 2);
		if (answer->chunk == NULL)
			abort();
		memcpy(answer->chunk, answer->chunk_head, head_len);
		memcpy(answer->chunk + head_len, bytes, len);
		memcpy(answer->chunk + head_len + len, "\r\n", 2);
		send_pieces(answer, &(HttpPiece) {answer->chunk, head_len + len + 2}, 1, HTTP_SEND_MORE);
	}
	else
	{
		HttpPiece	pieces[] = {{answer->chunk_head, head_len}, {bytes, len}, {"\r\n", 2}};

		send_pieces(answer, pieces, 3, HTTP_SEND_MORE);
	}
}

static void
send_slice(HttpAnswer *answer)
{
	HttpPiece	slice = next_slice(answer);

	send_pieces(answer, &slice, slice.len > 0 ? 1 : 0, answer->rest_len == 0 ? HTTP_SEND_LAST : HTTP_SEND_MORE);
}

/* Makes a send that fails; then the library closes the connection. */
static void
finish_cut(HttpAnswer *answer)
{
	if (answer->in_flight || answer->last_sent || answer->kind == ANSWER_REFUSAL)
		return;
	if (answer->kind == ANSWER_NONE)
	{
		http_answer_begin(answer, ANSWER_STREAM, 500, NULL, 0, SIZE_MAX);
		/* The client never sees this answer, so the log has none. */
		answer->exchange.status = 0;
	}
	send_pieces(answer, &(HttpPiece) {"\n", 1}, 1, HTTP_SEND_ERROR);
}

/* Sends what is to be sent next.  May free the request. */
static void
continue_answer(HttpAnswer *answer)
{
	if (answer->cut)
		finish_cut(answer);
	else if (answer->in_flight || answer->last_sent)
		return;
	else if (answer->kind == ANSWER_WHOLE)
		send_slice(answer);
	else if (answer->rest_len > 0)
		send_part(answer);
	else if (answer->ending)
		send_pieces(answer, &(HttpPiece) {"0\r\n\r\n", 5}, answer->chunked ? 1 : 0, HTTP_SEND_LAST);
	else
		answer->writable(answer->writable_state);
}

/*
 * Each answer sends once in a turn, so that a client that reads everything at once does not keep the loop from others.
 */
void
http_answer_taken(HttpAnswer *answer)
{
	answer->in_flight = false;
	hold(answer, 0);
	free(answer->chunk);
	answer->chunk = NULL;
	if (!answer->cut && answer->sent_in_turn == turn)
		make_ready(answer);
	else
		continue_answer(answer);
}

void
http_answers_continue(void)
{
	turn++;
	while (first_ready != NULL && first_ready->ready_in_turn < turn)
	{
		HttpAnswer *answer = first_ready;

		make_unready(answer);
		continue_answer(answer);
	}
}

/*
 * The reset makes a send in flight fail at once.  When no send is in flight, the library does not use the socket, so
 * finish_cut() makes a send.  That send also resets an HTTP/2 stream, after its client has taken the bytes in flight.
 */
void
http_answer_cut(HttpAnswer *answer)
{
	if (answer->cut)
		return;
	answer->cut = true;
	http_reset(answer);
	make_ready(answer);
}

void
http_answer_end(HttpAnswer *answer)
{
	make_unready(answer);
	answer_room_hold(&answer->holding, 0);
	if (answer->release != NULL)
		answer->release(answer->release_state);
	if (answer->closed != NULL)
		answer->closed(answer->closed_state);
	free(answer->chunk);
	http_message_end(&answer->exchange, answer->bytes_sent, answer->last_sent && !answer->cut);
}

/* --- The answer, as http.h shows it --- */

void
http_on_close(HttpRequest *request, void (*closed) (void *state), void *state)
{
	HttpAnswer *answer = http_answer_of(request);

	answer->closed = closed;
	answer->closed_state = state;
}

/* Whether an answer may begin.  Logs a second answer, which is an error of the caller. */
static bool
may_answer(HttpAnswer *answer)
{
	if (answer->cut)
		return false;
	if (answer->kind == ANSWER_NONE)
		return true;
	log_line(LOG_ERROR, "a second answer to %s %s was dropped", answer->exchange.method, answer->exchange.uri);
	return false;
}

void
http_reply_borrowed(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
					const char *body, size_t len, void (*release) (void *state), void *state)
{
	HttpAnswer *answer = http_answer_of(request);

	if (!may_answer(answer))
	{
		if (release != NULL)
			release(state);
		return;
	}
	answer->release = release;
	answer->release_state = state;
	http_answer_begin(answer, ANSWER_WHOLE, status, headers, header_count, len);
	answer->rest = body;
	answer->rest_len = answer->exchange.is_head ? 0 : len;
	answer->whole_len = answer->rest_len;
	send_slice(answer);
}

void
http_stream_begin(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
				  void (*writable) (void *state), void *state)
{
	HttpAnswer *answer = http_answer_of(request);

	if (!may_answer(answer))
		return;
	answer->writable = writable;
	answer->writable_state = state;
	http_answer_begin(answer, ANSWER_STREAM, status, headers, header_count, SIZE_MAX);
	/* The answer to HEAD has only headers. */
	if (answer->exchange.is_head)
		http_stream_end(request);
}

void
http_stream_send(HttpRequest *request, const char *bytes, size_t len)
{
	HttpAnswer *answer = http_answer_of(request);

	if (answer->cut || answer->ending)
		return;
	if (answer->kind != ANSWER_STREAM || http_stream_busy(request))
	{
		log_line(LOG_ERROR, "a send on a busy stream: %s %s is cut", answer->exchange.method, answer->exchange.uri);
		http_answer_cut(answer);
		return;
	}
	answer->rest = bytes;
	answer->rest_len = len;
	if (len > 0)
		send_part(answer);
	else
		make_ready(answer);
}

bool
http_stream_busy(HttpRequest *request)
{
	const HttpAnswer *answer = http_answer_of(request);

	return answer->in_flight || answer->ending || answer->cut || answer->ready;
}

void
http_stream_end(HttpRequest *request)
{
	HttpAnswer *answer = http_answer_of(request);

	answer->ending = true;
	if (!answer->in_flight)
		make_ready(answer);
}

void
http_abort(HttpRequest *request)
{
	http_answer_cut(http_answer_of(request));
}
