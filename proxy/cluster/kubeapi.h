/*-------------------------------------------------------------------------
 *
 * kubeapi.h
 *	  The proxy as a client of kube-apiserver: calls, and long-lived watches.
 *
 * Each worker has its own connections.  Nothing here blocks the loop (ask.h
 * does).  Answers come from the loop, never inside the function that asks.
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
 * path as for kubeconfig_load().  It is copied; the same path gives the same KubeApi.  The kubeconfig is read again
 * every minute, the file of a token for each request.  A worker that cannot read the kubeconfig at first logs that and
 * exits.
 */
extern KubeApi *kubeapi_open(const char *path);

/* ---------- calls ---------- */

/* A call in progress.  The pointer is invalid when its answer runs. */
typedef struct KubeCall KubeCall;

/*
 * Runs once unless the call is cancelled.  status is that of the answer; 0: no answer, and why has the reason;
 * otherwise why is NULL.  answer is NULL when it is not JSON.  answer and why are valid until the function returns.
 */
typedef void (*KubeAnswer) (void *state, int status, const json_t *answer, const char *why);

/*
 * Sends JSON, for a patch a merge patch.  path begins with a slash; path and body are copied.  Each attempt may take 10
 * seconds.  Connection errors, 429 and 5xx are repeated: five attempts in all, first 500 ms apart, then with delays
 * that grow by half, plus up to a fifth of jitter (AUTHN-06, AUTHZ-11).  A worker has at most 1024 calls in progress:
 * further calls get status 0.
 */
extern KubeCall *kubeapi_post(KubeApi *api, const char *path, JsonText body, TransferBudget budget, KubeAnswer answer,
							  void *state);
extern KubeCall *kubeapi_patch(KubeApi *api, const char *path, JsonText body, KubeAnswer answer, void *state);
extern KubeCall *kubeapi_get(KubeApi *api, const char *path, KubeAnswer answer, void *state);

/* The answer does not run afterwards. */
extern void kubeapi_cancel(KubeCall *call);

/* ---------- watches ---------- */

/*
 * The callbacks of a watch.  A list consists of begin, item for each object, and end.  It comes first, and again
 * whenever the watch has lost its position (410).  A list that fails begins again without end: only end means that
 * there are no other objects.  event: type is ADDED, MODIFIED or DELETED.  failed: kube-apiserver could not be reached
 * (status 0), or answered with status; the watch tries again without limit.  Objects are valid during the call.  live:
 * true means that the objects reported so far are the present state, because kube-apiserver has accepted the watch that
 * begins where the list ended; false means that this watch has ended and a list comes next.  live NULL: a watch resumes
 * where the previous one ended, without a list.  absent: the collection does not exist (404); this ends the watch, and
 * the caller may begin another one.  absent NULL: that counts as a failure.
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
 * Lists a collection and follows it; this ends only with absent.  path and query (such as
 * fieldSelector=metadata.name%3Dx, escaped; or NULL) are copied; handler is not.
 */
extern void kubeapi_watch(KubeApi *api, const char *path, const char *query,
						  const KubeWatchHandler *handler, void *state);

/* For kubeapi_watch.c and ask.c: returns the kubeconfig, at most a minute old; valid until the next call. */
extern const KubeConfig *kubeapi_config(KubeApi *api);

#endif							/* KUBEAPI_H */
