/*-------------------------------------------------------------------------
 *
 * authentication_lookup.h
 *	  Looks up what kube-apiserver publishes about authentication for extension servers.
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

/* Whether the flags leave something to look up, and a kube-apiserver is configured. */
extern bool authentication_lookup_wanted(void);

typedef enum LookupResult
{
	LOOKUP_DONE,				/* also when there is no such ConfigMap yet */
	LOOKUP_FORBIDDEN,			/* another attempt would not help */
	LOOKUP_FAILED
} LookupResult;

/* Looks up once.  Blocks for at most ten seconds, therefore not for the loop.  Sets *why unless LOOKUP_DONE. */
extern LookupResult authentication_lookup(Arena *arena, const char **why);

/*
 * Follows the ConfigMap from the loop, for ever.  When it is deleted, its content stays in force: kube-apiserver
 * creates it again.
 */
extern void authentication_lookup_follow(KubeApi *api);

#endif							/* AUTHENTICATION_LOOKUP_H */
