/*-------------------------------------------------------------------------
 *
 * authentication_lookup.h
 *	  Reads the settings of authentication that kube-apiserver publishes for extension servers.
 *
 * They are in the ConfigMap kube-system/extension-apiserver-authentication.
 *
 * Reference: k8s-conformance 4.1, AUTHN-01, AUTHN-11.
 *
 *-------------------------------------------------------------------------
 */
#ifndef AUTHENTICATION_LOOKUP_H
#define AUTHENTICATION_LOOKUP_H

#include "cluster/kubeapi.h"

/* Whether the flags lack a setting that the ConfigMap has, and a kube-apiserver is configured. */
extern bool authentication_lookup_wanted(void);

typedef enum LookupResult
{
	LOOKUP_DONE,				/* the ConfigMap was read, or does not exist yet */
	LOOKUP_FORBIDDEN,			/* another attempt would not help */
	LOOKUP_FAILED
} LookupResult;

/* Reads the ConfigMap once.  Blocks for at most ten seconds: not for the loop.  Sets *why unless LOOKUP_DONE. */
extern LookupResult authentication_lookup(Arena *arena, const char **why);

/*
 * Watches the ConfigMap from the loop, until the process ends.  When the ConfigMap is deleted, its content stays in
 * force: kube-apiserver creates it again.
 */
extern void authentication_lookup_follow(KubeApi *api);

#endif							/* AUTHENTICATION_LOOKUP_H */
