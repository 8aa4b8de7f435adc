/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Who asks, and whether that is allowed.
 *
 * The one place that decides both.  kube-apiserver may have to be asked:
 * therefore both answer through a callback, which may run before the function
 * returns.
 *
 * Reference: k8s-conformance 4.2, 5.1, 5.2.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IDENTITY_H
#define IDENTITY_H

#include "identity/access_review.h"
#include "http/http.h"
#include "trust/user.h"

/* Once in a worker, when its loop is there. */
extern void identity_start(void);

typedef enum Authentication
{
	AUTHENTICATED,				/* maybe as system:anonymous */
	UNAUTHENTICATED,			/* 401 */
	AUTHENTICATION_BUSY			/* too many tokens are being reviewed: 429 */
} Authentication;

typedef void (*IdentityDone) (void *state, Authentication outcome, const User *user);

typedef enum Decision
{
	DECISION_ALLOW,
	DECISION_DENY,
	DECISION_ERROR,				/* nobody could decide: 500, never allowed */
	DECISION_BUSY				/* too many reviews are under way: 429 */
} Decision;

/* reason may be NULL; it is valid during the call. */
typedef void (*AuthorizeDone) (void *state, Decision decision, const char *reason);

/* A question that waits for its answer; embedded in its owner's struct, zeroed at first.  One at a time. */
typedef struct IdentityQuestion
{
	ReviewWaiter waiter;
	Arena	   *arena;
	const char *refusal;		/* why credentials were of no use; NULL: none was */
	IdentityDone authenticated;
	AuthorizeDone authorized;
	void	   *state;
} IdentityQuestion;

/* The user lives in the arena; NULL unless AUTHENTICATED. */
extern void identity_authenticate(HttpRequest *request, Arena *arena, IdentityQuestion *question,
								  IdentityDone done, void *state);

extern void identity_authorize(Arena *arena, const User *user, const AccessAttributes *attributes,
							   IdentityQuestion *question,
							   AuthorizeDone done, void *state);

/* Whether nobody knows who that is. */
extern bool identity_is_anonymous(const User *user);

/* Whether that is a member of system:masters: everything is allowed, and never too much (APF-01). */
extern bool identity_is_master(const User *user);

/*
 * Whether the request asks to be taken for one of somebody else, which is not offered here: kube-apiserver does it,
 * before it forwards a request.  *attributes are what the user would have to be allowed then; their strings live as
 * long as the request.
 */
extern bool identity_impersonates(HttpRequest *request, AccessAttributes *attributes);

/* No callback comes afterwards. */
extern void identity_cancel(IdentityQuestion *question);

/* The words of section 5.2: ... is forbidden: User "alice" cannot list resource "reports" in API group ... */
extern char *identity_denial(Arena *arena, const User *user, const AccessAttributes *attributes, const char *reason);

#endif							/* IDENTITY_H */
