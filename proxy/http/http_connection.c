/*-------------------------------------------------------------------------
 *
 * http_connection.c
 *	  Connections of clients: accepts them, recognizes clients, judges the heads of requests.
 *
 * At the end of a head, before it reads a byte of the body, the worker checks
 * whether the port takes bodies, whether the certificate of the connection
 * identifies the client, and whether there is room for the announced body
 * (http_client.c).  For a request with a token and a body, it asks
 * kube-apiserver.  Until the answer arrives, the head counts as incomplete,
 * and the worker reads nothing more from the connection.
 *
 *-------------------------------------------------------------------------
 */
#include "http/http_h2o.h"

#include <errno.h>
#include <fcntl.h>

#include "trust/authentication_config.h"
#include "trust/client_certificate.h"
#include "base/config.h"
#include "base/log.h"
#include "base/metrics.h"
#include "http/tls.h"

/* Both in milliseconds. */
#define HEAD_TIMEOUT (32 * 1000)	/* from the first byte of a request to the end of its head, as in kube-apiserver */
#define ACCEPT_PAUSE 100		/* pause of accepting when there are no descriptors left */

#define ACCEPT_BATCH 32			/* connections accepted in one loop iteration */
#define CONNECTION_BYTES ((size_t) 32 * 1024)	/* estimate of the bytes that a closed connection frees */
#define SMALL_HEAD ((size_t) 8192)	/* size of a head that is not counted, because every connection has room for it */

/* Shortest time between log lines about refusals of one kind, in milliseconds. */
#define REFUSAL_LOG_INTERVAL 5000

/*
 * libh2o writes small TLS records for the first 200 KB of a connection.  With this initial count of "sent" bytes it
 * writes large records.
 */
#define LARGE_RECORDS_FROM ((size_t) 1024 * 1024)

typedef struct Listener
{
	HttpListener config;
	h2o_linklist_t link;
	h2o_socket_t *socket;
	h2o_accept_ctx_t accept;
	LoopTimer	pause;
} Listener;

size_t		http_freed_bytes;

static h2o_linklist_t listeners;

/*
 * Closed listeners, which are kept until the process ends, because TLS handshakes in progress use their accept context.
 * They are few: a port of the API or of metrics is closed once.
 */
static h2o_linklist_t closed_listeners;
static bool stopped;

static void resume_accepting(void *state);

/* --- Identifying the client --- */

HttpRefusal
connection_recognize(Connection *connection)
{
	const char *why = "";
	User		user;
	Arena		arena;
	bool		trusted;

	if (connection->client.known || connection->peer == NULL)
		return REFUSAL_NONE;
	arena_init(&arena);
	trusted = client_certificate_front_proxy(connection->peer, &arena, &why) == CERTIFICATE_TRUSTED ||
		client_certificate_user(connection->peer, &arena, &user, &why) == CERTIFICATE_TRUSTED;
	arena_free(&arena);
	return trusted && !http_client_recognize(&connection->client) ? REFUSAL_CLIENTS : REFUSAL_NONE;
}

bool
http_recognize(HttpRequest *request)
{
	return http_client_recognize(&request->connection->client);
}

bool
http_hold(HttpRequest *request, size_t bytes)
{
	HttpClient *client = &request->connection->client;

	if (!http_client_hold(client, client->held + bytes))
	{
		metrics_count(COUNTER_REFUSED_BODIES, 1);
		return false;
	}
	request->held += bytes;
	return true;
}

struct ClientCertificate *
http_peer(HttpRequest *request)
{
	return request->connection->peer;
}

/* --- Identifying the client of a request with a body --- */

/* The library closes a connection that has sent this much before its head is parsed. */
#define SUSPENDED_BYTES ((size_t) 400 * 1024)

static void
resume(void *state)
{
	Connection *connection = state;
	h2o_socket_t *socket = connection->asking;

	connection->asking = NULL;
	h2o_socket_read_start(socket, connection->read);
	connection->read(socket, NULL);
}

static void
told_who_sends(void *state, HeadVerdict verdict)
{
	Connection *connection = state;

	connection->question = NULL;
	connection->verdict = verdict;
	loop_timer_start(&connection->resume, 0, resume, connection);
}

