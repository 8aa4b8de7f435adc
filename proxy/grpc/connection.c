/*-------------------------------------------------------------------------
 *
 * connection.c
 *	  Connections of clients: TLS and HTTP/2, with limits on the memory that a client can take.
 *
 * libnghttp2 does HTTP/2; OpenSSL does TLS, with the contexts of http/tls.c.
 * libgrpc 1.51 of Debian 12 was tried first.  When its process has no more
 * file descriptors, it stops accepting for good, so that any stranger can end
 * the service (CVE-2023-4785); and it has no limit on connections.
 *
 * This file limits:
 *
 * - connections, also of clients without a proved credential (strangers); a
 *	 new one replaces the oldest connection of a stranger
 * - the time until a stranger has proved a credential, and the time of idle
 *	 connections
 * - streams of a connection, and the size of their heads
 * - bytes that are received and not yet taken: a window of WINDOW bytes for
 *	 each stream, and for strangers for the whole connection
 * - answers that the client does not read: frames in the queue of libnghttp2,
 *	 and the time without progress
 * - resets, CONTINUATION frames, acknowledgements: limits of libnghttp2
 *
 *-------------------------------------------------------------------------
 */
#include "grpc/connection_private.h"

#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/log.h"
#include "http/tls.h"

#define OUT_BYTES ((size_t) 16 * 1024)	/* size of the buffer of frames that wait to be sent: one TLS record */
#define READS_AT_ONCE 4			/* TLS records that are read before other connections have their turn */
#define ACCEPTS_AT_ONCE 32

/* All in milliseconds. */
#define STRANGER_MS (20 * 1000)
#define IDLE_MS (10 * 60 * 1000)
#define STALL_MS (30 * 1000)
#define ACCEPT_PAUSE 100		/* pause of accepting when there are no descriptors left */
#define GOAWAY_MS 1000			/* time from GOAWAY until a connection without streams is closed */
#define LOG_INTERVAL 5000

ConnectionCounts connection_counts;

static ConnectionLimits limits;
static Connection *oldest;
static Connection *newest;
static LoopSocket *listener;
static int	listening_fd = -1;
static LoopTimer accept_pause;

static void run(void *state);

void
connection_run_soon(Connection *connection)
{
	if (!connection->running)
		loop_timer_start(&connection->turn, 0, run, connection);
}

void
connection_break(Connection *connection, const char *why)
{
	static uint64_t logged_at;

	if (connection->broken)
		return;
	connection->broken = true;
	connection_run_soon(connection);
	if (why == NULL)
		return;
	connection_counts.broken++;
	if (logged_at != 0 && loop_now() - logged_at < LOG_INTERVAL)
		return;
	logged_at = loop_now();
	log_line(LOG_WARNING, "a connection was closed: %s", why);
}

/* ---------- closing ---------- */

static void
connection_free(Connection *connection)
{
	streams_close(connection);
	loop_timer_stop(&connection->turn);
	loop_timer_stop(&connection->watch);
	nghttp2_session_del(connection->session);
	SSL_free(connection->ssl);
	ERR_clear_error();
	loop_socket_close(connection->socket);
	close(connection->fd);
	client_certificate_free(connection->peer);
	if (connection->previous != NULL)
		connection->previous->next = connection->next;
	else
		oldest = connection->next;
	if (connection->next != NULL)
		connection->next->previous = connection->previous;
	else
		newest = connection->previous;
	connection_counts.open--;
	if (!connection->trusted)
		connection_counts.strangers--;
	free(connection->out);
	free(connection);
}

static void
go_away(Connection *connection)
{
	if (connection->going_away)
		return;
	connection->going_away = true;
	if (connection->session == NULL)
		connection->broken = true;
	else
	{
		int32_t		last = nghttp2_session_get_last_proc_stream_id(connection->session);

		nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
	}
	connection_run_soon(connection);
}

/* Checks the time limits of a connection, about once a second. */
static void
watch(void *state)
{
	Connection *connection = state;
	uint64_t	now = loop_now();
	bool		idle = connection->stream_count == 0;

	loop_timer_start(&connection->watch, GOAWAY_MS, watch, connection);
	if (connection->out_len == 0 &&
		(connection->session == NULL || nghttp2_session_want_write(connection->session) == 0))
		connection->progress_at = now;
	if (now - connection->progress_at >= STALL_MS)
		connection_break(connection, "its client reads nothing");
	else if (connection->going_away && idle)
		connection_break(connection, NULL);
	else if (!connection->trusted && now - connection->active_at >= STRANGER_MS &&
			 (connection->session == NULL || idle))
		go_away(connection);
	else if (connection->trusted && idle && now - connection->active_at >= IDLE_MS)
		go_away(connection);
}

