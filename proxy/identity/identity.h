/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Authenticates and authorizes requests.
 *
 * All such decisions are made here.  They may need an answer of
 * kube-apiserver.  Therefore both functions return their result through a
 * callback, which may run before the function returns.
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

/* A worker calls this once, when its loop exists. */
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
	DECISION_ERROR,				/* no decision was possible: 500, never allowed */
	DECISION_BUSY				/* too many reviews are in progress: 429 */
} Decision;

/* reason may be NULL; it is valid during the call. */
typedef void (*AuthorizeDone) (void *state, Decision decision, const char *reason);

/*
 * A question in progress, embedded in its owner's struct, zeroed at first.  It can be used for one question at a time.
 */
typedef struct IdentityQuestion
{
	ReviewWaiter waiter;
	Arena	   *arena;
	const char *refusal;		/* why credentials were refused; NULL: none was refused */
	bool		basic;			/* set by the owner: a token may come as the password of HTTP Basic */
	IdentityDone authenticated;
	AuthorizeDone authorized;
	void	   *state;
} IdentityQuestion;

/* Finds the user of a request.  done() gets the user, in the arena; NULL unless AUTHENTICATED. */
extern void identity_authenticate(HttpRequest *request, Arena *arena, IdentityQuestion *question,
								  IdentityDone done, void *state);

/* Decides whether the user may send the request with these attributes. */
extern void identity_authorize(Arena *arena, const User *user, const AccessAttributes *attributes,
							   IdentityQuestion *question,
							   AuthorizeDone done, void *state);

/* Whether the user is anonymous, by name or group. */
extern bool identity_is_anonymous(const User *user);

/*
 * Whether the user is in system:masters: such requests are always allowed and never refused because of load (APF-01).
 */
extern bool identity_is_master(const User *user);

/*
 * Whether the request asks for impersonation, which this server does not offer: kube-apiserver impersonates before it
 * forwards a request.  *attributes describe the right that the user would need; they live as long as the request.
 */
extern bool identity_impersonates(HttpRequest *request, AccessAttributes *attributes);

/* Ends the question in progress, if there is one.  No callback runs afterwards. */
extern void identity_cancel(IdentityQuestion *question);

/* Returns the text of section 5.2: ... is forbidden: User "alice" cannot list resource "reports" in API group ... */
extern char *identity_denial(Arena *arena, const User *user, const AccessAttributes *attributes, const char *reason);

#endif							/* IDENTITY_H */