/* Returns a copy of a header's value, which the caller frees; NULL when the header is missing. */
static char *
find_value(HttpText lines, const char *name)
{
	HttpField	field;

	while (http_head_next(&lines, &field))
		if (h2o_lcstris(field.name.bytes, field.name.len, name, strlen(name)))
			return strndup(field.value.bytes, field.value.len);
	return NULL;
}

static void
ask_who_sends(Connection *connection, const HttpHead *head, size_t len)
{
	char	   *authorization;

	if (len > SUSPENDED_BYTES)
	{
		connection->verdict = HEAD_STRANGER;
		return;
	}
	authorization = find_value(head->lines, "authorization");
	connection->question = connection->listener.ask_head(connection->peer, authorization, &connection->verdict,
														 told_who_sends, connection);
	free(authorization);
}

static HttpRefusal
refusal_of_verdict(Connection *connection)
{
	HeadVerdict verdict = connection->verdict;

	connection->verdict = HEAD_NOT_ASKED;
	switch (verdict)
	{
		case HEAD_KNOWN:
			return http_client_recognize(&connection->client) ? REFUSAL_NONE : REFUSAL_CLIENTS;
		case HEAD_UNAUTHORIZED:
			return REFUSAL_UNAUTHORIZED;
		case HEAD_BUSY:
			return REFUSAL_REVIEWS;
		default:
			return REFUSAL_NONE;
	}
}

void
connection_suspend(Connection *connection, h2o_socket_t *socket)
{
	connection->asking = socket;
	connection->read = socket->_cb.read;
	h2o_socket_read_stop(socket);
}

/* --- Judging a head --- */

HttpRefusal
connection_judge(Connection *connection, HttpHeadOutcome outcome, const HttpHead *head, size_t len)
{
	size_t		most = config.max_request_body_bytes + BODY_MARGIN;
	size_t		held = len > SMALL_HEAD ? len : 0;
	bool		chunked = head->transfer_encoding.name.bytes != NULL;
	HttpRefusal refusal;

	if (outcome == HTTP_HEAD_BAD)
		return REFUSAL_BAD_REQUEST;
	if (outcome == HTTP_HEAD_LARGE)
		return REFUSAL_LARGE_HEAD;
	if (outcome == HTTP_HEAD_PARTIAL)
		return http_client_hold(&connection->client, held) ? REFUSAL_NONE : REFUSAL_BODIES;
	http_client_asks(&connection->client);
	refusal = connection_recognize(connection);
	if (refusal != REFUSAL_NONE)
		return refusal;
	if (!connection->listener.tls && (chunked || head->body_len > 0))
		return REFUSAL_BODY;
	if (!connection->client.known && (chunked || head->body_len > 0) && connection->listener.ask_head != NULL)
	{
		if (connection->verdict == HEAD_NOT_ASKED)
			ask_who_sends(connection, head, len);
		if (connection->question != NULL)
			return REFUSAL_NONE;
		refusal = refusal_of_verdict(connection);
		if (refusal != REFUSAL_NONE)
			return refusal;
	}
	/* libh2o itself refuses a body that is too long. */
	held = head->size > SMALL_HEAD ? head->size : 0;
	held += chunked ? most : head->body_len <= most ? head->body_len : 0;
	return http_client_hold(&connection->client, held) ? REFUSAL_NONE : REFUSAL_BODIES;
}

void
connection_note_refusal(HttpRefusal refusal, const char *method, const char *uri)
{
	static uint64_t logged_at[REFUSAL_REVIEWS + 1];
	uint64_t	now = loop_now();
	const char *why;

	if (refusal == REFUSAL_LARGE_HEAD)
	{
		why = "its head is too large";
		metrics_count(COUNTER_LARGE_HEADS, 1);
	}
	else if (refusal == REFUSAL_BODIES)
	{
		why = "too many request bodies are held already (--max-buffered-body-bytes)";
		metrics_count(COUNTER_REFUSED_BODIES, 1);
	}
	else if (refusal == REFUSAL_CLIENTS)
	{
		why = "too many clients are connected already (--max-connections)";
		metrics_count(COUNTER_REFUSED_CLIENTS, 1);
	}
	else if (refusal == REFUSAL_UNAUTHORIZED)
		why = "its credentials are invalid";
	else
		return;
	if (logged_at[refusal] != 0 && now - logged_at[refusal] < REFUSAL_LOG_INTERVAL)
		return;
	logged_at[refusal] = now;
	log_line(LOG_ERROR, "a request was refused with code %d, because %s: %s %.200s", http_refusal_status(refusal), why,
			 method, uri);
}

