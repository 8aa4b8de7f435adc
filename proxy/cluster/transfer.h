/*-------------------------------------------------------------------------
 *
 * transfer.h
 *	  HTTP requests that this process sends, without libcurl's types.
 *
 * For kubeapi*.c, ask.c and webhook.c alone; who posts to kube-apiserver names a budget.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "cluster/kubeconfig.h"

typedef struct Transfer Transfer;

/* Connections that are kept between calls of transfer_run(), in the process that opened them. */
typedef struct TransferConnections TransferConnections;

/*
 * Each budget has connections of its own, so that one kind of transfers never waits for another.  Who is a stranger,
 * review.c says.
 */
typedef enum TransferBudget
{
	TRANSFER_OTHER,				/* watches, calls, webhooks: nothing that a client can make many of */
	TRANSFER_TOKENS,			/* TokenReviews of tokens that were good before */
	TRANSFER_STRANGE_TOKENS,
	TRANSFER_ACCESS,			/* SubjectAccessReviews of authenticated users */
	TRANSFER_STRANGE_ACCESS,
	TRANSFER_BUDGET_COUNT
} TransferBudget;

typedef struct TransferRequest
{
	TransferBudget budget;
	const char *path;			/* with its query; escaped */
	const char *method;			/* NULL: GET, or POST or PATCH where there is a body */
	const char *accept;			/* media type; NULL: application/json */
	const char *content_type;	/* of the body; NULL: JSON, or a merge patch */
	const char *body;			/* NULL: none.  Stays the caller's, until the end */
	size_t		body_len;
	const char *const *headers; /* further ones, "name: value", up to a NULL; NULL: none.  Copied */
	bool		patch;			/* the body is a merge patch, and no POST */
	long		timeout_ms;		/* for all of it */
	/* HOST:PORT that stands for the server's, whose name is verified all the same; NULL: none */
	const char *connect_to;
	TransferConnections *connections;	/* for transfer_run(): are kept here; NULL: not at all */
	/* Set before done; NULL: nobody asks. */
	long	   *retry_after;	/* seconds */
	bool	   *untrusted;		/* the server's certificate is not that server's, or of no CA that is known */
	/* The head of the answer has come; NULL: nobody asks.  As for take. */
	void		(*begun) (void *state, int status);

	/*
	 * Bytes of the answer; false ends the transfer.  Called by libcurl: nothing of transfer.h may be called from here.
	 */
	bool		(*take) (void *state, int status, const char *bytes, size_t len);
	/* The end, from the loop.  status 0: there was no whole answer, and why says so.  The transfer is gone. */
	void		(*done) (void *state, int status, const char *why);
	void	   *state;
} TransferRequest;

extern Transfer *transfer_start(const KubeConfig *kubeconfig, const TransferRequest *request);

/* No callback comes afterwards. */
extern void transfer_cancel(Transfer *transfer);

/* Waits for the end, calling take and done: not in a worker. */
extern void transfer_run(const KubeConfig *kubeconfig, const TransferRequest *request);

extern TransferConnections *transfer_connections_open(void);
extern void transfer_connections_close(TransferConnections *connections);

/* Percent-encoded, for a value in a query. */
extern const char *transfer_escape(Arena *arena, const char *text);

#endif							/* TRANSFER_H */
