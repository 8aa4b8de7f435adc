/*-------------------------------------------------------------------------
 *
 * watchdog.c
 *	  Cuts connections that take too long: heads, bodies, answers.
 *
 * libmicrohttpd's own time limit begins anew with each byte, so a peer that
 * sends a byte now and then would keep its connection for ever.  The list has
 * as many entries as the limits of connections allow, of both ports.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/watchdog.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "base/allocate.h"
#include "base/log.h"
#include "evidence/counts.h"
#include "evidence/options.h"

/* The rate of a transfer is its average over at least this time, in milliseconds. */
#define RATE_MS 30000

struct Peer
{
	Peer	   *next;
	Peer	  **link;			/* the pointer to this entry */
	int			fd;
	bool		of_senders;
	bool		transfers;
	uint64_t	since;			/* start of the head or transfer, milliseconds, later by the excused time */
	uint64_t	excused_at;		/* start of the present excuse; 0: none, the time of the peer runs */
	uint64_t	bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Peer *peers;

static uint64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

Peer *
peer_open(int fd, bool of_senders)
{
	Peer	   *peer = allocate(sizeof(Peer));

	peer->fd = fd;
	peer->of_senders = of_senders;
	peer->since = now_ms();
	pthread_mutex_lock(&lock);
	peer->next = peers;
	peer->link = &peers;
	if (peers != NULL)
		peers->link = &peer->next;
	peers = peer;
	pthread_mutex_unlock(&lock);
	return peer;
}

void
peer_close(Peer *peer)
{
	pthread_mutex_lock(&lock);
	*peer->link = peer->next;
	if (peer->next != NULL)
		peer->next->link = peer->link;
	pthread_mutex_unlock(&lock);
	free(peer);
}

void
peer_transfers(Peer *peer)
{
	pthread_mutex_lock(&lock);
	peer->transfers = true;
	peer->since = now_ms();
	peer->bytes = 0;
	pthread_mutex_unlock(&lock);
}

void
peer_progress(Peer *peer, size_t bytes)
{
	pthread_mutex_lock(&lock);
	peer->bytes += bytes;
	pthread_mutex_unlock(&lock);
}

void
peer_excuse(Peer *peer, bool begins)
{
	uint64_t	now = now_ms();

	pthread_mutex_lock(&lock);
	if (begins)
		peer->excused_at = now;
	else if (peer->excused_at != 0)
	{
		peer->since += now - peer->excused_at;
		peer->excused_at = 0;
	}
	pthread_mutex_unlock(&lock);
}

void
peer_cut(Peer *peer)
{
	shutdown(peer->fd, SHUT_RDWR);
}

unsigned
peer_count(void)
{
	unsigned	count = 0;

	pthread_mutex_lock(&lock);
	for (const Peer *peer = peers; peer != NULL; peer = peer->next)
		count += peer->of_senders;
	pthread_mutex_unlock(&lock);
	return count;
}

static const char *
fault(const Peer *peer, uint64_t now)
{
	uint64_t	taken = now > peer->since ? now - peer->since : 0;

	if (peer->excused_at != 0)
		return NULL;
	if (!peer->transfers)
		return taken > (uint64_t) options.head_timeout * 1000 ? "the head of a request did not arrive in time" : NULL;
	if (taken > (uint64_t) options.upload_timeout * 1000)
		return "a transfer took longer than --upload-timeout";
	if (taken > RATE_MS && peer->bytes * 1000 / taken < options.min_rate)
		return "a transfer was slower than --min-rate";
	return NULL;
}

void
watchdog_look(void)
{
	uint64_t	now = now_ms();
	const char *last = NULL;
	int			count = 0;

	pthread_mutex_lock(&lock);
	for (Peer *peer = peers; peer != NULL; peer = peer->next)
	{
		const char *why = fault(peer, now);

		if (why == NULL)
			continue;
		last = why;
		count++;
		/* The descriptor is open until peer_close(). */
		peer_cut(peer);
		peer->since = now;
	}
	pthread_mutex_unlock(&lock);
	counts_slow((unsigned) count);
	if (count > 0)
		log_line(LOG_WARNING, "%d connections were closed: %s", count, last);
}