/* ---------- bytes ---------- */

static void on_writable(void *state);

static void
ask_writable(Connection *connection)
{
	if (connection->writable_asked)
		return;
	connection->writable_asked = true;
	loop_socket_notify_write(connection->socket, on_writable);
}

/* Clears OpenSSL's queue of errors: an error of another connection would be taken for an error of this one. */
static SSL *
ssl_of(Connection *connection)
{
	ERR_clear_error();
	return connection->ssl;
}

/* Handles a result of OpenSSL; false when nothing more can be done now. */
static bool
ssl_went_on(Connection *connection, int result)
{
	switch (SSL_get_error(connection->ssl, result))
	{
		case SSL_ERROR_NONE:
			return true;
		case SSL_ERROR_WANT_READ:
			return false;
		case SSL_ERROR_WANT_WRITE:
			ask_writable(connection);
			return false;
		default:
			connection_break(connection, NULL);
			return false;
	}
}

/* Makes frames until the buffer is full; false when there are none. */
static bool
fill_out(Connection *connection)
{
	const uint8_t *bytes;
	ssize_t		len;

	if (connection->out == NULL)
		connection->out = allocate(OUT_BYTES * 2);
	while (connection->out_len < OUT_BYTES)
	{
		/* One frame, at most 16 KB and its head. */
		len = nghttp2_session_mem_send(connection->session, &bytes);
		if (len < 0 || connection->out_len + (size_t) len > OUT_BYTES * 2)
		{
			connection_break(connection, "its frames cannot be made");
			return false;
		}
		if (len == 0)
			break;
		memcpy(connection->out + connection->out_len, bytes, (size_t) len);
		connection->out_len += (size_t) len;
	}
	return connection->out_len > 0;
}

static void
write_out(Connection *connection)
{
	while (!connection->broken)
	{
		int			written;

		if (connection->out_len == 0 && !fill_out(connection))
			break;
		written = SSL_write(ssl_of(connection), connection->out + connection->out_sent,
							(int) (connection->out_len - connection->out_sent));
		if (!ssl_went_on(connection, written))
			return;
		connection->progress_at = loop_now();
		connection->out_sent += (size_t) written;
		if (connection->out_sent == connection->out_len)
			connection->out_sent = connection->out_len = 0;
	}
	free(connection->out);
	connection->out = NULL;
}

static void
read_in(Connection *connection)
{
	char		bytes[16 * 1024];

	for (int i = 0; i < READS_AT_ONCE && !connection->broken; i++)
	{
		int			len = SSL_read(ssl_of(connection), bytes, sizeof(bytes));

		if (!ssl_went_on(connection, len))
			return;
		if (nghttp2_session_mem_recv(connection->session, (const uint8_t *) bytes, (size_t) len) < 0)
			connection_break(connection, "its client broke the rules of HTTP/2");
		else if (nghttp2_session_get_outbound_queue_size(connection->session) > QUEUED_FRAMES)
			connection_break(connection, "its client does not read the frames that it causes");
	}
	/* OpenSSL may have more bytes, of which the descriptor does not tell: read again in the next turn. */
	if (!connection->broken)
		loop_timer_start(&connection->turn, 0, run, connection);
}

static void
shake_hands(Connection *connection)
{
	if (!ssl_went_on(connection, SSL_accept(ssl_of(connection))))
		return;
	streams_open(connection, limits.streams);
}

/* A turn of a connection: reads, runs the handlers, writes.  Only this function frees a connection. */
static void
run(void *state)
{
	Connection *connection = state;

	loop_timer_stop(&connection->turn);
	connection->running = true;
	if (!connection->broken && connection->session == NULL)
		shake_hands(connection);
	if (!connection->broken && connection->session != NULL)
	{
		read_in(connection);
		write_out(connection);
		if (!connection->broken && connection->out_len == 0 &&
			nghttp2_session_want_read(connection->session) == 0 &&
			nghttp2_session_want_write(connection->session) == 0)
			connection_break(connection, NULL);
	}
	connection->running = false;
	if (connection->broken)
		connection_free(connection);
}

static void
on_readable(void *state)
{
	run(state);
}

static void
on_writable(void *state)
{
	Connection *connection = state;

	connection->writable_asked = false;
	run(connection);
}

/* ---------- the socket of a connection, for OpenSSL ---------- */

/* OpenSSL's own BIO of sockets is not used, because http/tls.c finds the connection by the data of the BIO. */
static int
bio_write(BIO *bio, const char *bytes, int len)
{
	ssize_t		sent = send(((Connection *) BIO_get_data(bio))->fd, bytes, (size_t) len, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int) sent;
}

