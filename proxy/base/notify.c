/*-------------------------------------------------------------------------
 *
 * notify.c
 *	  Tells the service manager that the proxy is ready or stopping.
 *
 * Implements the protocol of sd_notify(3), which needs no library: one
 * datagram to the socket that NOTIFY_SOCKET names.  Without that variable, as
 * in a container, nothing is sent.
 *
 *-------------------------------------------------------------------------
 */
#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

/* When sending fails, the manager aborts the start after its time-out; the log has the reason. */
static void
notify(const char *state)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t		len;
	int			fd;

	if (name == NULL || name[0] == '\0')
		return;
	len = strlen(name);
	if ((name[0] != '/' && name[0] != '@') || len >= sizeof(address.sun_path))
	{
		log_line(LOG_ERROR, "NOTIFY_SOCKET names no socket: %s", name);
		return;
	}
	memcpy(address.sun_path, name, len);
	/* A name in the abstract namespace begins with a NUL, which is written as "@". */
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *) &address,
						 (socklen_t) (offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_line(LOG_ERROR, "cannot tell the service manager \"%s\" at %s: %s", state, name, strerror(errno));
	if (fd >= 0)
		close(fd);
}

void
notify_ready(void)
{
	notify("READY=1");
}

void
notify_stopping(void)
{
	notify("STOPPING=1");
}
