/*-------------------------------------------------------------------------
 *
 * loop_socket.c
 *	  Descriptors of other libraries in the event loop of a worker.
 *
 *-------------------------------------------------------------------------
 */
#include "http/http_h2o.h"

#include <errno.h>
#include <fcntl.h>

#include "base/log.h"

struct LoopSocket
{
	h2o_socket_t *socket;
	void		(*readable) (void *state);
	void		(*writable) (void *state);
	void	   *state;
};

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
	foreign->socket = h2o_evloop_socket_create(http_context.loop, copy, H2O_SOCKET_FLAG_DONT_READ);
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
