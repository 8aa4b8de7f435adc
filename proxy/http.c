/*-------------------------------------------------------------------------
 *
 * http.c
 *	  HTTP server and event loop of a worker, on libh2o 2.2.5.
 *
 * The only file that includes h2o.h.  What it has to know about that version:
 *
 * - One send may be in flight for each request, never of zero bytes, and its
 *	 bytes must stay until libh2o asks for more.
 * - Of a connection with an open answer nothing is read, so that a client that
 *	 went away is not noticed: sweep() looks once a second.
 * - There is no time-out for writing: sweep() again.
 * - It would write a TLS record for each piece of a chunk, and chunks only with
 *	 code 200: the chunks are made here.
 * - The answers that libh2o makes itself are plain text, and the connection is
 *	 closed while the client may still be sending: a filter on the fallback
 *	 path turns them into Status documents and lingers a while.
 * - libh2o's time-outs follow the wall clock, and one of its functions may end
 *	 the request it is called for.  So no function of http.h sends the end of
 *	 an answer or closes anything before it returns: such requests become
 *	 "ready" and are continued from the loop.
 *
 * A request lives until the destructor of libh2o's request pool runs; that is
 * the one place where on_close functions are called.
 *
 *-------------------------------------------------------------------------
 */

#include "http.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>

#include <h2o.h>
#include <h2o/http1.h>

#include "config.h"
#include "http_exchange.h"
#include "log.h"
#include "loop.h"
#include "metrics.h"
#include "server.h"
#include "sockets.h"
#include "tls.h"

/* All in milliseconds. */
#define TICK_INTERVAL 1000
#define IDLE_TIMEOUT (120 * 1000)	/* keep-alive, and the time to send a whole request; Go keeps connections for 90 s */
#define WRITE_TIMEOUT (120 * 1000)	/* a client that takes nothing for so long is cut */
#define HANDSHAKE_TIMEOUT (10 * 1000)
#define LINGER_TIMEOUT (5 * 1000)
#define ACCEPT_PAUSE 500		/* when there are no descriptors left */
#define LEAST_DRAIN_TIME 500	/* for connections that were accepted last */
#define DRAIN_STEP 100			/* how often is looked whether all is done */
#define TRIM_INTERVAL (5 * 1000)

#define MAX_LISTENERS 8
#define ACCEPT_BATCH 32			/* connections accepted in one turn of the loop */
#define LINGER_BYTES ((size_t) 64 * 1024 * 1024)
#define SEND_SLICE ((size_t) 256 * 1024)	/* of a whole answer; TLS copies what is sent */
#define COPIED_CHUNK ((size_t) 16000)	/* chunks up to here are put together, to fit one TLS record */
#define CHUNK_HEAD 20			/* room for the length of a chunk */
#define FREED_BYTES ((size_t) 4 * 1024 * 1024)	/* after so much was let go, free memory is given back to the system */
#define CONNECTION_BYTES ((size_t) 32 * 1024)	/* what the end of a connection counts for that */

/*
 * libh2o refuses bodies itself so much above our own limit; between the two the
 * whole body is read and refused by us, and the connection stays open.
 */
#define BODY_MARGIN ((size_t) 1024 * 1024)

/* libh2o makes small TLS records for the first 200 KB of a connection; this count of bytes "sent" makes them large at once. */
#define LARGE_RECORDS_FROM ((size_t) 1024 * 1024)

typedef struct Listener
{
	HttpListener config;
	h2o_socket_t *socket;		/* NULL when closed */
	h2o_accept_ctx_t accept;
	LoopTimer	pause;
} Listener;

/* Hangs on the socket's on_close. */
typedef struct Connection
{
	const Listener *listener;
	HttpPeer	peer;
	HttpRequest *lingering;		/* its refusal was sent; what the client still sends is thrown away */
} Connection;

typedef enum AnswerKind
{
	ANSWER_NONE,				/* not yet */
	ANSWER_WHOLE,
	ANSWER_STREAM,
	ANSWER_REFUSAL				/* libh2o refused the request before the handler saw it */
} AnswerKind;

