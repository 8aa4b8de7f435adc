/*-------------------------------------------------------------------------
 *
 * namespaces.h
 *	  The namespaces of the cluster: NamespaceLifecycle, and the sweep.
 *
 * A settling makes the store agree with kube-apiserver about one namespace;
 * the sweep deletes the objects of deleted namespaces.
 *
 * Reference: k8s-conformance ADM-01, ADM-02, NS-04.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NAMESPACES_H
#define NAMESPACES_H

#include "api/exchange.h"

/*
 * Begins to follow the namespaces, unless the flags turn it off or name no kube-apiserver.  all (the upkeep process):
 * also settles namespaces without a waiting request and sweeps the objects of deleted ones.
 */
extern void namespaces_start(bool all);

/* Whether the proxy follows the namespaces. */
extern bool namespaces_followed(void);

/*
 * Whether the request may create an object in a namespace and must therefore wait until the namespace's state is known.
 */
extern bool namespaces_needed(const Exchange *exchange);

/*
 * Looks up a namespace, sets namespace_uid or namespace_state of the exchange and calls then(), perhaps before this
 * function returns.  When the lookup fails, answers with 503 and does not call then().
 */
extern void namespaces_ask(Exchange *exchange, const char *name, void (*then) (Exchange *exchange));

/* The same after the store refused the uid: always asks kube-apiserver. */
extern void namespaces_ask_again(Exchange *exchange, const char *name, void (*then) (Exchange *exchange));

/*
 * The same for a deletecollection: notes in the store first whether the namespace is terminating, and calls then() even
 * if the lookup fails.
 */
extern void namespaces_refresh(Exchange *exchange, const char *name, void (*then) (Exchange *exchange));

#endif							/* NAMESPACES_H */
