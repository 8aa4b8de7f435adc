/*-------------------------------------------------------------------------
 *
 * kubeapi.h
 *	  The proxy as a client of kube-apiserver: calls, and long-lived watches.
 *
 * Each worker has its own connections.  No function here blocks the loop;
 * functions of ask.h block.  The loop runs the callbacks; a function never
 * runs a callback before it returns.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KUBEAPI_H
#define KUBEAPI_H

#include "cluster/transfer.h"
#include "codec/kube_json.h"

/* One kube-apiserver, reached with one kubeconfig.  Lives as long as the worker. */
typedef struct KubeApi KubeApi;

/*
 * Returns the KubeApi of a kubeconfig; path as for kubeconfig_load(), copied.  The same path gives the same KubeApi.
 * The kubeconfig is read again every minute, and the file of a token for each request.  When the kubeconfig cannot be
 * read the first time, logs the reason and exits.
 */
extern KubeApi *kubeapi_open(const char *path);

/* ---------- calls ---------- */

/* A call in progress.  The pointer becomes invalid when the KubeAnswer runs. */
typedef struct KubeCall KubeCall;

/*
 * Runs once, unless the call is cancelled.  status: the HTTP status of the answer, and why is NULL; 0: no answer came,
 * and why has the reason.  answer is NULL when it is not JSON.  answer and why are valid until the function returns.
 */
typedef void (*KubeAnswer) (void *state, int status, const json_t *answer, const char *why);

/*
 * Send JSON with POST, or a merge patch with PATCH.  path begins with a slash; path and body are copied.  Each attempt
 * may take 10 seconds.  After connection errors, 429 and 5xx the call is repeated, with five attempts in all: the first
 * delay is 500 ms, each further delay is half as long again, plus up to a fifth of jitter (AUTHN-06, AUTHZ-11).  A
 * worker has at most 1024 calls in progress: further calls get status 0.
 */
extern KubeCall *kubeapi_post(KubeApi *api, const char *path, JsonText body, TransferBudget budget, KubeAnswer answer,
							  void *state);
extern KubeCall *kubeapi_patch(KubeApi *api, const char *path, JsonText body, KubeAnswer answer, void *state);
extern KubeCall *kubeapi_get(KubeApi *api, const char *path, KubeAnswer answer, void *state);

/* Cancels a call: its KubeAnswer will not run. */
extern void kubeapi_cancel(KubeCall *call);

/* ---------- watches ---------- */

/*
 * The callbacks of a watch.  Objects are valid during the call.
 *
 * begin, item, end: a list calls begin(), then item() for each object, then end().  A list comes first, and again
 * whenever the watch has lost its position (410).  A list that fails begins again without end(): only end() means that
 * there are no other objects.
 *
 * event: type is ADDED, MODIFIED or DELETED.
 *
 * failed: kube-apiserver could not be reached (status 0), or answered with status.  The watch tries again, without a
 * limit.
 *
 * live: true means that the objects reported so far are the present state, because kube-apiserver has accepted the
 * watch that begins where the list ended; false means that this watch has ended and a list comes next.  When live is
 * NULL, a watch resumes where the previous one ended, without a list.
 *
 * absent: the collection does not exist (404).  This ends the watch, and the caller may begin another one.  When absent
 * is NULL, 404 is a failure.
 */
typedef struct KubeWatchHandler
{
	void		(*begin) (void *state);
	void		(*item) (void *state, const json_t *object);
	void		(*end) (void *state);
	void		(*event) (void *state, const char *type, const json_t *object);
	void		(*failed) (void *state, int status, const char *why);
	void		(*live) (void *state, bool live);
	void		(*absent) (void *state);
} KubeWatchHandler;

/*
 * Lists a collection and watches it; only absent() ends the watch.  query is escaped, such as
 * fieldSelector=metadata.name%3Dx, or NULL.  path and query are copied; handler must stay valid.
 */
extern void kubeapi_watch(KubeApi *api, const char *path, const char *query,
						  const KubeWatchHandler *handler, void *state);

/* For kubeapi_watch.c and ask.c: returns the kubeconfig, at most a minute old; valid until the next call. */
extern const KubeConfig *kubeapi_config(KubeApi *api);

#endif							/* KUBEAPI_H */
