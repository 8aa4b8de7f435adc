/*-------------------------------------------------------------------------
 *
 * kubeapi.h
 *	  The proxy as a client of kube-apiserver: calls, and watches that last.
 *
 * Each worker has its own; nothing here blocks its loop, except what the
 * parent asks before it has workers.  Answers come from the loop, never from
 * inside the function that asked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KUBEAPI_H
#define KUBEAPI_H

#include "cluster/transfer.h"

/* One kube-apiserver, reached with one kubeconfig.  Lives as long as the worker. */
typedef struct KubeApi KubeApi;

/*
 * path as for kubeconfig_load(); it is copied, and the same path gives the same KubeApi again.  The kubeconfig is
 * read anew every minute, the file of a token for every request.  A worker that cannot read it at first says so in
 * the log and ends.
 */
extern KubeApi *kubeapi_open(const char *path);

/* ---------- calls ---------- */

/* A call under way.  The pointer is dead when its answer runs. */
typedef struct KubeCall KubeCall;

/*
 * Runs once unless the call is cancelled.  status is that of the answer; 0: there was none, and why says so, else why
 * is NULL.  body and why are valid until it returns.
 */
typedef void (*KubeAnswer) (void *state, int status, const char *body, size_t len, const char *why);

/*
 * Sends JSON, for a patch a merge patch; path begins with a slash, and path and body are copied.  Each attempt may
 * take 10 seconds; connection errors, 429 and 5xx are tried again, five attempts in all, 500 ms apart at first, half
 * as long again each time and a fifth of jitter (AUTHN-06, AUTHZ-11).  A worker has at most 1024 calls under way:
 * others are answered with status 0.
 */
extern KubeCall *kubeapi_post(KubeApi *api, const char *path, const char *body, size_t len, TransferBudget budget,
							  KubeAnswer answer,
							  void *state);
extern KubeCall *kubeapi_patch(KubeApi *api, const char *path, const char *body, size_t len,
							   KubeAnswer answer, void *state);
extern KubeCall *kubeapi_get(KubeApi *api, const char *path, KubeAnswer answer, void *state);

/* No answer comes afterwards. */
extern void kubeapi_cancel(KubeCall *call);

/* ---------- watches ---------- */

/*
 * What a watch tells.  A list is begin, item for each object, end; it comes first, and again whenever the watch has
 * lost its place (410).  A list that fails is begun anew without its end: only end means that nothing else exists.
 * event: type is ADDED, MODIFIED or DELETED.  failed: kube-apiserver could not be asked, or has answered with status
 * (0: it has not); it is tried again, and again.  Objects are valid during the call.
 * live: true, what was told is how things are, for kube-apiserver has taken the watch that begins where the list
 * ended; false, that watch has ended, and a list comes next.  NULL: watches go on where another one ended, without a
 * list.  absent: there is no such collection (404), and this was the end of it: who wants to may begin another watch.
 * NULL: that is a failure, too.
 */
typedef struct KubeWatchHandler
{
	void		(*begin) (void *state);
	void		(*item) (void *state, const JsonNode *object);
	void		(*end) (void *state);
	void		(*event) (void *state, const char *type, const JsonNode *object);
	void		(*failed) (void *state, int status, const char *why);
	void		(*live) (void *state, bool live);
	void		(*absent) (void *state);
} KubeWatchHandler;

/*
 * Lists a collection and follows it; it ends only with absent.  path and query (such as
 * fieldSelector=metadata.name%3Dx, escaped; or NULL) are copied; handler is not.
 */
extern void kubeapi_watch(KubeApi *api, const char *path, const char *query,
						  const KubeWatchHandler *handler, void *state);

/* For kubeapi_watch.c: the kubeconfig, not older than a minute; valid until the next call. */
extern const KubeConfig *kubeapi_config(KubeApi *api);

/* ---------- for the parent ---------- */

/*
 * The document at a path.  Blocks for at most ten seconds: not in a worker's loop.  NULL with *why when it cannot be
 * had; *status is that of the answer, 0 when there was none.
 */
extern const JsonNode *kubeapi_read(Arena *arena, const KubeConfig *kubeconfig, const char *path, int *status,
									const char **why);

/*
 * The uid of the namespace kube-system, which stands for the cluster.  Blocks for at most ten seconds: for the
 * parent, before it has workers.  NULL with *why when it cannot be had.
 */
extern const char *kubeapi_cluster_uid(Arena *arena, const KubeConfig *kubeconfig, const char **why);

#endif							/* KUBEAPI_H */
