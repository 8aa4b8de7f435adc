/*-------------------------------------------------------------------------
 *
 * notify.c
 *	  Tells the service manager how the start and the end go.
 *
 * The protocol of sd_notify(3), for which no library is needed: one datagram
 * to the socket that NOTIFY_SOCKET names.  Without that variable, as in a
 * container, there is nobody to tell.
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

/* A manager that cannot be told gives the start up after a while: the log then has the reason. */
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