struct HttpRequest
{
	HttpExchange exchange;		/* first: http_exchange.c knows */
	h2o_generator_t generator;
	h2o_req_t  *req;
	Connection *connection;
	h2o_linklist_t open;		/* in open_requests */
	h2o_linklist_t ready;		/* in ready_requests */

	void		(*closed) (void *state);
	void	   *closed_state;

	/* The answer. */
	AnswerKind	answer;
	bool		in_flight;		/* libh2o has a send of ours */
	bool		last_sent;		/* and it was the last */
	bool		chunked;
	bool		ending;			/* the stream's owner has nothing more to send */
	bool		cut;			/* the connection was reset */
	size_t		bytes_sent;		/* of the body, without framing */
	uint64_t	sent_in_turn;
	SocketProgress progress;
	const char *rest;			/* of a whole answer: what is still to be sent */
	size_t		rest_len;
	void		(*release) (void *state);
	void	   *release_state;
	void		(*writable) (void *state);
	void	   *writable_state;
	char		chunk_head[CHUNK_HEAD];
	char	   *chunk;			/* malloc'ed: the small chunk in flight */

	/* A refusal. */
	h2o_ostream_t *refusal;
	size_t		lingered;		/* bytes thrown away */
	LoopTimer	linger;
};

struct LoopSocket
{
	h2o_socket_t *socket;
	void		(*readable) (void *state);
	void		(*writable) (void *state);
	void	   *state;
};

typedef struct RefusalStream
{
	h2o_ostream_t super;
	HttpRequest *request;
	h2o_iovec_t body;
	bool		sent;
} RefusalStream;

static h2o_globalconf_t conf;
static h2o_context_t context;
static Listener listeners[MAX_LISTENERS];
static size_t listener_count;

static h2o_linklist_t open_requests;
static size_t open_count;
static h2o_linklist_t ready_requests;
static uint64_t turn;			/* of the loop, counted */
static bool stopping;
static uint64_t stopped_at;
static bool exiting;
static size_t freed_bytes;		/* since memory was last given back; an estimate */

static void resume_accepting(void *state);
static void on_proceed(h2o_generator_t *self, h2o_req_t *req);
static void continue_answer(HttpRequest *request);
static void cut_connection(HttpRequest *request);
static void finish_cut(HttpRequest *request);

static h2o_socket_t *
request_socket(HttpRequest *request)
{
	return request->req->conn->callbacks->get_socket(request->req->conn);
}

static int
request_fd(HttpRequest *request)
{
	return h2o_socket_get_fd(request_socket(request));
}

/* Lets the loop continue a request. */
static void
make_ready(HttpRequest *request)
{
	if (!h2o_linklist_is_linked(&request->ready))
		h2o_linklist_insert(&ready_requests, &request->ready);
}

/* --- Requests --- */

/* Runs when libh2o is done with a request, however it ended. */
static void
close_request(void *pointer)
{
	HttpRequest *request = pointer;

	h2o_linklist_unlink(&request->open);
	open_count--;
	if (h2o_linklist_is_linked(&request->ready))
		h2o_linklist_unlink(&request->ready);
	loop_timer_stop(&request->linger);
	if (request->connection->lingering == request)
		request->connection->lingering = NULL;
	freed_bytes += request->req->entity.len + request->bytes_sent;
	if (request->release != NULL)
		request->release(request->release_state);
	if (request->closed != NULL)
		request->closed(request->closed_state);
	free(request->chunk);
	http_exchange_end(&request->exchange, request->bytes_sent, request->last_sent && !request->cut);
}

static HttpRequest *
new_request(h2o_req_t *req)
{
	HttpRequest *request = h2o_mem_alloc_shared(&req->pool, sizeof(*request), close_request);
	HttpExchange *exchange = &request->exchange;

	memset(request, 0, sizeof(*request));
	request->req = req;
	request->connection = request_socket(request)->on_close.data;
	request->generator.proceed = on_proceed;
	h2o_linklist_insert(&open_requests, &request->open);
	open_count++;
	/* Two more than in the list: libh2o keeps these apart. */
	http_exchange_init(exchange, req->input.method.base, req->input.method.len, req->input.path.base, req->input.path.len,
					   req->headers.size + 2);
	if (req->input.authority.base != NULL)
		http_exchange_add_header(exchange, "host", 4, req->input.authority.base, req->input.authority.len);
	if (req->upgrade.base != NULL)
		http_exchange_add_header(exchange, "upgrade", 7, req->upgrade.base, req->upgrade.len);
	for (size_t i = 0; i < req->headers.size; i++)
	{
		const h2o_header_t *header = &req->headers.entries[i];

		http_exchange_add_header(exchange, header->name->base, header->name->len, header->value.base, header->value.len);
	}
	http_exchange_ready(exchange);
	return request;
}

