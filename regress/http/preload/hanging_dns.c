/*
 * hanging_dns.c: a stand-in for DNS, loaded into a proxy before its C library.
 *
 * The name database.test is 127.0.0.1.  While the file named by HANGING_DNS exists, look-ups of names hang.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	int			(*real) (const char *, const char *, const struct addrinfo *, struct addrinfo **) =
	(int (*) (const char *, const char *, const struct addrinfo *, struct addrinfo **)) dlsym(RTLD_NEXT,
																							  "getaddrinfo");

	/* Addresses need no DNS. */
	if (node == NULL || (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0))
		return real(node, service, hints, result);
	while (access(getenv("HANGING_DNS"), F_OK) == 0)
		usleep(10000);
	return real(strcmp(node, "database.test") == 0 ? "127.0.0.1" : node, service, hints, result);
}
