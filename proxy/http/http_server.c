/*-------------------------------------------------------------------------
 *
 * http_server.c
 *	  HTTP server and event loop of a worker, on libh2o 2.2.5.
 *
 * This is one of the few files that include h2o.h (through http_h2o.h).  They
 * depend on these properties of that version:
 *
 * - One send may be in flight for each request, never of zero bytes, and its
 *	 bytes must stay valid until libh2o asks for more: http_answer.c does that.
 * - libh2o reads nothing from a connection with an open answer, so that it does
 *	 not notice a client that left: sweep() checks once a second.
 * - libh2o has no time-out for writing: sweep() checks that, too.
 * - libh2o would write a TLS record for each piece of a chunk, and would write
 *	 chunks only with code 200: http_answer.c makes the chunks.
 * - libh2o's own answers are plain text, and libh2o closes the connection while
 *	 the client may still be sending: a filter on the fallback path turns them
 *	 into Status documents and keeps the connection open for a while.
 * - HTTP/2 is off by default: libh2o does not limit floods of resets and of
 *	 header fields, and a frame at the wrong time aborts the process.  The limit
 *	 of 100 streams per connection is compiled in; clients open another
 *	 connection.  A stream whose client does not read stays open, with its bytes
 *	 in flight.
 * - A function of libh2o may end the request for which it is called: see
 *	 http_answer.c.
 * - http_h2o.c replaces functions whose behavior cannot be configured.
 *
 * A request lives until the destructor of libh2o's request pool runs; there
 * http_answer_end() tells the owner of the request.
 *
 *-------------------------------------------------------------------------
 */

#include "http/http_h2o.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>

#include "base/config.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/termination.h"

/* Times in milliseconds. */
#define TICK_INTERVAL 1000
#define IDLE_TIMEOUT (120 * 1000)	/* of keep-alive, and for sending a whole request; Go keeps connections 90 s */
#define WRITE_TIMEOUT (120 * 1000)	/* a client that reads nothing for this time is cut */
#define HANDSHAKE_TIMEOUT (10 * 1000)
#define SHORT_WRITE_TIMEOUT 1000	/* the same, while other requests wait for room (answer_room.h) */
#define SLOW_WRITE_TIMEOUT (10 * 1000)	/* then a client is also cut that needs this time for 256 KB */
#define RELIEF_INTERVAL 100		/* time between two calls of relieve(), which cuts such clients */
#define RELIEF_CUTS 16			/* largest number of clients that one call cuts */
#define RELIEF_LOG_INTERVAL 5000	/* shortest time between log lines about cut clients */
#define LINGER_TIMEOUT (5 * 1000)	/* the longest time that a refused client may go on sending */
#define LINGER_PAUSE 500		/* after this time without a byte from it, the connection is closed */
#define LEAST_DRAIN_TIME 500	/* shortest time that a shutdown leaves to the connections accepted last */
#define SILENT_DRAIN_TIME (5 * 1000)	/* the same, while one of them has not sent a request yet */
#define DRAIN_STEP 100			/* time between two checks whether the shutdown is complete */
#define TRIM_INTERVAL (5 * 1000)

#define END_DELAY 200			/* from the last answer to the end of a connection marked as ending */
#define LATE_REQUESTS 100		/* requests that such a connection may still carry */
#define HTTP2_REQUESTS 1000		/* requests of a connection at a time; the library allows 100 open ones */
#define LINGER_BYTES ((size_t) 64 * 1024 * 1024)
#define FREED_BYTES ((size_t) 4 * 1024 * 1024)	/* malloc_trim() runs after this many bytes were freed */

typedef struct RefusalStream
{
	h2o_ostream_t super;
	HttpRequest *request;
	h2o_iovec_t body;
	bool		sent;
} RefusalStream;

h2o_globalconf_t http_conf;
h2o_context_t http_context;

static h2o_hostconf_t *host;
static h2o_linklist_t open_requests;
static size_t open_count;
static bool stopping;
static uint64_t stopped_at;
static bool exiting;

