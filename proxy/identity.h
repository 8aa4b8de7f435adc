/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Who asks, and whether that is allowed.
 *
 * The one place that decides both.  Today: client certificates, and the
 * fixed authorization modes.  Front-proxy headers, TokenReview and
 * SubjectAccessReview answer later than they are asked, therefore both
 * functions here answer through a callback; it may run before they return.
 *
 * Reference: k8s-conformance 4.2, 5.1, 5.2.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IDENTITY_H
#define IDENTITY_H

#include "http.h"
#include "route.h"

typedef struct User
{
	const char *name;
	const char **groups;
	size_t		group_count;
} User;

typedef void (*IdentityDone) (void *state, const User *user);

/* The user lives in the arena. */
extern void identity_authenticate(HttpRequest *request, Arena *arena, IdentityDone done, void *state);

typedef enum Decision
{
	DECISION_ALLOW,
	DECISION_DENY,
	DECISION_ERROR				/* nobody could decide: 500, never allowed */
} Decision;

/* reason may be NULL. */
typedef void (*AuthorizeDone) (void *state, Decision decision, const char *reason);

extern void identity_authorize(Arena *arena, const User *user, const Route *route, AuthorizeDone done, void *state);

/* The name that the attributes of a request carry: that on the path, or of fieldSelector=metadata.name=x (AUTHZ-02); "" for none. */
extern const char *identity_object_name(Arena *arena, const Route *route);

/* The words of section 5.2: ... is forbidden: User "alice" cannot list resource "reports" in API group ... */
extern char *identity_denial(Arena *arena, const User *user, const Route *route, const char *reason);

#endif							/* IDENTITY_H */
