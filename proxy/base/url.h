/*-------------------------------------------------------------------------
 *
 * url.h
 *	  Whether a URL of a flag can be.
 *
 *-------------------------------------------------------------------------
 */
#ifndef URL_H
#define URL_H

#include <stdbool.h>

/*
 * Whether text is HOST or HOST:PORT: a DNS name, an IPv4 address or an IPv6 address in brackets; a port of 1 to 65535.
 * is_https_url() in sql/export/outgoing.sql says the same of the URLs of webhooks.
 */
extern bool url_is_address(const char *text);

/* Whether text is a scheme, such as "https://", with such an address and perhaps a path of visible characters. */
extern bool url_is(const char *text, const char *scheme);

#endif							/* URL_H */
