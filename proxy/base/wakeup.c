/*-------------------------------------------------------------------------
 *
 * wakeup.c
 *	  Datagrams between workers.
 *
 * Each worker reads one socket; all workers have the other end of it.  The
 * kernel limits the number of waiting datagrams (net.unix.max_dgram_qlen); a
 * worker that is too slow misses some.
 *
 *-------------------------------------------------------------------------
 */
#include "base/wakeup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/loop.h"

typedef struct Wakeup
{
	int64_t		version;
	int32_t		lane;
} Wakeup;

typedef struct Mailbox
{
	int			read_fd;
	int			write_fd;
	LoopSocket *listener;		/* in its worker; stays open until the process ends */
} Mailbox;

static Mailbox *mailboxes;
static int	mailbox_count;
static int	mine;				/* number of this worker */
static void (*tell_heard) (int lane, int64_t version);

void
wakeup_init(int workers)
{
	mailboxes = calloc((size_t) workers, sizeof(Mailbox));
	mailbox_count = workers;
	for (int i = 0; i < workers; i++)
	{
		int			ends[2];

		if (mailboxes == NULL || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
		{
			fprintf(stderr, "kube-reports-proxy: sockets between workers: %s\n", strerror(errno));
			exit(1);
		}
		mailboxes[i] = (Mailbox) {.read_fd = ends[0], .write_fd = ends[1]};
	}
}

static void
mailbox_readable(void *state)
{
	Wakeup		wakeup;

	while (recv(mailboxes[mine].read_fd, &wakeup, sizeof(wakeup), 0) == (ssize_t) sizeof(wakeup))
		tell_heard(wakeup.lane, wakeup.version);
}

void
wakeup_attach(int worker, void (*heard) (int lane, int64_t version))
{
	mine = worker;
	tell_heard = heard;
	mailboxes[worker].listener = loop_socket_open(mailboxes[worker].read_fd, mailbox_readable, NULL);
}

void
wakeup_tell(int lane, int64_t version)
{
	Wakeup		wakeup = {.version = version, .lane = lane};

	for (int i = 0; i < mailbox_count; i++)
	{
		if (i != mine)
			send(mailboxes[i].write_fd, &wakeup, sizeof(wakeup), MSG_NOSIGNAL);
	}
}