const char *
http_body(HttpRequest *request, size_t *len)
{
	*len = request->req->entity.len;
	return *len > 0 ? request->req->entity.base : "";
}

const HttpPeer *
http_peer(HttpRequest *request)
{
	return &request->connection->peer;
}

void
http_on_close(HttpRequest *request, void (*closed) (void *state), void *state)
{
	request->closed = closed;
	request->closed_state = state;
}

/* --- Answers --- */

/* Sets status and headers; length is SIZE_MAX when it is not known.  The headers go out with the first bytes that are sent. */
static void
begin_answer(HttpRequest *request, AnswerKind kind, int status, const HttpHeader *headers, size_t header_count, size_t length)
{
	h2o_req_t  *req = request->req;
	AnswerHead	head;

	http_exchange_answer(&request->exchange, status, headers, header_count, length, &head);
	request->answer = kind;
	req->res.status = status;
	req->res.reason = head.reason;
	req->res.content_length = head.length;
	for (size_t i = 0; i < head.header_count; i++)
	{
		const HttpHeader *header = &head.headers[i];

		h2o_add_header_by_str(&req->pool, &req->res.headers, header->name, strlen(header->name), 1, NULL,
							  header->value, strlen(header->value));
	}
	if (kind == ANSWER_STREAM && head.length == SIZE_MAX && status != 204 && status != 304)
	{
		/* With this header libh2o leaves the body alone; the answer to HEAD has the header and no chunk. */
		if (req->version >= 0x101)
			h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_TRANSFER_ENCODING, NULL, H2O_STRLIT("chunked"));
		else if (!request->exchange.is_head)
			/* Only the end of the connection tells the end of the answer. */
			req->http1_is_persistent = 0;
		request->chunked = req->version >= 0x101 && !request->exchange.is_head;
	}
	if (head.close || stopping)
		req->http1_is_persistent = 0;
	if (kind != ANSWER_REFUSAL)
		h2o_start_response(req, &request->generator);
}

/* Hands pieces to libh2o.  When they are the last, the request may be gone afterwards. */
static void
send_pieces(HttpRequest *request, h2o_iovec_t *pieces, size_t count, h2o_send_state_t state)
{
	request->in_flight = true;
	request->last_sent = state != H2O_SEND_STATE_IN_PROGRESS;
	request->sent_in_turn = turn;
	request->progress.at = loop_now();
	h2o_send(request->req, pieces, count, state);
}

/* Sends a part of a stream. */
static void
send_part(HttpRequest *request, const char *bytes, size_t len)
{
	h2o_iovec_t pieces[3] = {{.base = (char *) bytes, .len = len}};
	size_t		count = 1;

	request->bytes_sent += len;
	if (request->chunked)
	{
		size_t		head_len = (size_t) snprintf(request->chunk_head, CHUNK_HEAD, "%zx\r\n", len);

		if (len <= COPIED_CHUNK)
		{
			request->chunk = h2o_mem_alloc(head_len + len + 2);
			memcpy(request->chunk, request->chunk_head, head_len);
			memcpy(request->chunk + head_len, bytes, len);
			memcpy(request->chunk + head_len + len, "\r\n", 2);
			pieces[0] = h2o_iovec_init(request->chunk, head_len + len + 2);
		}
		else
		{
			pieces[0] = h2o_iovec_init(request->chunk_head, head_len);
			pieces[1] = h2o_iovec_init(bytes, len);
			pieces[2] = h2o_iovec_init("\r\n", 2);
			count = 3;
		}
	}
	send_pieces(request, pieces, count, H2O_SEND_STATE_IN_PROGRESS);
}

