/*-------------------------------------------------------------------------
 *
 * review.h
 *	  Reviews by kube-apiserver, each asked once and cached for a while.
 *
 * A review is a document that the proxy posts and that returns with a status:
 * a TokenReview or a SubjectAccessReview.  However many requests wait for the
 * same review, it is posted once.  While its answer is cached, it is not
 * posted again.  A failure is never cached.
 *
 * Reference: k8s-conformance AUTHN-06, AUTHZ-11, AUTHZ-12.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REVIEW_H
#define REVIEW_H

#include "cluster/kubeapi.h"
#include "codec/kube_json.h"

typedef enum ReviewOutcome
{
	REVIEW_ANSWERED,
	REVIEW_FAILED,				/* kube-apiserver gave no valid answer; the log has the reason */
	REVIEW_REFUSED				/* too many reviews are in progress */
} ReviewOutcome;

typedef struct ReviewAnswer
{
	bool		positive;
	json_t	   *told;			/* the part of the answer that ReviewKind.read() returns; NULL: none */
} ReviewAnswer;

/* One kind of review. */
typedef struct ReviewKind
{
	const char *name;			/* for the log */
	const char *path;
	TransferBudget budget;
	TransferBudget strange_budget;
	uint64_t	positive_ms;	/* how long a positive answer is cached; 0: not cached */
	uint64_t	negative_ms;
	size_t		capacity;		/* limit of cached answers; at it, the least recently used one is dropped */
	size_t		most_under_way; /* limit of reviews in progress, the same for strangers; more are refused */

	/* Returns the document to post for a question. */
	json_t	   *(*document) (Arena *arena, const void *question);

	/* Reads the status of the review; false with *why when it is invalid.  answer and *why point into it. */
	bool		(*read) (const json_t *status, ReviewAnswer *answer, const char **why);
} ReviewKind;

typedef struct ReviewCache ReviewCache;

/* Returns a new cache, which lives as long as the worker; kind is not copied. */
extern ReviewCache *review_cache_new(KubeApi *api, const ReviewKind *kind);

/* answer is valid during the call; NULL unless REVIEW_ANSWERED. */
typedef void (*ReviewDone) (void *state, ReviewOutcome outcome, const ReviewAnswer *answer);

/* A waiter, embedded in its owner's struct.  Zeroed memory waits for nothing. */
typedef struct ReviewWaiter
{
	struct Review *review;		/* NULL: not waiting */
	struct ReviewWaiter *previous;
	struct ReviewWaiter *next;
	ReviewDone	done;
	void	   *state;
} ReviewWaiter;

/*
 * Asks for a review.  done() runs once, perhaps before this function returns, unless the waiter is cancelled.  Equal
 * keys must mean equal documents; key and question are used only during the call.  remember: whether the answer may be
 * cached.  stranger: the asker is not known.  Reviews of strangers have limits of their own, so that they do not delay
 * other reviews.  After a positive answer, later reviews with the same key do not count as a stranger's.
 */
extern void review_ask(ReviewCache *cache, JsonText key, const void *question, bool remember, bool stranger,
					   ReviewWaiter *waiter, ReviewDone done, void *state);

/* Ends the wait, if there is one: done() will not run.  The review continues, and its answer is cached. */
extern void review_cancel(ReviewWaiter *waiter);

#endif							/* REVIEW_H */
