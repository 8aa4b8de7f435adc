/*-------------------------------------------------------------------------
 *
 * review.h
 *	  Questions that kube-apiserver answers, each asked once and remembered for a while.
 *
 * A review is a document that is posted and comes back with a status: a
 * TokenReview or a SubjectAccessReview.  Equal documents are asked once at a
 * time, however many requests wait for the answer, and not at all while an
 * answer is remembered.  That there was none is never remembered.
 *
 * Reference: k8s-conformance AUTHN-06, AUTHZ-11, AUTHZ-12.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REVIEW_H
#define REVIEW_H

#include "cluster/kubeapi.h"

typedef enum ReviewOutcome
{
	REVIEW_ANSWERED,
	REVIEW_FAILED,				/* kube-apiserver could not be asked, or its answer made no sense; the log says why */
	REVIEW_REFUSED				/* too many reviews are under way */
} ReviewOutcome;

typedef struct ReviewAnswer
{
	bool		positive;
	JsonText	text;			/* what goes with it */
} ReviewAnswer;

/* One kind of review. */
typedef struct ReviewKind
{
	const char *name;			/* for the log */
	const char *path;
	TransferBudget budget;
	TransferBudget strange_budget;
	uint64_t	positive_ms;	/* how long an answer is remembered; 0: not at all */
	uint64_t	negative_ms;
	size_t		capacity;		/* answers remembered; the one not used for longest makes room */
	size_t		most_under_way; /* reviews beyond that are refused; those of strangers are counted apart */

	/*
	 * Reads the document that came back; false with *why when it makes no sense.  What answer points to may lie in the
	 * arena.
	 */
	bool		(*read) (Arena *arena, const JsonNode *review, ReviewAnswer *answer, const char **why);
} ReviewKind;

typedef struct ReviewCache ReviewCache;

/* Lives as long as the worker; kind is not copied. */
extern ReviewCache *review_cache_new(KubeApi *api, const ReviewKind *kind);

/* answer is valid during the call; NULL unless ANSWERED. */
typedef void (*ReviewDone) (void *state, ReviewOutcome outcome, const ReviewAnswer *answer);

/* Somebody who waits; embedded in its owner's struct.  Zeroed memory waits for nothing. */
typedef struct ReviewWaiter
{
	struct Review *review;		/* NULL: does not wait */
	struct ReviewWaiter *previous;
	struct ReviewWaiter *next;
	ReviewDone	done;
	void	   *state;
} ReviewWaiter;

/*
 * Asks; done runs once, maybe before this returns, unless the waiter is cancelled.  document is copied where needed.
 * remember: whether the answer may be remembered.  stranger: nobody vouches for the asker.  Such reviews have limits
 * of their own, so that their number delays nobody else, until the same question is answered well: then it is not a
 * stranger's any more.
 */
extern void review_ask(ReviewCache *cache, const char *document, size_t len, bool remember, bool stranger,
					   ReviewWaiter *waiter,
					   ReviewDone done, void *state);

/* done will not run.  The review goes on: its answer is remembered. */
extern void review_cancel(ReviewWaiter *waiter);

#endif							/* REVIEW_H */
