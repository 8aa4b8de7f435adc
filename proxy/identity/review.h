/*-------------------------------------------------------------------------
 *
 * review.h
 *	  Reviews by kube-apiserver, each asked once and cached for a while.
 *
 * A review is a document that is posted and returns with a status: a
 * TokenReview or a SubjectAccessReview.  Equal ones are posted once at a time,
 * however many requests wait for the answer, and are not even made while the
 * answer is cached.  A failure is never cached.
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
	json_t	   *told;			/* what the answer tells, see the kind; NULL: nothing */
} ReviewAnswer;

/* One kind of review. */
typedef struct ReviewKind
{
	const char *name;			/* for the log */
	const char *path;
	TransferBudget budget;
	TransferBudget strange_budget;
	uint64_t	positive_ms;	/* how long an answer is cached; 0: not at all */
	uint64_t	negative_ms;
	size_t		capacity;		/* answers in the cache; the least recently used one makes room */
	size_t		most_under_way; /* more reviews in progress are refused; strangers are counted separately */

	/* The document to post about a question. */
	json_t	   *(*document) (Arena *arena, const void *question);

	/* Reads the status of the review; false with *why when it is invalid.  answer and *why point into it. */
	bool		(*read) (const json_t *status, ReviewAnswer *answer, const char **why);
} ReviewKind;

typedef struct ReviewCache ReviewCache;

/* Lives as long as the worker; kind is not copied. */
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
 * Asks for a review.  done() runs once, maybe before this returns, unless the waiter is cancelled.  Equal keys mean
 * equal documents; key and question are used during the call.  remember: whether the answer may be cached.  stranger:
 * the asker is not known.  Reviews of strangers have their own limits, so that their number delays no others.  After a
 * positive answer, the same key no longer counts as a stranger's.
 */
extern void review_ask(ReviewCache *cache, JsonText key, const void *question, bool remember, bool stranger,
					   ReviewWaiter *waiter, ReviewDone done, void *state);

/* done() will not run.  The review continues and its answer is cached. */
extern void review_cancel(ReviewWaiter *waiter);

#endif							/* REVIEW_H */
