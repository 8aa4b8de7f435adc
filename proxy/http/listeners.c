/*-------------------------------------------------------------------------
 *
 * listeners.c
 *	  The listening sockets of all workers, and the workers that accept at them.
 *
 * Each worker has a socket for each port, with SO_REUSEPORT, so that the
 * kernel spreads connections evenly.  The parent opens all sockets before it
 * forks, so every process holds every socket.  The kernel continues to give
 * connections to the socket of a worker that died.  The other workers accept
 * them until the restarted worker has attached, which may take seconds after
 * repeated deaths.
 *
 *-------------------------------------------------------------------------
 */
#include "http/listeners.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "http/server.h"
#include "base/sockets.h"

#define MAX_WORKERS 64

typedef struct WorkerSockets
{
	int			api_fd;
	int			metrics_fd;		/* -1 for none */
	int			forward_fd;		/* likewise */
	bool		accepting;		/* this process accepts in place of the worker */
} WorkerSockets;

static WorkerSockets sockets[MAX_WORKERS];
static int	own;				/* this worker's index in sockets */
static const HttpListener *api_listener;
static const HttpListener *plain_listener;
static const HttpListener *forward_listener;

/* Shared by all processes: whether a worker is gone, so that the others must accept at its sockets. */
static atomic_bool *orphaned;

bool
listeners_open(char *why, size_t why_size)
{
	int			fds[MAX_WORKERS];

	orphaned = mmap(NULL, sizeof(*orphaned) * MAX_WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (orphaned == MAP_FAILED)
	{
		snprintf(why, why_size, "shared memory for listening sockets: %s", strerror(errno));
		return false;
	}
	if (!sockets_listen(config.bind_address, config.secure_port, fds, config.workers, why, why_size))
		return false;
	for (int i = 0; i < config.workers; i++)
	{
		sockets[i].api_fd = fds[i];
		sockets[i].metrics_fd = -1;
		sockets[i].forward_fd = -1;
	}
	if (config.forward_port != 0)
	{
		if (!sockets_listen(config.bind_address, config.forward_port, fds, config.workers, why, why_size))
			return false;
		for (int i = 0; i < config.workers; i++)
			sockets[i].forward_fd = fds[i];
	}
	if (config.metrics_port == 0)
		return true;
	if (!sockets_listen(config.metrics_bind_address, config.metrics_port, fds, config.workers, why, why_size))
		return false;
	for (int i = 0; i < config.workers; i++)
		sockets[i].metrics_fd = fds[i];
	return true;
}

void
listeners_worker_gone(int worker)
{
	atomic_store(&orphaned[worker], true);
}

static void
listen_at(const HttpListener *listener, int fd)
{
	HttpListener at = *listener;

	at.fd = fd;
	http_server_listen(&at);
}

static void
accept_at(const WorkerSockets *pair)
{
	/* Listen again: a worker that a signal stopped has shut its socket down. */
	listen(pair->api_fd, SOMAXCONN);
	listen_at(api_listener, pair->api_fd);
	if (pair->metrics_fd >= 0)
		listen_at(plain_listener, pair->metrics_fd);
	if (pair->forward_fd >= 0)
	{
		listen(pair->forward_fd, SOMAXCONN);
		listen_at(forward_listener, pair->forward_fd);
	}
}

void
listeners_close(void)
{
	for (int i = 0; i < config.workers; i++)
	{
		close(sockets[i].api_fd);
		if (sockets[i].metrics_fd >= 0)
			close(sockets[i].metrics_fd);
		if (sockets[i].forward_fd >= 0)
			close(sockets[i].forward_fd);
	}
}

void
listeners_attach(int worker, const HttpListener *api, const HttpListener *plain, const HttpListener *forward)
{
	forward_listener = forward;
	api_listener = api;
	plain_listener = plain;
	own = worker;
	accept_at(&sockets[worker]);
	atomic_store(&orphaned[worker], false);
}

void
listeners_tick(void)
{
	for (int i = 0; i < config.workers; i++)
	{
		WorkerSockets *pair = &sockets[i];
		bool		wanted = atomic_load(&orphaned[i]);

		if (i == own || wanted == pair->accepting)
			continue;
		pair->accepting = wanted;
		if (wanted)
			accept_at(pair);
		else
		{
			http_server_unlisten(pair->api_fd);
			http_server_unlisten(pair->metrics_fd);
			http_server_unlisten(pair->forward_fd);
		}
	}
}