static bool
is_http2(const h2o_req_t *req)
{
	return req->version >= 0x200;
}

static h2o_socket_t *
request_socket(HttpRequest *request)
{
	return connection_socket(request->req);
}

static int
request_fd(HttpRequest *request)
{
	return h2o_socket_get_fd(request_socket(request));
}

/* --- Requests --- */

/*
 * Closes the connection, because libh2o cannot send GOAWAY on a single connection.  END_DELAY gave the client time to
 * read the last answer; a request that comes now is too late.
 */
static void
end_connection(void *state)
{
	h2o_socket_t *socket = state;

	shutdown(h2o_socket_get_fd(socket), SHUT_RDWR);
}

/* libh2o calls this at the end of a request, for whatever reason. */
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
	http_client_hold(&request->connection->client, request->connection->client.held - request->held);
	http_freed_bytes += request->req->entity.len + request->answer.bytes_sent;
	http_answer_end(&request->answer);
}

/* libh2o calls this when it took the bytes of a send, or failed to send them. */
static void
on_proceed(h2o_generator_t * self, h2o_req_t *req)
{
	http_answer_taken(&H2O_STRUCT_FROM_MEMBER(HttpRequest, generator, self)->answer);
}

/* Returns the header lines of an HTTP/1 request that connection_judge() has read; none when the request was refused. */
static HttpText
header_lines(const h2o_req_t *req)
{
	for (size_t i = 0; i < req->headers.size; i++)
	{
		const		h2o_header_t *header = &req->headers.entries[i];

		if (h2o_memis(header->name->base, header->name->len, H2O_STRLIT(HEAD_LINES_NAME)))
			return (HttpText) {header->value.base, header->value.len};
	}
	return (HttpText) {NULL, 0};
}

/* Begins the exchange with the method, the target and all headers. */
static void
begin_exchange(HttpRequest *request)
{
	const h2o_req_t *req = request->req;
	HttpMessage *exchange = &request->answer.exchange;
	HttpText	lines = header_lines(req);
	size_t		count = 1 + req->headers.size;
	HttpField	field;

	for (size_t i = 0; i < lines.len; i++)
		count += lines.bytes[i] == '\n';
	http_message_init(exchange, req->input.method.base, req->input.method.len, req->input.path.base,
					  req->input.path.len, count);
	if (!is_http2(req))
	{
		while (http_head_next(&lines, &field))
			http_message_add_header(exchange, field.name.bytes, field.name.len, field.value.bytes, field.value.len);
		return;
	}
	if (req->input.authority.base != NULL)
		http_message_add_header(exchange, "host", 4, req->input.authority.base, req->input.authority.len);
	for (size_t i = 0; i < req->headers.size; i++)
	{
		const		h2o_header_t *header = &req->headers.entries[i];

		http_message_add_header(exchange, header->name->base, header->name->len, header->value.base, header->value.len);
	}
}

static HttpRequest *
new_request(h2o_req_t *req)
{
	HttpRequest *request = h2o_mem_alloc_shared(&req->pool, sizeof(*request), close_request);

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
	begin_exchange(request);
	http_message_ready(&request->answer.exchange);
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

/* --- Answers --- */

/* Moves a text of the request to the new input buffer. */
static void
follow(h2o_iovec_t *text, const h2o_buffer_t * from, h2o_buffer_t * to)
{
	if (text->base >= from->bytes && text->base < from->bytes + from->size)
		text->base = to->bytes + (text->base - from->bytes);
}

/*
 * Moves the bytes of the input buffer to a buffer of their size.  libh2o keeps the input buffer of 8 KB as long as the
 * answer is open, which is long for a watch.
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
		/* HTTP/2 needs no such headers: frames mark the end of a body, GOAWAY the end of a connection. */
		if (answer->kind != ANSWER_REFUSAL)
			h2o_start_response(req, &request->generator);
		return;
	}
	if (answer->kind == ANSWER_STREAM && head->length == SIZE_MAX && req->res.status != 204 && req->res.status != 304)
	{
		/* With this header libh2o does not change the body.  The answer to HEAD has the header and no chunk. */
		if (req->version >= 0x101)
			h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_TRANSFER_ENCODING, NULL, H2O_STRLIT("chunked"));
		else if (!answer->exchange.is_head)
			/* Only the end of the connection marks the end of the answer. */
			req->http1_is_persistent = 0;
		answer->chunked = req->version >= 0x101 && !answer->exchange.is_head;
	}
	/* From the first SIGTERM on, each answer closes its connection, so that clients move to another proxy in time. */
	if (head->close || stopping || termination_begun())
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
continue_linger(HttpRequest *request)
{
	uint64_t	now = loop_now();
	uint64_t	left = request->linger_until > now ? request->linger_until - now : 0;

	loop_timer_start(&request->linger, left < LINGER_PAUSE ? left : LINGER_PAUSE, finish_linger, request);
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
	{
		h2o_buffer_consume(&socket->input, socket->input->size);
		continue_linger(request);
	}
}