/*
 * Callback for all HTTP/1 connections.  libh2o has one time-out for waiting, a head and a body.  Without this check, a
 * client that sends its head in small pieces would hold a connection as long as an idle one.  req->version is set once
 * the head is whole.
 */
static int
check_head(h2o_req_t *req, void *state)
{
	h2o_socket_t *socket = connection_socket(req);
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

void
connections_check_heads(uint64_t now)
{
	http_conf.http1.callbacks.foreach_request(&http_context, check_head, &now);
}

/* --- Accepting and closing --- */

static void
close_connection(void *pointer)
{
	Connection *connection = pointer;

	loop_timer_stop(&connection->end);
	loop_timer_stop(&connection->resume);
	if (connection->question != NULL)
		connection->listener.cancel_head(connection->question);
	client_certificate_free(connection->peer);
	http_client_close(&connection->client);
	free(connection);
	http_freed_bytes += CONNECTION_BYTES;
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
	connection->listener = listener->config;
	socket->on_close.cb = close_connection;
	socket->on_close.data = connection;
	socket->bytes_written = LARGE_RECORDS_FROM;
	http_client_open(&connection->client, h2o_socket_get_fd(socket));
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
			/* The loop would call again at once: wait until descriptors or memory are free. */
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

/* --- Listening sockets --- */

void
connections_start(void)
{
	h2o_linklist_init_anchor(&listeners);
	h2o_linklist_init_anchor(&closed_listeners);
	tls_set_peer_lookup(connection_peer);
	http_clients_start();
}

static Listener *
listener_of(h2o_linklist_t * link)
{
	return H2O_STRUCT_FROM_MEMBER(Listener, link, link);
}

void
connections_reload_tls(void)
{
	static const h2o_iovec_t protocols[] = {{H2O_STRLIT("h2")}, {H2O_STRLIT("http/1.1")}, {NULL, 0}};

	/* A process without an HTTPS port. */
	if (config.tls_cert_file[0] == '\0')
		return;
	authentication_config_poll();
	tls_reload();
	for (h2o_linklist_t * link = listeners.next; link != &listeners; link = link->next)
		if (listener_of(link)->config.tls)
			listener_of(link)->accept.ssl_ctx = tls_context();
	if (config.http2)
		h2o_ssl_register_alpn_protocols(tls_context(), protocols);
}

void
http_server_listen(const HttpListener *given)
{
	Listener   *listener;
	int			copy;

	if (stopped && given->tls)
		return;
	copy = fcntl(given->fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
	{
		log_line(LOG_ERROR, "cannot duplicate a listening socket: %s", strerror(errno));
		return;
	}
	listener = h2o_mem_alloc(sizeof(*listener));
	memset(listener, 0, sizeof(*listener));
	listener->config = *given;
	listener->accept.ctx = &http_context;
	listener->accept.hosts = http_conf.hosts;
	listener->accept.ssl_ctx = given->tls ? tls_context() : NULL;
	listener->socket = h2o_evloop_socket_create(http_context.loop, copy, H2O_SOCKET_FLAG_DONT_READ);
	listener->socket->data = listener;
	h2o_linklist_insert(&listeners, &listener->link);
	h2o_socket_read_start(listener->socket, on_accept);
}

static void
close_listener(Listener *listener)
{
	loop_timer_stop(&listener->pause);
	h2o_linklist_unlink(&listener->link);
	h2o_socket_close(listener->socket);
	h2o_linklist_insert(&closed_listeners, &listener->link);
}

void
http_server_unlisten(int fd)
{
	for (h2o_linklist_t * link = listeners.next; link != &listeners; link = link->next)
		if (listener_of(link)->config.fd == fd)
		{
			close_listener(listener_of(link));
			return;
		}
}

void
connections_stop_accepting(void)
{
	h2o_linklist_t *next;

	stopped = true;
	for (h2o_linklist_t * link = listeners.next; link != &listeners; link = next)
	{
		Listener   *listener = listener_of(link);

		next = link->next;
		if (!listener->config.tls)
			continue;
		while (accept_one(listener))
			;
		/* Other processes hold the same socket, so that close() alone would not end it. */
		shutdown(h2o_socket_get_fd(listener->socket), SHUT_RDWR);
		close_listener(listener);
	}
}