static int
bio_read(BIO *bio, char *bytes, int room)
{
	ssize_t		got = recv(((Connection *) BIO_get_data(bio))->fd, bytes, (size_t) room, 0);

	BIO_clear_retry_flags(bio);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		BIO_set_retry_read(bio);
	return (int) got;
}

static long
bio_control(BIO *bio, int command, long number, void *pointer)
{
	return command == BIO_CTRL_FLUSH || command == BIO_CTRL_PUSH || command == BIO_CTRL_POP;
}

static BIO_METHOD *
bio_method(void)
{
	static BIO_METHOD *method;

	if (method != NULL)
		return method;
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "connection");
	if (method == NULL || BIO_meth_set_write(method, bio_write) != 1 || BIO_meth_set_read(method, bio_read) != 1 ||
		BIO_meth_set_ctrl(method, bio_control) != 1)
		abort();
	return method;
}

static ClientCertificate **
peer_of(void *bio_data)
{
	return &((Connection *) bio_data)->peer;
}

/* ---------- accepting ---------- */

/* Closes the oldest connection of a stranger, to make room for a new one. */
static void
make_place(void)
{
	if (connection_counts.strangers < limits.connections / 2 && connection_counts.open < limits.connections)
		return;
	for (Connection *each = oldest; each != NULL; each = each->next)
		if (!each->trusted && !each->broken)
		{
			connection_counts.refused++;
			each->broken = true;
			connection_free(each);
			return;
		}
}

static void
take_connection(int fd)
{
	Connection *connection;
	BIO		   *bio;

	make_place();
	connection_counts.accepted++;
	if (connection_counts.open >= limits.connections)
	{
		connection_counts.refused++;
		close(fd);
		return;
	}
	/* freed by connection_free() */
	connection = allocate(sizeof(Connection));
	connection->fd = fd;
	connection->ssl = SSL_new(tls_context());
	bio = BIO_new(bio_method());
	connection->socket = loop_socket_open(fd, on_readable, connection);
	if (connection->ssl == NULL || bio == NULL || connection->socket == NULL)
	{
		if (connection->socket != NULL)
			loop_socket_close(connection->socket);
		SSL_free(connection->ssl);
		BIO_free(bio);
		close(fd);
		free(connection);
		return;
	}
	BIO_set_data(bio, connection);
	BIO_set_init(bio, 1);
	SSL_set_bio(connection->ssl, bio, bio);
	SSL_set_accept_state(connection->ssl);
	SSL_set_mode(connection->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	connection->previous = newest;
	if (newest != NULL)
		newest->next = connection;
	else
		oldest = connection;
	newest = connection;
	connection_counts.open++;
	connection_counts.strangers++;
	connection->active_at = connection->progress_at = loop_now();
	loop_timer_start(&connection->watch, GOAWAY_MS, watch, connection);
}

static void on_acceptable(void *state);

static void
resume_accepting(void *state)
{
	if (listening_fd >= 0 && listener == NULL)
		listener = loop_socket_open(listening_fd, on_acceptable, NULL);
	if (listening_fd >= 0 && listener == NULL)
		loop_timer_start(&accept_pause, ACCEPT_PAUSE, resume_accepting, NULL);
}

static void
on_acceptable(void *state)
{
	for (int i = 0; i < ACCEPTS_AT_ONCE; i++)
	{
		int			fd = accept4(listening_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
		{
			take_connection(fd);
			continue;
		}
		/* The loop would call again at once: wait until descriptors or memory are free. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
		{
			log_line(LOG_ERROR, "cannot accept connections: %s", strerror(errno));
			loop_socket_close(listener);
			listener = NULL;
			loop_timer_start(&accept_pause, ACCEPT_PAUSE, resume_accepting, NULL);
		}
		return;
	}
}

void
connections_listen(int fd, const ConnectionLimits *given, const StreamHandlers *handlers)
{
	limits = *given;
	streams_start(handlers);
	tls_set_peer_lookup(peer_of);
	listening_fd = fd;
	resume_accepting(NULL);
}

void
connections_stop(void)
{
	loop_timer_stop(&accept_pause);
	if (listener != NULL)
		loop_socket_close(listener);
	listener = NULL;
	listening_fd = -1;
	for (Connection *each = oldest; each != NULL; each = each->next)
		go_away(each);
}

void
connections_close(void)
{
	while (oldest != NULL)
		connection_free(oldest);
}

ConnectionCounts
connections_counts(void)
{
	return connection_counts;
}
