/*-------------------------------------------------------------------------
 *
 * ask.h
 *	  Requests whose answer is waited for: for commands, never for a worker.
 *
 * An arena that the caller gives holds the answer; nothing else grows with it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ASK_H
#define ASK_H

#include "cluster/kubeconfig.h"

/* A server, with the connections to it that are kept.  Lives as long as the process. */
typedef struct Asker Asker;

/*
 * kube-apiserver by a kubeconfig, as for kubeconfig_load(), which is read anew every minute.  NULL with *why when
 * it cannot be had.
 */
extern Asker *asker_open(Arena *arena, const char *kubeconfig, const char **why);

/*
 * Another server, with the credentials of that one; the CA is PEM.  server is https://host:port; connect_to is the
 * HOST:PORT that stands for it, while the certificate must still be that host's; NULL: the host itself.
 * Everything is copied.
 */
extern Asker *asker_for(Asker *kube, const char *server, JsonText ca, const char *connect_to);
extern void asker_close(Asker *asker);

/* https://host:port, for messages. */
extern const char *asker_server(Asker *asker);

typedef struct Ask
{
	const char *method;			/* NULL: GET */
	const char *path;			/* with its query, escaped; begins with a slash */
	const char *accept;			/* media type; NULL: application/json */
	const char *content_type;	/* NULL: application/json */
	JsonText	body;			/* without bytes: none */
	size_t		answer_limit;	/* bytes of the answer; 0: 4 MiB */
	long		timeout_ms;		/* of each attempt; 0: 10 s */
	int			attempts;		/* at most; 0: 5 */
} Ask;

typedef struct Answer
{
	int			status;			/* 0: there was none, and why says so */
	bool		untrusted;		/* because of the server's certificate */
	JsonText	body;			/* NUL-terminated */
	const char *why;			/* what went wrong, in one line; NULL with a status below 300 */
} Answer;

/*
 * Asks, and asks again: after 429 and 503 with Retry-After when that says (at most 30 s), after other 429 half a
 * second later and half as long again each time.  After other 5xx or without an answer only a GET is tried again:
 * another request may have been carried out.  Body and why are in the arena.
 */
extern Answer ask(Asker *asker, Arena *arena, const Ask *question);

/* The same for JSON; NULL with answer->why where the answer is none, or its status is 300 or above. */
extern const JsonNode *ask_document(Asker *asker, Arena *arena, const Ask *question, Answer *answer);

#endif							/* ASK_H */
