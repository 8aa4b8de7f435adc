/*-------------------------------------------------------------------------
 *
 * transfer.h
 *	  Sends HTTP requests; hides libcurl's types.
 *
 * Only for kubeapi*.c, ask.c and webhook.c.  Callers that post to
 * kube-apiserver name a budget.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "cluster/kubeconfig.h"

typedef struct Transfer Transfer;

/* Connections kept open between calls of transfer_run(), in the process that opened them. */
typedef struct TransferConnections TransferConnections;

/*
 * Each budget has its own connections, so that one kind of transfer never waits for another.  review.c defines which
 * tokens and users are strange.
 */
typedef enum TransferBudget
{
	TRANSFER_OTHER,				/* watches, calls, webhooks: clients cannot cause many of these */
	TRANSFER_TOKENS,			/* TokenReviews of tokens that were valid before */
	TRANSFER_STRANGE_TOKENS,
	TRANSFER_ACCESS,			/* SubjectAccessReviews of authenticated users */
	TRANSFER_STRANGE_ACCESS,
	TRANSFER_BUDGET_COUNT
} TransferBudget;

typedef struct TransferRequest
{
	TransferBudget budget;
	const char *path;			/* with its query; escaped */
	const char *method;			/* NULL: GET; with a body POST or PATCH */
	const char *accept;			/* media type; NULL: application/json */
	const char *content_type;	/* of the body; NULL: JSON, or a merge patch */
	const char *body;			/* NULL: none.  Belongs to the caller; must be valid until the end */
	size_t		body_len;
	const char *const *headers; /* more headers, "name: value", ended by NULL; NULL: none.  Copied */
	bool		patch;			/* send the body as a merge patch, not by POST */
	long		timeout_ms;		/* for the whole transfer */
	/* HOST:PORT to connect to instead of the server, whose name is still verified; NULL: none */
	const char *connect_to;
	TransferConnections *connections;	/* for transfer_run(): keeps connections here; NULL: none are kept */
	/* retry_after and untrusted are set before done() runs; NULL: not wanted. */
	long	   *retry_after;	/* seconds */
	bool	   *untrusted;		/* the server's certificate has another name or an unknown CA */
	/* Called when the head of the answer has arrived; NULL: not wanted.  Must not call functions of transfer.h. */
	void		(*begun) (void *state, int status);

	/* Where the bytes of the answer are appended; NULL: nowhere.  An answer beyond the limit ends the transfer. */
	StrBuf	   *received;
	size_t		limit;

	/*
	 * Called when bytes of the answer have arrived; returns false to end the transfer.  NULL: not wanted.  libcurl is
	 * the caller, so this must not call functions of transfer.h.
	 */
	bool		(*take) (void *state, int status, const char *bytes, size_t len);

	/*
	 * Called from the loop when the transfer has ended and was freed.  status 0: no complete answer, and why has the
	 * reason.
	 */
	void		(*done) (void *state, int status, const char *why);
	void	   *state;
} TransferRequest;

/* Starts a transfer on the loop.  The request is copied, except for its body. */
extern Transfer *transfer_start(const KubeConfig *kubeconfig, const TransferRequest *request);

/* Ends a transfer and frees it.  No callback runs afterwards. */
extern void transfer_cancel(Transfer *transfer);

/* Runs a transfer to its end, which calls take() and done().  It blocks: not for a worker. */
extern void transfer_run(const KubeConfig *kubeconfig, const TransferRequest *request);

extern TransferConnections *transfer_connections_open(void);
extern void transfer_connections_close(TransferConnections *connections);

/* Returns a text percent-encoded, for a value in a query. */
extern const char *transfer_escape(Arena *arena, const char *text);

#endif							/* TRANSFER_H */