/* Ends a stream.  The request may be gone afterwards. */
static void
send_end(HttpRequest *request)
{
	h2o_iovec_t end = h2o_iovec_init(H2O_STRLIT("0\r\n\r\n"));

	send_pieces(request, &end, request->chunked ? 1 : 0, H2O_SEND_STATE_FINAL);
}

static void
send_slice(HttpRequest *request)
{
	size_t		len = request->rest_len < SEND_SLICE ? request->rest_len : SEND_SLICE;
	h2o_iovec_t slice = h2o_iovec_init(request->rest, len);

	request->rest += len;
	request->rest_len -= len;
	request->bytes_sent += len;
	send_pieces(request, &slice, len > 0 ? 1 : 0, request->rest_len == 0 ? H2O_SEND_STATE_FINAL : H2O_SEND_STATE_IN_PROGRESS);
}

/*
 * libh2o calls this when what was sent has been taken.  A client that takes
 * everything at once must not keep the loop from others, so that each request
 * sends once in a turn.
 */
static void
on_proceed(h2o_generator_t *self, h2o_req_t *req)
{
	HttpRequest *request = H2O_STRUCT_FROM_MEMBER(HttpRequest, generator, self);

	request->in_flight = false;
	free(request->chunk);
	request->chunk = NULL;
	if (request->cut)
		finish_cut(request);
	else if (request->sent_in_turn == turn)
		make_ready(request);
	else
		continue_answer(request);
}

/* The request may be gone afterwards. */
static void
continue_answer(HttpRequest *request)
{
	if (request->in_flight || request->last_sent)
		return;
	if (request->answer == ANSWER_WHOLE)
		send_slice(request);
	else if (request->ending)
		send_end(request);
	else
		request->writable(request->writable_state);
}

static void
run_ready(void)
{
	h2o_linklist_t batch;

	h2o_linklist_init_anchor(&batch);
	h2o_linklist_insert_list(&batch, &ready_requests);
	while (!h2o_linklist_is_empty(&batch))
	{
		HttpRequest *request = H2O_STRUCT_FROM_MEMBER(HttpRequest, ready, batch.next);

		h2o_linklist_unlink(&request->ready);
		if (request->cut)
			finish_cut(request);
		else
			continue_answer(request);
	}
}

/* True when an answer may begin; says so in the log when the caller is at fault. */
static bool
may_answer(HttpRequest *request)
{
	if (request->cut)
		return false;
	if (request->answer == ANSWER_NONE)
		return true;
	log_line(LOG_ERROR, "a second answer to %s %s was dropped", http_method(request), request->exchange.uri);
	return false;
}

void
http_reply_borrowed(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
					const char *body, size_t len, void (*release) (void *state), void *state)
{
	if (!may_answer(request))
	{
		if (release != NULL)
			release(state);
		return;
	}
	request->release = release;
	request->release_state = state;
	begin_answer(request, ANSWER_WHOLE, status, headers, header_count, len);
	request->rest = body;
	request->rest_len = request->exchange.is_head ? 0 : len;
	send_slice(request);
}

/* Makes a text of the request follow when the input moves. */
static void
follow(h2o_iovec_t *text, const h2o_buffer_t *from, h2o_buffer_t *to)
{
	if (text->base >= from->bytes && text->base < from->bytes + from->size)
		text->base = to->bytes + (text->base - from->bytes);
}

/*
 * libh2o keeps the input buffer of 8 KB as long as the answer is open, which
 * is long for a watch: what is in it moves to a buffer of its size.
 */
