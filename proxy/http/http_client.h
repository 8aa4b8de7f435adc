/*-------------------------------------------------------------------------
 *
 * http_client.h
 *	  The clients of a worker: limits on their number and on the request bytes held for them.
 *
 * A client is a connection.  It is a stranger until a certificate or a token
 * identifies it.  Strangers have at most a quarter of everything, so that they
 * cannot shut out known clients.
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

/* A client, embedded in its connection; zeroed at first. */
typedef struct HttpClient
{
	int			fd;
	bool		known;
	bool		asked;			/* has sent a whole head */
	bool		ended;			/* its socket was shut down to make room */
	size_t		held;			/* bytes held for unanswered requests */
	uint64_t	held_since;		/* loop_now() */
	ClientLink	strangers;		/* list of strangers; the first has been silent for the longest time */
	ClientLink	holding;		/* list of strangers that hold bytes, in the order in which they began */
} HttpClient;

/* Call once in a worker: sets the limits from the flags and the limit on open files. */
extern void http_clients_start(void);

/* Adds a new connection as a stranger.  When there are too many strangers, ends the first of them. */
extern void http_client_open(HttpClient *client, int fd);
extern void http_client_close(HttpClient *client);

/* Marks a client as known.  False when the limit of known clients is reached: it stays a stranger. */
extern bool http_client_recognize(HttpClient *client);

/* Call when the client has sent a whole head. */
extern void http_client_asks(HttpClient *client);

/* How many clients have not sent a whole head yet. */
extern size_t http_clients_silent(void);

/*
 * Sets the number of bytes that a client holds for requests.  Returns false and changes nothing when other clients hold
 * too much.  For a stranger, ends other strangers that have not completed their requests for a second.
 */
extern bool http_client_hold(HttpClient *client, size_t bytes);

/* Call when the whole request has arrived: from then on the client is not ended to make room. */
extern void http_client_sent(HttpClient *client);

#endif							/* HTTP_CLIENT_H */