/*
 * Sends the proxy's text instead of libh2o's.  A connection that will be closed stays open for a while, and the proxy
 * reads from it: a close with unread bytes would reset the connection, and the client might lose the answer.  Go's
 * server (rstAvoidanceDelay of net/http) waits 500 ms, however much the client still sends.  libh2o calls this function
 * a second time when it has taken the text.
 */
static void
send_refusal(h2o_ostream_t * self, h2o_req_t *req, h2o_iovec_t *bufs, size_t count, h2o_send_state_t state)
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
	request->linger_until = loop_now() + LINGER_TIMEOUT;
	continue_linger(request);
	h2o_socket_read_start(request_socket(request), on_linger_read);
}

/* The arguments of http_answer_begin() for a refusal. */
typedef struct RefusalHead
{
	HttpHeader	headers[2];
	size_t		header_count;
	const char *body;
	size_t		len;
} RefusalHead;

static void
make_refusal(HttpRequest *request, HttpRefusal refusal, int status, RefusalHead *head)
{
	HttpMessage *exchange = &request->answer.exchange;
	int			retry = http_refusal_retry(refusal);

	head->body = http_message_refusal(exchange, refusal, status, &head->len);
	head->headers[0] = (HttpHeader) {"content-type", "application/json"};
	head->header_count = 1;
	if (retry > 0)
		head->headers[head->header_count++] = (HttpHeader) {"retry-after", arena_printf(&exchange->arena, "%d", retry)};
	connection_note_refusal(refusal, exchange->method, exchange->uri);
	metrics_request("", "", "", "", status, http_message_seconds(exchange));
}

/* The filter for all answers that libh2o makes itself, and for the answers of refuse_request(). */
static void
refuse(h2o_filter_t * self, h2o_req_t *req, h2o_ostream_t * *slot)
{
	HttpRequest *request = new_request(req);
	Connection *connection = request->connection;
	RefusalStream *stream = (RefusalStream *) h2o_add_ostream(req, sizeof(RefusalStream), slot);
	HttpRefusal refusal = connection->refusal;
	RefusalHead head;

	connection->refusal = REFUSAL_NONE;
	if (refusal == REFUSAL_NONE)
		refusal = http_refusal_of_status(req->res.status);
	make_refusal(request, refusal, req->res.status, &head);
	stream->super.do_send = send_refusal;
	stream->request = request;
	stream->body.base = (char *) head.body;
	stream->body.len = head.len;
	stream->sent = false;
	request->refusal = &stream->super;
	request->held = is_http2(req) ? 0 : connection->client.held;
	memset(&req->res.headers, 0, sizeof(req->res.headers));
	http_answer_begin(&request->answer, ANSWER_REFUSAL, req->res.status, head.headers, head.header_count, head.len);
	h2o_setup_next_ostream(req, &stream->super.next);
}