static void
shrink_input(HttpRequest *request)
{
	h2o_req_t  *req = request->req;
	h2o_buffer_t **input = &request_socket(request)->input;
	h2o_buffer_t *old = *input;
	h2o_buffer_t *small;

	if (req->entity.base != NULL || old->bytes == NULL || old->size > old->capacity / 2)
		return;
	small = h2o_mem_alloc(sizeof(*small) + old->size);
	small->capacity = old->size;
	small->size = old->size;
	small->bytes = small->_buf;
	small->_prototype = old->_prototype;
	small->_fd = -1;
	memcpy(small->bytes, old->bytes, old->size);
	follow(&req->input.method, old, small);
	follow(&req->input.path, old, small);
	follow(&req->input.authority, old, small);
	follow(&req->method, old, small);
	follow(&req->path, old, small);
	follow(&req->path_normalized, old, small);
	follow(&req->authority, old, small);
	follow(&req->upgrade, old, small);
	for (size_t i = 0; i < req->headers.size; i++)
	{
		if (!h2o_iovec_is_token(req->headers.entries[i].name))
			follow(req->headers.entries[i].name, old, small);
		follow(&req->headers.entries[i].value, old, small);
	}
	*input = small;
	h2o_buffer__do_free(old);
}

void
http_stream_begin(HttpRequest *request, int status, const HttpHeader *headers, size_t header_count,
				  void (*writable) (void *state), void *state)
{
	if (!may_answer(request))
		return;
	request->writable = writable;
	request->writable_state = state;
	begin_answer(request, ANSWER_STREAM, status, headers, header_count, SIZE_MAX);
	shrink_input(request);
	/* The headers are the whole answer to HEAD, however long the stream would have been. */
	if (request->exchange.is_head)
		http_stream_end(request);
}

void
http_stream_send(HttpRequest *request, const char *bytes, size_t len)
{
	if (request->cut || request->ending)
		return;
	if (request->answer != ANSWER_STREAM || http_stream_busy(request))
	{
		log_line(LOG_ERROR, "a send on a busy stream: %s %s is cut", http_method(request), request->exchange.uri);
		cut_connection(request);
		return;
	}
	if (len > 0)
		send_part(request, bytes, len);
	else
		make_ready(request);
}

bool
http_stream_busy(HttpRequest *request)
{
	return request->in_flight || request->ending || request->cut || h2o_linklist_is_linked(&request->ready);
}

void
http_stream_end(HttpRequest *request)
{
	request->ending = true;
	if (!request->in_flight)
		make_ready(request);
}

void
http_abort(HttpRequest *request)
{
	cut_connection(request);
}

/*
 * Resets the connection.  A send in flight fails at once; when there is none,
 * libh2o does not look at the socket, and finish_cut() makes it.
 */
static void
cut_connection(HttpRequest *request)
{
	if (request->cut)
		return;
	request->cut = true;
	request->req->http1_is_persistent = 0;
	socket_reset(request_fd(request));
	make_ready(request);
}

/* Sends what can only fail, after which libh2o closes the connection. */
static void
finish_cut(HttpRequest *request)
{
	h2o_iovec_t nothing = h2o_iovec_init(H2O_STRLIT("\n"));

	if (request->in_flight || request->last_sent || request->answer == ANSWER_REFUSAL)
		return;
	if (request->answer == ANSWER_NONE)
	{
		begin_answer(request, ANSWER_STREAM, 500, NULL, 0, SIZE_MAX);
		/* Nobody sees this one: for the log there was no answer. */
		request->exchange.status = 0;
	}
	send_pieces(request, &nothing, 1, H2O_SEND_STATE_ERROR);
}

/* --- Refusals --- */

static void
finish_linger(void *state)
{
	HttpRequest *request = state;

	loop_timer_stop(&request->linger);
	request->connection->lingering = NULL;
	h2o_socket_read_stop(request_socket(request));
	h2o_ostream_send_next(request->refusal, request->req, NULL, 0, H2O_SEND_STATE_FINAL);
}

static void
on_linger_read(h2o_socket_t *socket, const char *err)
{
	Connection *connection = socket->on_close.data;
	HttpRequest *request = connection->lingering;

	request->lingered += socket->input->size;
	if (err != NULL || request->lingered > LINGER_BYTES)
		finish_linger(request);
	else
		h2o_buffer_consume(&socket->input, socket->input->size);
}

/*
 * Sends our text in place of libh2o's.  A connection that is to be closed is
 * kept for a while and read from: closing it with bytes unread would reset it,
 * and the client might lose the answer.  Called a second time when the text
 * has been taken.
 */
