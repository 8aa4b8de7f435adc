/*-------------------------------------------------------------------------
 *
 * access_review.h
 *	  Whether the user may send the request: SubjectAccessReview by kube-apiserver.
 *
 * Reference: k8s-conformance 5.1, 5.2, AUTHZ-01 to AUTHZ-12; upstream's plugin/pkg/authorizer/webhook.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ACCESS_REVIEW_H
#define ACCESS_REVIEW_H

#include "identity/review.h"
#include "http/route.h"
#include "trust/user.h"

/* The attributes of a request; strings are never NULL, "" when absent. */
typedef struct AccessAttributes
{
	bool		resource;		/* a resource request; else only path and verb (the method in lower case) are set */
	const char *verb;
	const char *path;
	const char *group;
	const char *version;
	const char *resource_name;
	const char *subresource;
	const char *namespace_name;
	const char *name;			/* may come from fieldSelector=metadata.name=x (AUTHZ-02) */
	const char *label_selector; /* of a list, watch or deletecollection; as sent, maybe invalid */
	const char *field_selector;
} AccessAttributes;

extern void access_attributes(Arena *arena, const Route *route, AccessAttributes *attributes);

extern void access_reviews_start(KubeApi *api);

/*
 * Asks whether the user may send the request.  done() gets a positive answer when the request is allowed; the member
 * told of the answer is the reviewer's reason.  stranger: see review_ask().
 */
extern void access_review_ask(Arena *arena, const User *user, bool stranger, const AccessAttributes *attributes,
							  ReviewWaiter *waiter,
							  ReviewDone done, void *state);

#endif							/* ACCESS_REVIEW_H */
