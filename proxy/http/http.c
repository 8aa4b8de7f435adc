/*-------------------------------------------------------------------------
 *
 * http.c
 *	  HTTP server and event loop of a worker, on libh2o 2.2.5.
 *
 * The only file that includes h2o.h.  What it has to know about that version:
 *
 * - One send may be in flight for each request, never of zero bytes, and its
 *	 bytes must stay until libh2o asks for more: http_answer.c sees to that.
 * - Of a connection with an open answer nothing is read, so that a client that
 *	 went away is not noticed: sweep() looks once a second.
 * - There is no time-out for writing: sweep() again.
 * - It would write a TLS record for each piece of a chunk, and chunks only with
 *	 code 200: http_answer.c makes the chunks.
 * - The answers that libh2o makes itself are plain text, and the connection is
 *	 closed while the client may still be sending: a filter on the fallback
 *	 path turns them into Status documents and lingers a while.
 * - HTTP/2 is offered on request only: floods of resets and of header fields
 *	 are not limited, and a frame at the wrong time aborts the process.  100
 *	 streams of a connection are compiled in; clients open another one.  A
 *	 stream whose client takes nothing stays, with what is in flight for it.
 * - libh2o's time-outs follow the wall clock, and one of its functions may end
 *	 the request it is called for: see loop.c and http_answer.c.
 *
 * A request lives until the destructor of libh2o's request pool runs; there
 * http_answer_end() tells whoever works on it.
 *
 *-------------------------------------------------------------------------
 */

#include "http/http_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>

#include <h2o.h>
#include <h2o/http1.h>
#include <h2o/http2.h>

#include "trust/authentication_config.h"
#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "http/server.h"
#include "base/sockets.h"
#include "http/tls.h"

/* All in milliseconds. */
#define TICK_INTERVAL 1000
#define IDLE_TIMEOUT (120 * 1000)	/* keep-alive, and the time to send a whole request; Go keeps connections for 90 s */
#define WRITE_TIMEOUT (120 * 1000)	/* a client that takes nothing for so long is cut */
#define HANDSHAKE_TIMEOUT (10 * 1000)
#define HEAD_TIMEOUT (32 * 1000)	/* from the first byte of a request to the end of its head, as in kube-apiserver */
#define LINGER_TIMEOUT (5 * 1000)
#define ACCEPT_PAUSE 500		/* when there are no descriptors left */
#define LEAST_DRAIN_TIME 500	/* for connections that were accepted last */
#define DRAIN_STEP 100			/* how often is looked whether all is done */
#define TRIM_INTERVAL (5 * 1000)

#define END_DELAY 200			/* before a connection that is to end is closed, once nothing is open */
#define LATE_REQUESTS 100		/* that such a connection may still carry, because they were under way */
#define HTTP2_REQUESTS 1000		/* of a connection, handled at a time; the library lets 100 be open */
#define MAX_LISTENERS 8
#define ACCEPT_BATCH 32			/* connections accepted in one turn of the loop */
#define LINGER_BYTES ((size_t) 64 * 1024 * 1024)
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
	ClientCertificate *peer;	/* NULL: none */
	size_t		open;			/* requests */
	bool		ending;			/* HTTP/2: to be closed once nothing is open */
	size_t		late;			/* requests that came nevertheless */
	LoopTimer	end;
	uint64_t	head_begun_at;	/* when a head was first seen half read; 0: none is */
	HttpRequest *lingering;		/* its refusal was sent; what the client still sends is thrown away */
} Connection;

