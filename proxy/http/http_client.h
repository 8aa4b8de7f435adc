/*-------------------------------------------------------------------------
 *
 * http_client.h
 *	  The clients of a worker: how many there may be, and how much of a request may be held for them.
 *
 * A client is a connection.  It is a stranger until a certificate or a token
 * has said who it is; strangers have a quarter of everything, and never more,
 * so that they shut out nobody who is known.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ClientLink
{
	struct ClientLink *previous;	/* NULL: in no list */
	struct ClientLink *next;
} ClientLink;

/* Embedded in its connection; zeroed at first. */
typedef struct HttpClient
{
	int			fd;
	bool		known;
	bool		ended;			/* it had to make room: its socket was shut down */
	size_t		held;			/* bytes of requests that have not been answered */
	uint64_t	held_since;		/* milliseconds */
	ClientLink	strangers;		/* all of them, the one first that asked nothing for the longest time */
	ClientLink	holding;		/* those that hold bytes, in the order in which they began to */
} HttpClient;

/* Once in a worker: takes the limits from the flags and from the number of files that may be open. */
extern void http_clients_start(void);

/* A new connection, a stranger.  When there are too many strangers, the first of them has to go. */
extern void http_client_open(HttpClient *client, int fd);
extern void http_client_close(HttpClient *client);

/* It is known who that is, from now on.  False when as many clients are known as may be: it stays a stranger. */
extern bool http_client_recognize(HttpClient *client);

/* It sent a whole head. */
extern void http_client_asks(HttpClient *client);

/*
 * Makes a client hold so many bytes of a request instead of what it held.  False, and nothing changed, when others hold
 * too much.  A stranger makes strangers go that have not sent the whole of theirs for a while.
 */
extern bool http_client_hold(HttpClient *client, size_t bytes);

/* All that it holds has come: it is not made to go for it any more. */
extern void http_client_sent(HttpClient *client);

#endif							/* HTTP_CLIENT_H */