/* Refuses a request that was not read, and ends its connection. */
static void
refuse_request(h2o_req_t *req, Connection *connection, HttpRefusal refusal)
{
	connection->refusal = refusal;
	h2o_req_bind_conf(req, host, &host->fallback_path);
	h2o_send_error_generic(req, http_refusal_status(refusal), "", "", H2O_SEND_ERROR_HTTP1_CLOSE_CONNECTION);
}

/* Refuses a request that has been read whole; the connection stays open. */
static void
reply_refusal(HttpRequest *request, HttpRefusal refusal)
{
	int			status = http_refusal_status(refusal);
	RefusalHead head;

	make_refusal(request, refusal, status, &head);
	http_reply_borrowed(request, status, head.headers, head.header_count, head.body, head.len, NULL, NULL);
}

/* Does for HTTP/2 what connection_judge() does for HTTP/1.  The body has already arrived. */
static HttpRefusal
judge_http2(h2o_req_t *req, Connection *connection)
{
	size_t		bytes = req->input.method.len + req->input.path.len;
	HttpRefusal refusal = connection_recognize(connection);

	for (size_t i = 0; i < req->headers.size; i++)
		bytes += req->headers.entries[i].name->len + req->headers.entries[i].value.len;
	http_client_asks(&connection->client);
	if (bytes > HTTP_HEAD_BYTES || req->headers.size > HTTP_HEAD_LINES)
		return REFUSAL_LARGE_HEAD;
	if (refusal == REFUSAL_NONE && !http_client_hold(&connection->client, connection->client.held + req->entity.len))
		refusal = REFUSAL_BODIES;
	return refusal;
}

static int
on_request(h2o_handler_t * self, h2o_req_t *req)
{
	Connection *connection = connection_socket(req)->on_close.data;
	HttpRefusal refusal = is_http2(req) ? judge_http2(req, connection) : connection->refusal;
	HttpRequest *request;

	if (refusal != REFUSAL_NONE)
	{
		refuse_request(req, connection, refusal);
		return 0;
	}
	request = new_request(req);
	request->held = req->entity.len;
	if (!is_http2(req))
		http_client_hold(&connection->client, request->held);
	http_client_sent(&connection->client);
	if (http_header(request, "") != NULL)
		reply_refusal(request, REFUSAL_BAD_REQUEST);
	else if (req->entity.len > config.max_request_body_bytes)
		reply_refusal(request, REFUSAL_LARGE_BODY);
	else
		connection->listener.on_request(request);
	return 0;
}

/* --- The server --- */

void
http_server_start(void)
{
	h2o_linklist_init_anchor(&open_requests);
	/* Large buffers come from malloc, not from files under /tmp, which may be missing or full. */
	h2o_socket_buffer_mmap_settings.threshold = SIZE_MAX;
	h2o_config_init(&http_conf);
	http_conf.server_name = h2o_iovec_init("", 0);
	http_conf.max_request_entity_size = config.max_request_body_bytes + BODY_MARGIN;
	http_conf.handshake_timeout = HANDSHAKE_TIMEOUT;
	http_conf.http1.req_timeout = IDLE_TIMEOUT;
	http_conf.http1.upgrade_to_http2 = 0;
	http_conf.http2.idle_timeout = IDLE_TIMEOUT;
	http_conf.http2.max_concurrent_requests_per_connection = HTTP2_REQUESTS;
	host = h2o_config_register_host(&http_conf, h2o_iovec_init(H2O_STRLIT("default")), 65535);
	h2o_create_handler(h2o_config_register_path(host, "/", 0), sizeof(h2o_handler_t))->on_req = on_request;
	h2o_create_filter(&host->fallback_path, sizeof(h2o_filter_t))->on_setup_ostream = refuse;
	h2o_context_init(&http_context, h2o_evloop_create(), &http_conf);
	connections_start();
	connections_reload_tls();
}

