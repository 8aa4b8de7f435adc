/*-------------------------------------------------------------------------
 *
 * ask.h
 *	  Blocking requests: for commands and at the start, never for a worker's loop.
 *
 * The caller's arena holds the answer; no other memory grows with the answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ASK_H
#define ASK_H

#include "cluster/kubeconfig.h"
#include "codec/kube_json.h"

/* A server, the credentials for it, and the open connections to it. */
typedef struct Asker Asker;

/*
 * Returns an Asker for the kube-apiserver of a kubeconfig (see kubeconfig_load()), which is read again every minute.
 * NULL with *why on failure.
 */
extern Asker *asker_open(Arena *arena, const char *kubeconfig, const char **why);

/*
 * Returns an Asker for another server, with the credentials of kube.  server is https://host:port; ca is PEM.
 * connect_to is a HOST:PORT to connect to instead, while the certificate must still name server's host; NULL: connect
 * to server.  All texts are copied.
 */
extern Asker *asker_for(Asker *kube, const char *server, JsonText ca, const char *connect_to);
extern void asker_close(Asker *asker);

/* Returns https://host:port of the server, for messages. */
extern const char *asker_server(Asker *asker);

typedef struct Ask
{
	const char *method;			/* NULL: GET */
	const char *path;			/* with its query, escaped; begins with a slash */
	const char *accept;			/* media type; NULL: application/json */
	const char *content_type;	/* NULL: application/json */
	JsonText	body;			/* without bytes: none */
	size_t		answer_limit;	/* largest size of the answer in bytes; 0: 4 MiB */
	long		timeout_ms;		/* time limit of each attempt; 0: 10 s */
	int			attempts;		/* largest number of attempts; 0: 5 */
} Ask;

typedef struct Answer
{
	int			status;			/* HTTP status; 0: no answer, why has the reason */
	bool		untrusted;		/* the server's certificate is not trusted */
	JsonText	body;			/* NUL-terminated */
	const char *why;			/* what went wrong, in one line; NULL with a status below 300 */
} Answer;

/*
 * Sends the request and repeats it if needed.  After 429 and 503 with Retry-After, ask() waits that long (at most 30
 * s); after other 429 it waits half a second, then half as long again each time.  After other 5xx or without an answer
 * only a GET is repeated: another request may have been executed.  body and why are in the arena.
 */
extern Answer ask(Asker *asker, Arena *arena, const Ask *question);

/* The same for an answer in JSON, whose reference the caller gets.  NULL with answer->why when there is none. */
extern json_t *ask_document(Asker *asker, Arena *arena, const Ask *question, Answer *answer);

/*
 * Returns the uid of the namespace kube-system, which identifies the cluster, in the arena; NULL with answer->why on
 * failure.  attempts: as in Ask.
 */
extern const char *ask_cluster_uid(Asker *asker, Arena *arena, int attempts, Answer *answer);

#endif							/* ASK_H */
