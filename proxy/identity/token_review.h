/*-------------------------------------------------------------------------
 *
 * token_review.h
 *	  Finds the user of a bearer token: TokenReview by kube-apiserver.
 *
 * Reference: k8s-conformance 4.2, AUTHN-04, AUTHN-06; upstream's plugin/pkg/authenticator/token/webhook.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TOKEN_REVIEW_H
#define TOKEN_REVIEW_H

#include "identity/review.h"
#include "trust/user.h"

extern void token_reviews_start(KubeApi *api);

/* Whether tokens can be reviewed; if not, they are ignored. */
extern bool token_reviews_possible(void);

/*
 * Asks for the user of a token.  done() gets a positive answer when the token is valid; token_review_user() reads it.
 */
extern void token_review_ask(Arena *arena, const char *token, ReviewWaiter *waiter, ReviewDone done, void *state);
extern void token_review_user(Arena *arena, const ReviewAnswer *answer, User *user);

#endif							/* TOKEN_REVIEW_H */