/* Cuts open requests whose client left or no longer reads. */
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
	for (h2o_linklist_t * link = open_requests.next; link != &open_requests; link = link->next)
	{
		HttpRequest *request = H2O_STRUCT_FROM_MEMBER(HttpRequest, open, link);

		/* The library always reads from HTTP/2 connections. */
		if (request->answer.cut || request->connection->lingering == request || is_http2(request->req))
			continue;
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): open_count counts the list */
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
			log_line(LOG_WARNING, "the client of %s %s read nothing for %d s and is cut off", answer->exchange.method,
					 answer->exchange.uri, WRITE_TIMEOUT / 1000);
			http_answer_cut(answer);
		}
	}
}

/*
 * While requests wait for room for answers, cuts clients that read nothing or almost nothing, oldest requests first:
 * all such clients, or only the clients of a user whose share is full.
 */
static void
relieve(uint64_t now)
{
	static uint64_t relieved_at;
	static uint64_t logged_at;
	int			cut = 0;

	if (now - relieved_at < RELIEF_INTERVAL || !answer_room_short(0))
		return;
	relieved_at = now;
	for (h2o_linklist_t * link = open_requests.next; link != &open_requests && cut < RELIEF_CUTS; link = link->next)
	{
		HttpRequest *request = H2O_STRUCT_FROM_MEMBER(HttpRequest, open, link);
		HttpAnswer *answer = &request->answer;

		if (answer->cut || !answer->in_flight || !answer_room_short(answer->holding.user) ||
			(now < answer->sent_at + SLOW_WRITE_TIMEOUT &&
			 socket_stalled(request_fd(request), &answer->progress, now) < SHORT_WRITE_TIMEOUT))
			continue;
		if (logged_at == 0 || now - logged_at >= RELIEF_LOG_INTERVAL)
		{
			logged_at = now;
			log_line(LOG_ERROR, "the client of %s %.200s read nothing for a second and is cut off: too many bytes are "
					 "held for clients (--max-buffered-answer-bytes)", answer->exchange.method, answer->exchange.uri);
		}
		metrics_count(COUNTER_ANSWERS_CUT, 1);
		http_answer_cut(answer);
		cut++;
	}
}

static void
run_tick(uint64_t now, void (*tick) (void))
{
	static uint64_t trimmed_at;

	sweep(now);
	connections_check_heads(now);
	connections_reload_tls();
	if (http_freed_bytes >= FREED_BYTES && now - trimmed_at >= TRIM_INTERVAL)
	{
		malloc_trim(0);
		http_freed_bytes = 0;
		trimmed_at = now;
	}
	tick();
}

/* Callback for all connections: whether a request is in progress, even one that was read in part. */
static int
is_under_way(h2o_req_t *req, void *state)
{
	return req->timestamps.request_begin_at.tv_sec != 0;
}

static bool
is_drained(bool (*drained) (void))
{
	uint64_t	waited = loop_now() - stopped_at;

	if (open_count > 0 || waited < LEAST_DRAIN_TIME || !drained())
		return false;

	/*
	 * A client that is in its TLS handshake would find the connection reset, although the proxy has accepted it.
	 * client-go takes a watch that was reset for one that ended at once, and lists again.
	 */
	if (http_clients_silent() > 0 && waited < SILENT_DRAIN_TIME)
		return false;
	return http_conf.http1.callbacks.foreach_request(&http_context, is_under_way, NULL) == 0 &&
		http_conf.http2.callbacks.foreach_request(&http_context, is_under_way, NULL) == 0;
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
		relieve(now);
		loop_run_due();

		/*
		 * A send may have completed at once.  Its callbacks must run before libh2o waits again: libh2o would not run
		 * them first, and might leave the socket waiting to write without a callback, which aborts the process.
		 */
		h2o_timeout__do_post_callback(http_context.loop);
		if (stopping && is_drained(drained))
			break;
		wait = loop_next_due(stopping ? DRAIN_STEP : TICK_INTERVAL);
		if (http_answers_ready())
			wait = 0;
		wait = h2o_next_due(wait);
		if (h2o_evloop_run(http_context.loop, (int32_t) wait) == 0)
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
	h2o_context_request_shutdown(&http_context);
	connections_stop_accepting();
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