static void
send_refusal(h2o_ostream_t *self, h2o_req_t *req, h2o_iovec_t *bufs, size_t count, h2o_send_state_t state)
{
	RefusalStream *stream = (RefusalStream *) self;
	HttpRequest *request = stream->request;

	if (!stream->sent)
	{
		bool		last = request->exchange.is_head || req->http1_is_persistent;

		stream->sent = true;
		request->last_sent = last;
		request->bytes_sent = request->exchange.is_head ? 0 : stream->body.len;
		h2o_ostream_send_next(self, req, &stream->body, request->exchange.is_head ? 0 : 1,
							  last ? H2O_SEND_STATE_FINAL : H2O_SEND_STATE_IN_PROGRESS);
		return;
	}
	request->last_sent = true;
	request->connection->lingering = request;
	loop_timer_start(&request->linger, LINGER_TIMEOUT, finish_linger, request);
	h2o_socket_read_start(request_socket(request), on_linger_read);
}

static void
refuse(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot)
{
	HttpRequest *request = new_request(req);
	RefusalStream *stream = (RefusalStream *) h2o_add_ostream(req, sizeof(RefusalStream), slot);
	HttpHeader	type = {"content-type", "application/json"};
	int			status = req->res.status;

	stream->super.do_send = send_refusal;
	stream->request = request;
	stream->body.base = (char *) http_exchange_refusal(&request->exchange, status, &stream->body.len);
	stream->sent = false;
	request->refusal = &stream->super;
	memset(&req->res.headers, 0, sizeof(req->res.headers));
	begin_answer(request, ANSWER_REFUSAL, status, &type, 1, stream->body.len);
	metrics_request("", "", "", "", status, http_exchange_seconds(&request->exchange));
	h2o_setup_next_ostream(req, &stream->super.next);
}

/* Refuses what libh2o accepts and we do not. */
static void
reply_status(HttpRequest *request, int status)
{
	HttpHeader	type = {"content-type", "application/json"};
	size_t		len;
	const char *text = http_exchange_refusal(&request->exchange, status, &len);

	http_reply_borrowed(request, status, &type, 1, text, len, NULL, NULL);
	metrics_request("", "", "", "", status, http_exchange_seconds(&request->exchange));
}

static int
on_request(h2o_handler_t *self, h2o_req_t *req)
{
	HttpRequest *request = new_request(req);

	/* A folded header line, obsolete and a way to smuggle, has no name. */
	if (http_header(request, "") != NULL)
		reply_status(request, 400);
	else if (req->entity.len > config.max_request_body_bytes)
		reply_status(request, 413);
	else
		request->connection->listener->config.on_request(request);
	return 0;
}

/* --- Connections --- */

static void
close_connection(void *pointer)
{
	Connection *connection = pointer;

	tls_peer_clear(&connection->peer);
	free(connection);
	freed_bytes += CONNECTION_BYTES;
	metrics_gauge_add(GAUGE_CONNECTIONS, -1);
}

static HttpPeer *
connection_peer(void *bio_data)
{
	h2o_socket_t *socket = bio_data;
	Connection *connection = socket->on_close.data;

	return &connection->peer;
}

/* Accepts one connection; false when there is none. */
static bool
accept_one(Listener *listener)
{
	h2o_socket_t *socket = h2o_evloop_socket_accept(listener->socket);
	Connection *connection;

	if (socket == NULL)
		return false;
	connection = h2o_mem_alloc(sizeof(*connection));
	memset(connection, 0, sizeof(*connection));
	connection->listener = listener;
	socket->on_close.cb = close_connection;
	socket->on_close.data = connection;
	socket->bytes_written = LARGE_RECORDS_FROM;
	metrics_gauge_add(GAUGE_CONNECTIONS, 1);
	h2o_accept(&listener->accept, socket);
	return true;
}

static void
on_accept(h2o_socket_t *socket, const char *err)
{
	Listener   *listener = socket->data;

	for (int i = 0; i < ACCEPT_BATCH; i++)
		if (!accept_one(listener))
		{
			/* The kernel would call again at once: wait for descriptors or memory to come free. */
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			{
				log_line(LOG_ERROR, "cannot accept connections: %s", strerror(errno));
				h2o_socket_read_stop(socket);
				loop_timer_start(&listener->pause, ACCEPT_PAUSE, resume_accepting, listener);
			}
			break;
		}
}