struct HttpRequest
{
	HttpAnswer	answer;			/* first: http_answer.c and http_exchange.c know */
	h2o_generator_t generator;
	h2o_req_t  *req;
	Connection *connection;
	h2o_linklist_t open;		/* in open_requests */

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
static bool stopping;
static uint64_t stopped_at;
static bool exiting;
static size_t freed_bytes;		/* since memory was last given back; an estimate */

static void resume_accepting(void *state);

static bool
is_http2(const h2o_req_t *req)
{
	return req->version >= 0x200;
}

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

/* --- Requests --- */

/*
 * libh2o offers no way to send GOAWAY over one connection.  Its client has had time to take the last answer, and a request that comes now
 * would be one too late.
 */
static void
end_connection(void *state)
{
	h2o_socket_t *socket = state;

	shutdown(h2o_socket_get_fd(socket), SHUT_RDWR);
}

/* Runs when libh2o is done with a request, however it ended. */
static void
close_request(void *pointer)
{
	HttpRequest *request = pointer;

	h2o_linklist_unlink(&request->open);
	open_count--;
	request->connection->open--;
	if (request->connection->ending && request->connection->open == 0)
		loop_timer_start(&request->connection->end, END_DELAY, end_connection, request_socket(request));
	loop_timer_stop(&request->linger);
	if (request->connection->lingering == request)
		request->connection->lingering = NULL;
	freed_bytes += request->req->entity.len + request->answer.bytes_sent;
	http_answer_end(&request->answer);
}

/* libh2o took what was sent, or failed to send it. */
static void
on_proceed(h2o_generator_t *self, h2o_req_t *req)
{
	http_answer_taken(&H2O_STRUCT_FROM_MEMBER(HttpRequest, generator, self)->answer);
}

static HttpRequest *
new_request(h2o_req_t *req)
{
	HttpRequest *request = h2o_mem_alloc_shared(&req->pool, sizeof(*request), close_request);
	HttpExchange *exchange = &request->answer.exchange;

	memset(request, 0, sizeof(*request));
	request->req = req;
	request->connection = request_socket(request)->on_close.data;
	request->generator.proceed = on_proceed;
	h2o_linklist_insert(&open_requests, &request->open);
	open_count++;
	request->connection->open++;
	request->connection->head_begun_at = 0;
	loop_timer_stop(&request->connection->end);
	if (request->connection->ending && ++request->connection->late > LATE_REQUESTS)
		end_connection(request_socket(request));
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

void
http_last_of_http2(HttpRequest *request)
{
	if (is_http2(request->req))
		request->connection->ending = true;
}

struct ClientCertificate *
http_peer(HttpRequest *request)
{
	return request->connection->peer;
}

/* --- Answers --- */

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
http_send_head(HttpAnswer *answer, const AnswerHead *head)
{
	HttpRequest *request = (HttpRequest *) answer;
	h2o_req_t  *req = request->req;

	req->res.status = answer->exchange.status;
	req->res.reason = head->reason;
	req->res.content_length = head->length;
	for (size_t i = 0; i < head->header_count; i++)
	{
		const HttpHeader *header = &head->headers[i];

		h2o_add_header_by_str(&req->pool, &req->res.headers, header->name, strlen(header->name), 1, NULL,
							  header->value, strlen(header->value));
	}
	if (is_http2(req))
	{
		/* Frames tell where a body ends, and GOAWAY that a connection does. */
		if (answer->kind != ANSWER_REFUSAL)
			h2o_start_response(req, &request->generator);
		return;
	}
	if (answer->kind == ANSWER_STREAM && head->length == SIZE_MAX && req->res.status != 204 && req->res.status != 304)
	{
		/* With this header libh2o leaves the body alone; the answer to HEAD has the header and no chunk. */
		if (req->version >= 0x101)
			h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_TRANSFER_ENCODING, NULL, H2O_STRLIT("chunked"));
		else if (!answer->exchange.is_head)
			/* Only the end of the connection tells the end of the answer. */
			req->http1_is_persistent = 0;
		answer->chunked = req->version >= 0x101 && !answer->exchange.is_head;
	}
	/* From the first SIGTERM on, so that clients move to another proxy while this one still serves them. */
	if (head->close || stopping || server_terminating())
		req->http1_is_persistent = 0;
	if (answer->kind != ANSWER_REFUSAL)
		h2o_start_response(req, &request->generator);
	if (answer->kind == ANSWER_STREAM)
		shrink_input(request);
}

void
http_send_pieces(HttpAnswer *answer, const HttpPiece *pieces, size_t count, HttpSendState state)
{
	static const h2o_send_state_t states[] = {
		[HTTP_SEND_MORE] = H2O_SEND_STATE_IN_PROGRESS,
		[HTTP_SEND_LAST] = H2O_SEND_STATE_FINAL,
		[HTTP_SEND_ERROR] = H2O_SEND_STATE_ERROR,
	};
	h2o_iovec_t vectors[MAX_PIECES];

	for (size_t i = 0; i < count; i++)
		vectors[i] = h2o_iovec_init(pieces[i].bytes, pieces[i].len);
	h2o_send(((HttpRequest *) answer)->req, vectors, count, states[state]);
}

void
http_reset(HttpAnswer *answer)
{
	HttpRequest *request = (HttpRequest *) answer;

	if (is_http2(request->req))
		return;
	request->req->http1_is_persistent = 0;
	socket_reset(request_fd(request));
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
		bool		last = request->answer.exchange.is_head || req->http1_is_persistent || is_http2(req);

		stream->sent = true;
		request->answer.last_sent = last;
		request->answer.bytes_sent = request->answer.exchange.is_head ? 0 : stream->body.len;
		h2o_ostream_send_next(self, req, &stream->body, request->answer.exchange.is_head ? 0 : 1,
							  last ? H2O_SEND_STATE_FINAL : H2O_SEND_STATE_IN_PROGRESS);
		return;
	}
	request->answer.last_sent = true;
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
	stream->body.base = (char *) http_exchange_refusal(&request->answer.exchange, status, &stream->body.len);
	stream->sent = false;
	request->refusal = &stream->super;
	memset(&req->res.headers, 0, sizeof(req->res.headers));
	http_answer_begin(&request->answer, ANSWER_REFUSAL, status, &type, 1, stream->body.len);
	metrics_request("", "", "", "", status, http_exchange_seconds(&request->answer.exchange));
	h2o_setup_next_ostream(req, &stream->super.next);
}

