/*-------------------------------------------------------------------------
 *
 * authentication_lookup.h
 *	  What kube-apiserver tells its extension servers about authentication.
 *
 * The ConfigMap kube-system/extension-apiserver-authentication.
 *
 * Reference: k8s-conformance 4.1, AUTHN-01, AUTHN-11.
 *
 *-------------------------------------------------------------------------
 */
#ifndef AUTHENTICATION_LOOKUP_H
#define AUTHENTICATION_LOOKUP_H

#include "cluster/kubeapi.h"

/* Whether the flags leave anything to look up, and somebody to ask. */
extern bool authentication_lookup_wanted(void);

typedef enum LookupResult
{
	LOOKUP_DONE,				/* also when there is no such ConfigMap yet */
	LOOKUP_FORBIDDEN,			/* will not get better by trying again */
	LOOKUP_FAILED
} LookupResult;

/* Looks once; blocks for at most ten seconds, therefore not in the loop.  *why unless DONE. */
extern LookupResult authentication_lookup(Arena *arena, const char **why);

/*
 * Follows the ConfigMap from the loop, for ever.  When it is deleted, what it said stays in force: kube-apiserver
 * makes it again.
 */
extern void authentication_lookup_follow(KubeApi *api);

#endif							/* AUTHENTICATION_LOOKUP_H */