static void
resume_accepting(void *state)
{
	Listener   *listener = state;

	h2o_socket_read_start(listener->socket, on_accept);
}

/* --- Foreign descriptors --- */

static void
on_foreign_readable(h2o_socket_t *socket, const char *err)
{
	LoopSocket *foreign = socket->data;

	foreign->readable(foreign->state);
}

static void
on_foreign_writable(h2o_socket_t *socket, const char *err)
{
	LoopSocket *foreign = socket->data;
	void		(*writable) (void *state) = foreign->writable;

	foreign->writable = NULL;
	writable(foreign->state);
}

LoopSocket *
loop_socket_open(int fd, void (*readable) (void *state), void *state)
{
	LoopSocket *foreign = h2o_mem_alloc(sizeof(*foreign));
	int			copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy < 0)
	{
		log_line(LOG_ERROR, "cannot duplicate a descriptor: %s", strerror(errno));
		free(foreign);
		return NULL;
	}
	foreign->socket = h2o_evloop_socket_create(context.loop, copy, H2O_SOCKET_FLAG_DONT_READ);
	foreign->socket->data = foreign;
	foreign->readable = readable;
	foreign->writable = NULL;
	foreign->state = state;
	h2o_socket_read_start(foreign->socket, on_foreign_readable);
	return foreign;
}

void
loop_socket_notify_write(LoopSocket *foreign, void (*writable) (void *state))
{
	bool		waiting = foreign->writable != NULL;

	foreign->writable = writable;
	if (!waiting)
		h2o_socket_notify_write(foreign->socket, on_foreign_writable);
}

void
loop_socket_close(LoopSocket *foreign)
{
	h2o_socket_close(foreign->socket);
	free(foreign);
}

/* --- The server --- */

/* Makes new connections use the files as they are now. */
static void
reload_tls(void)
{
	tls_reload();
	for (size_t i = 0; i < listener_count; i++)
		if (listeners[i].config.tls)
			listeners[i].accept.ssl_ctx = tls_context();
}

void
http_server_start(const HttpListener *given, size_t count)
{
	h2o_hostconf_t *host;

	h2o_linklist_init_anchor(&open_requests);
	h2o_linklist_init_anchor(&ready_requests);
	/* Large buffers come from malloc, not from files under /tmp, which may be missing or full. */
	h2o_socket_buffer_mmap_settings.threshold = SIZE_MAX;
	h2o_config_init(&conf);
	conf.server_name = h2o_iovec_init("", 0);
	conf.max_request_entity_size = config.max_request_body_bytes + BODY_MARGIN;
	conf.handshake_timeout = HANDSHAKE_TIMEOUT;
	conf.http1.req_timeout = IDLE_TIMEOUT;
	conf.http1.upgrade_to_http2 = 0;
	host = h2o_config_register_host(&conf, h2o_iovec_init(H2O_STRLIT("default")), 65535);
	h2o_create_handler(h2o_config_register_path(host, "/", 0), sizeof(h2o_handler_t))->on_req = on_request;
	h2o_create_filter(&host->fallback_path, sizeof(h2o_filter_t))->on_setup_ostream = refuse;
	h2o_context_init(&context, h2o_evloop_create(), &conf);

	tls_set_peer_lookup(connection_peer);
	for (size_t i = 0; i < count && i < MAX_LISTENERS; i++)
	{
		Listener   *listener = &listeners[listener_count++];

		listener->config = given[i];
		listener->accept.ctx = &context;
		listener->accept.hosts = conf.hosts;
		listener->socket = h2o_evloop_socket_create(context.loop, given[i].fd, H2O_SOCKET_FLAG_DONT_READ);
		listener->socket->data = listener;
	}
	reload_tls();
	for (size_t i = 0; i < listener_count; i++)
		h2o_socket_read_start(listeners[i].socket, on_accept);
}

