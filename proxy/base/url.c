/*-------------------------------------------------------------------------
 *
 * url.c
 *	  Whether a URL of a flag can be.
 *
 * libcurl would refuse a wrong URL with each request, long after the start.
 *
 *-------------------------------------------------------------------------
 */
#include "base/url.h"

#include <arpa/inet.h>
#include <string.h>

#include "engine/base/ascii.h"

#define MOST_NAME 253
#define MOST_LABEL 63

static bool
is_name_byte(char c)
{
	return ascii_is_letter(c) || ascii_is_digit(c) || c == '_';
}

/* Whether len bytes are an address of this family. */
static bool
is_ip(int family, const char *text, size_t len)
{
	char		copy[MOST_NAME + 1];
	unsigned char bytes[sizeof(struct in6_addr)];

	if (len > MOST_NAME)
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return inet_pton(family, copy, bytes) == 1;
}

/* Whether len bytes are a DNS name, or an IPv4 address: what ends with a label of digits is no name. */
static bool
is_name(const char *text, size_t len)
{
	size_t		start = 0;
	bool		digits = true;

	if (len > 1 && text[len - 1] == '.')
		len--;
	if (len == 0 || len > MOST_NAME)
		return false;
	for (size_t i = 0; i <= len; i++)
		if (i == len || text[i] == '.')
		{
			if (i == start || i - start > MOST_LABEL || text[start] == '-' || text[i - 1] == '-')
				return false;
			if (i == len)
				break;
			start = i + 1;
			digits = true;
		}
		else if (!is_name_byte(text[i]) && text[i] != '-')
			return false;
		else
			digits = digits && ascii_is_digit(text[i]);
	return !digits || is_ip(AF_INET, text, len);
}

static bool
is_port(const char *text, size_t len)
{
	unsigned	port = 0;

	for (size_t i = 0; i < len; i++)
	{
		if (!ascii_is_digit(text[i]) || i == 5)
			return false;
		port = port * 10 + (unsigned) (text[i] - '0');
	}
	return port >= 1 && port <= 65535;
}

static bool
is_address(const char *text, size_t len)
{
	const char *end;
	const char *colon;
	size_t		host;

	if (len > 0 && text[0] == '[')
	{
		end = memchr(text, ']', len);
		if (end == NULL || !is_ip(AF_INET6, text + 1, (size_t) (end - text) - 1))
			return false;
		host = (size_t) (end - text) + 1;
	}
	else
	{
		colon = memchr(text, ':', len);
		host = colon == NULL ? len : (size_t) (colon - text);
		if (!is_name(text, host))
			return false;
	}
	return host == len || (text[host] == ':' && is_port(text + host + 1, len - host - 1));
}

bool
url_is_address(const char *text)
{
	return is_address(text, strlen(text));
}

bool
url_is(const char *text, const char *scheme)
{
	size_t		start = strlen(scheme);
	size_t		len;

	if (strncmp(text, scheme, start) != 0)
		return false;
	len = strcspn(text + start, "/");
	if (!is_address(text + start, len))
		return false;
	for (const char *c = text + start + len; *c != '\0'; c++)
		if (*c <= ' ' || *c > '~' || *c == '?' || *c == '#')
			return false;
	return true;
}