/* Refuses what libh2o accepts and we do not. */
static void
reply_status(HttpRequest *request, int status)
{
	HttpHeader	type = {"content-type", "application/json"};
	size_t		len;
	const char *text = http_exchange_refusal(&request->answer.exchange, status, &len);

	http_reply_borrowed(request, status, &type, 1, text, len, NULL, NULL);
	metrics_request("", "", "", "", status, http_exchange_seconds(&request->answer.exchange));
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

	loop_timer_stop(&connection->end);
	client_certificate_free(connection->peer);
	free(connection);
	freed_bytes += CONNECTION_BYTES;
	metrics_gauge_add(GAUGE_CONNECTIONS, -1);
}

static ClientCertificate **
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
	static const h2o_iovec_t protocols[] = {{H2O_STRLIT("h2")}, {H2O_STRLIT("http/1.1")}, {NULL, 0}};

	authentication_config_poll();
	tls_reload();
	for (size_t i = 0; i < listener_count; i++)
		if (listeners[i].config.tls)
			listeners[i].accept.ssl_ctx = tls_context();
	if (config.http2)
		h2o_ssl_register_alpn_protocols(tls_context(), protocols);
}

void
http_server_start(const HttpListener *given, size_t count)
{
	h2o_hostconf_t *host;

	h2o_linklist_init_anchor(&open_requests);
	/* Large buffers come from malloc, not from files under /tmp, which may be missing or full. */
	h2o_socket_buffer_mmap_settings.threshold = SIZE_MAX;
	h2o_config_init(&conf);
	conf.server_name = h2o_iovec_init("", 0);
	conf.max_request_entity_size = config.max_request_body_bytes + BODY_MARGIN;
	conf.handshake_timeout = HANDSHAKE_TIMEOUT;
	conf.http1.req_timeout = IDLE_TIMEOUT;
	conf.http1.upgrade_to_http2 = 0;
	conf.http2.idle_timeout = IDLE_TIMEOUT;
	conf.http2.max_concurrent_requests_per_connection = HTTP2_REQUESTS;
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

/*
 * For libh2o's visit of all connections of HTTP/1.  The library has one time-out for waiting, a head and a body, so that a client that
 * sends its head in small pieces would hold a connection for as long as an idle one.  The version is known once the head is whole.
 */
static int
check_head(h2o_req_t *req, void *state)
{
	h2o_socket_t *socket = req->conn->callbacks->get_socket(req->conn);
	Connection *connection = socket->on_close.data;
	uint64_t	now = *(const uint64_t *) state;

	if (req->timestamps.request_begin_at.tv_sec == 0 || req->version != 0)
		connection->head_begun_at = 0;
	else if (connection->head_begun_at == 0)
		connection->head_begun_at = now;
	else if (now - connection->head_begun_at >= HEAD_TIMEOUT)
		shutdown(h2o_socket_get_fd(socket), SHUT_RDWR);
	return 0;
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

		/* Of a connection of HTTP/2 the library reads all the time. */
		if (request->answer.cut || request->connection->lingering == request || is_http2(request->req))
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
		HttpAnswer *answer = &owners[i]->answer;

		if (polled[i].revents != 0)
			http_answer_cut(answer);
		else if (answer->in_flight && socket_stalled(polled[i].fd, &answer->progress, now) >= WRITE_TIMEOUT)
		{
			log_line(LOG_WARNING, "the client of %s %s took nothing for %d s and is cut", answer->exchange.method,
					 answer->exchange.uri, WRITE_TIMEOUT / 1000);
			http_answer_cut(answer);
		}
	}
}

static void
run_tick(uint64_t now, void (*tick) (void))
{
	static uint64_t trimmed_at;

	sweep(now);
	conf.http1.callbacks.foreach_request(&context, check_head, &now);
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
is_drained(bool (*drained) (void))
{
	if (open_count > 0 || loop_now() - stopped_at < LEAST_DRAIN_TIME || !drained())
		return false;
	return conf.http1.callbacks.foreach_request(&context, is_under_way, NULL) == 0 &&
		conf.http2.callbacks.foreach_request(&context, is_under_way, NULL) == 0;
}

void
http_server_run(void (*tick) (void), bool (*drained) (void))
{
	uint64_t	next_tick = 0;
	bool		interrupted = false;

	while (!exiting)
	{
		uint64_t	now = loop_now();
		uint64_t	wait;

		http_answers_continue();
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
		if (stopping && is_drained(drained))
			break;
		wait = loop_next_due(stopping ? DRAIN_STEP : TICK_INTERVAL);
		if (http_answers_ready())
			wait = 0;
		if (h2o_evloop_run(context.loop, (int32_t) wait) == 0)
			continue;
		if (errno != EINTR)
		{
			log_line(LOG_ERROR, "the event loop failed: %s", strerror(errno));
			log_flush();
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