/* Finds the open requests whose client is gone, or takes nothing any more. */
static void
sweep(uint64_t now)
{
	static struct pollfd *polled;
	static HttpRequest **owners;
	static size_t capacity;
	size_t		count = 0;

	if (open_count > capacity)
	{
		capacity = open_count * 2;
		polled = h2o_mem_realloc(polled, sizeof(*polled) * capacity);
		owners = h2o_mem_realloc(owners, sizeof(*owners) * capacity);
	}
	for (h2o_linklist_t *link = open_requests.next; link != &open_requests; link = link->next)
	{
		HttpRequest *request = H2O_STRUCT_FROM_MEMBER(HttpRequest, open, link);

		if (request->cut || request->connection->lingering == request)
			continue;
		polled[count].fd = request_fd(request);
		polled[count].events = POLLRDHUP;
		polled[count].revents = 0;
		owners[count++] = request;
	}
	if (count == 0 || poll(polled, count, 0) < 0)
		return;
	for (size_t i = 0; i < count; i++)
	{
		if (polled[i].revents != 0)
			cut_connection(owners[i]);
		else if (owners[i]->in_flight && socket_stalled(polled[i].fd, &owners[i]->progress, now) >= WRITE_TIMEOUT)
		{
			log_line(LOG_WARNING, "the client of %s %s took nothing for %d s and is cut", http_method(owners[i]), owners[i]->exchange.uri,
					 WRITE_TIMEOUT / 1000);
			cut_connection(owners[i]);
		}
	}
}

static void
run_tick(uint64_t now, void (*tick) (void))
{
	static uint64_t trimmed_at;

	sweep(now);
	reload_tls();
	if (freed_bytes >= FREED_BYTES && now - trimmed_at >= TRIM_INTERVAL)
	{
		malloc_trim(0);
		freed_bytes = 0;
		trimmed_at = now;
	}
	tick();
}

/* For libh2o's visit of all connections: is a request under way, be it half read? */
static int
is_under_way(h2o_req_t *req, void *state)
{
	return req->timestamps.request_begin_at.tv_sec != 0;
}

static bool
is_drained(void)
{
	if (open_count > 0 || loop_now() - stopped_at < LEAST_DRAIN_TIME)
		return false;
	return conf.http1.callbacks.foreach_request(&context, is_under_way, NULL) == 0;
}

void
http_server_run(void (*tick) (void))
{
	uint64_t	next_tick = 0;
	bool		interrupted = false;

	while (!exiting)
	{
		uint64_t	now = loop_now();
		uint64_t	wait;

		turn++;
		run_ready();
		if (interrupted || now >= next_tick)
		{
			if (now >= next_tick)
				next_tick = now + TICK_INTERVAL;
			interrupted = false;
			run_tick(now, tick);
		}
		loop_run_due();
		/*
		 * What was sent here may have completed at once.  Its callbacks must run before libh2o waits again: it would not look at
		 * them first, and it could leave the socket waiting to write without a callback, which ends the process.
		 */
		h2o_timeout__do_post_callback(context.loop);
		if (stopping && is_drained())
			break;
		wait = loop_next_due(stopping ? DRAIN_STEP : TICK_INTERVAL);
		if (!h2o_linklist_is_empty(&ready_requests))
			wait = 0;
		if (h2o_evloop_run(context.loop, (int32_t) wait) == 0)
			continue;
		if (errno != EINTR)
		{
			log_line(LOG_ERROR, "the event loop failed: %s", strerror(errno));
			abort();
		}
		interrupted = true;
	}
}

void
http_server_stop_accepting(void)
{
	if (stopping)
		return;
	stopping = true;
	stopped_at = loop_now();
	h2o_context_request_shutdown(&context);
	for (size_t i = 0; i < listener_count; i++)
	{
		Listener   *listener = &listeners[i];

		if (!listener->config.tls)
			continue;
		while (accept_one(listener))
			;
		/* The parent holds the same socket, so that closing it here would not be enough. */
		shutdown(h2o_socket_get_fd(listener->socket), SHUT_RDWR);
		loop_timer_stop(&listener->pause);
		h2o_socket_close(listener->socket);
		listener->socket = NULL;
	}
}

size_t
http_server_open_requests(void)
{
	return open_count;
}

void
http_server_exit(void)
{
	exiting = true;
}
