/*-------------------------------------------------------------------------
 *
 * sockets.c
 *	  TCP sockets: listening, resets, progress.
 *
 * Each worker listens on its own socket, and the kernel spreads the
 * connections.  With SO_REUSEPORT alone, a second proxy of the same user could
 * take half of them unnoticed; therefore the port is first bound without it.
 *
 *-------------------------------------------------------------------------
 */

#include "base/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A small receive buffer limits how much libh2o parses in one step; inside a cluster it does not slow uploads. */
#define RECEIVE_BUFFER (32 * 1024)

/*
 * Detection of dead peers, in seconds: the first probe is sent after a minute of silence; a connection ends when bytes
 * stay unacknowledged for two minutes.
 */
#define KEEPALIVE_IDLE 60
#define KEEPALIVE_INTERVAL 20
#define KEEPALIVE_COUNT 3
#define UNACKNOWLEDGED_TIMEOUT 120

static void
set_option(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value));
}

/* Returns a bound socket, or -1. */
static int
bind_socket(const char *address, int port, bool shared)
{
	struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t) port)};
	struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
	bool		is_ipv6 = inet_pton(AF_INET6, address, &ipv6.sin6_addr) == 1;
	int			fd = socket(is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int			result;
	int			saved_errno;

	if (fd < 0)
		return -1;
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (shared)
		set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (is_ipv6)
	{
		/* The address :: accepts IPv4 connections too. */
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
		result = bind(fd, (struct sockaddr *) &ipv6, sizeof(ipv6));
	}
	else
	{
		inet_pton(AF_INET, address, &ipv4.sin_addr);
		result = bind(fd, (struct sockaddr *) &ipv4, sizeof(ipv4));
	}
	if (result == 0)
		return fd;
	saved_errno = errno;
	close(fd);
	errno = saved_errno;
	return -1;
}

/* Returns a listening socket, or -1.  Accepted connections inherit all options. */
static int
listen_on(const char *address, int port)
{
	int			fd = bind_socket(address, port, true);

	if (fd < 0)
		return -1;
	set_option(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER);
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
	set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_TIMEOUT * 1000);
	return listen(fd, SOMAXCONN) == 0 ? fd : -1;
}

/* Does not close the sockets after a failure, because the caller then ends the process. */
bool
sockets_listen(const char *address, int port, int *fds, int count, char *why, size_t why_size)
{
	int			probe = bind_socket(address, port, false);
	bool		good = probe >= 0 && listen(probe, 1) == 0;

	if (good)
		close(probe);
	for (int i = 0; i < count && good; i++)
	{
		fds[i] = listen_on(address, port);
		good = fds[i] >= 0;
	}
	if (!good)
		snprintf(why, why_size, "cannot listen on %s port %d: %s", address, port, strerror(errno));
	return good;
}

/*
 * Linux sends the reset at once when a socket is disconnected.  If that fails, the connection is shut down, and the
 * reset follows when the descriptor is closed.
 */
void
socket_reset(int fd)
{
	struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
	struct linger reset = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (connect(fd, &nowhere, sizeof(nowhere)) != 0)
		shutdown(fd, SHUT_RDWR);
}

uint64_t
socket_stalled(int fd, SocketProgress *progress, uint64_t now)
{
	struct tcp_info info;
	socklen_t	len = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_bytes_acked != progress->acknowledged)
	{
		progress->acknowledged = info.tcpi_bytes_acked;
		progress->at = now;
	}
	/* progress->at may be later than now: now is the start of this turn of the loop. */
	return now > progress->at ? now - progress->at : 0;
}
