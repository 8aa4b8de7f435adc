/*-------------------------------------------------------------------------
 *
 * http_client.c
 *	  The clients of a worker: limits on their number and on the request bytes held for them.
 *
 * libh2o passes on only whole requests, so a worker must hold a body before it
 * knows the rights of the client.  There are two limits of held bytes, one for
 * all unknown clients (strangers) and one for all known clients; a request
 * counts with the length that it announces.  A request that finds no room is
 * refused (429) at the end of its head.
 *
 * Anyone can fill the share of strangers and then send nothing.  Therefore a
 * stranger that has not sent a whole request within a second makes room for a
 * new one.  When there are too many connections of strangers, the one that has
 * been silent for the longest time is closed.
 *
 *-------------------------------------------------------------------------
 */
#include "http/http_client.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"

/* Milliseconds.  A stranger that needs longer for its request may be closed to make room for another one. */
#define PATIENCE 1000

/* Shortest time between log lines about clients, in milliseconds. */
#define LOG_INTERVAL 5000

/* Descriptors that are not client connections: database, kube-apiserver, listeners, short-lived files. */
#define OTHER_FILES 128

/* A share of all connections and bytes. */
typedef struct Share
{
	size_t		clients;
	size_t		client_limit;
	size_t		held;
	size_t		held_limit;
} Share;

static Share shares[2];			/* the shares of strangers and of known clients */
static size_t silent_count;		/* clients that have not sent a whole head yet */

static ClientLink strangers = {&strangers, &strangers};
static ClientLink holding = {&holding, &holding};

#define CLIENT_OF(link, member) ((HttpClient *) ((char *) (link) - offsetof(HttpClient, member)))

static void
unlink_client(ClientLink *link)
{
	if (link->previous == NULL)
		return;
	link->previous->next = link->next;
	link->next->previous = link->previous;
	link->previous = link->next = NULL;
}

static void
append_client(ClientLink *list, ClientLink *link)
{
	unlink_client(link);
	link->previous = list->previous;
	link->next = list;
	list->previous->next = link;
	list->previous = link;
}

static Share *
share_of(const HttpClient *client)
{
	return &shares[client->known];
}

void
http_clients_start(void)
{
	size_t		clients = config.max_connections;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
	{
		size_t		most = files.rlim_cur > 2 * OTHER_FILES ? files.rlim_cur - OTHER_FILES : files.rlim_cur / 2;

		if (clients > most)
		{
			log_line(LOG_ERROR, "a worker serves %zu connections instead of %zu, because it may open %zu files", most,
					 clients, (size_t) files.rlim_cur);
			clients = most;
		}
	}
	shares[false].client_limit = clients / 4;
	shares[true].client_limit = clients - clients / 4;
	shares[false].held_limit = config.max_buffered_body_bytes / 4;
	shares[true].held_limit = config.max_buffered_body_bytes - config.max_buffered_body_bytes / 4;
}

static void
set_held(HttpClient *client, size_t bytes)
{
	share_of(client)->held += bytes - client->held;
	metrics_gauge_add(GAUGE_REQUEST_BYTES, (long) bytes - (long) client->held);
	if (bytes == 0)
		unlink_client(&client->holding);
	else if (client->held == 0)
	{
		client->held_since = loop_now();
		if (!client->known)
			append_client(&holding, &client->holding);
	}
	client->held = bytes;
}

/* Removes a client from the share of strangers. */
static void
leave_strangers(HttpClient *client)
{
	unlink_client(&client->strangers);
	unlink_client(&client->holding);
	shares[false].clients--;
	metrics_gauge_add(GAUGE_STRANGERS, -1);
}

/*
 * Ends a stranger's connection: the loop frees the connection when it finds the socket shut down.  The client counts in
 * no limit from now on.
 */
static void
end_stranger(HttpClient *client, const char *why)
{
	static uint64_t logged_at;
	uint64_t	now = loop_now();

	set_held(client, 0);
	leave_strangers(client);
	client->ended = true;
	shutdown(client->fd, SHUT_RDWR);
	metrics_count(COUNTER_CONNECTIONS_ENDED, 1);
	if (logged_at != 0 && now - logged_at < LOG_INTERVAL)
		return;
	logged_at = now;
	log_line(LOG_ERROR, "connections of unauthenticated clients are closed: %s", why);
}

void
http_client_open(HttpClient *client, int fd)
{
	client->fd = fd;
	silent_count++;
	append_client(&strangers, &client->strangers);
	shares[false].clients++;
	metrics_gauge_add(GAUGE_CONNECTIONS, 1);
	metrics_gauge_add(GAUGE_STRANGERS, 1);
	if (shares[false].clients > shares[false].client_limit)
		end_stranger(CLIENT_OF(strangers.next, strangers), "there are too many of them (--max-connections)");
}

void
http_client_close(HttpClient *client)
{
	if (!client->asked)
		silent_count--;
	metrics_gauge_add(GAUGE_CONNECTIONS, -1);
	if (client->ended)
		return;
	set_held(client, 0);
	if (client->known)
		shares[true].clients--;
	else
		leave_strangers(client);
}

bool
http_client_recognize(HttpClient *client)
{
	size_t		held = client->held;

	if (client->known || client->ended)
		return true;
	if (shares[true].clients >= shares[true].client_limit)
		return false;
	set_held(client, 0);
	leave_strangers(client);
	client->known = true;
	shares[true].clients++;
	/* The bytes that the client holds already move to the other share, even when it is full. */
	set_held(client, held);
	return true;
}

void
http_client_asks(HttpClient *client)
{
	if (!client->asked)
	{
		client->asked = true;
		silent_count--;
	}
	if (!client->known && !client->ended)
		append_client(&strangers, &client->strangers);
}

size_t
http_clients_silent(void)
{
	return silent_count;
}

/* Whether so many bytes fit beside the bytes of other clients.  When other clients hold none, a request always fits. */
static bool
fits(const HttpClient *client, size_t bytes)
{
	const Share *share = share_of(client);
	size_t		others = share->held - client->held;

	return others == 0 || (others < share->held_limit && bytes <= share->held_limit - others);
}

bool
http_client_hold(HttpClient *client, size_t bytes)
{
	if (client->ended)
		return true;
	while (bytes > client->held && !fits(client, bytes))
	{
		HttpClient *first = holding.next == &holding ? NULL : CLIENT_OF(holding.next, holding);

		if (client->known || first == NULL || first == client || loop_now() - first->held_since < PATIENCE)
			return false;
		end_stranger(first, "too many bytes of incomplete requests are held (--max-buffered-body-bytes)");
	}
	set_held(client, bytes);
	return true;
}

void
http_client_sent(HttpClient *client)
{
	unlink_client(&client->holding);
}
