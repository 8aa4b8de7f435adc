/*-------------------------------------------------------------------------
 *
 * namespaces.h
 *	  Which namespaces the cluster has: NamespaceLifecycle, and the sweep.
 *
 * Reference: k8s-conformance ADM-01, ADM-02, NS-04.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NAMESPACES_H
#define NAMESPACES_H

#include "api/exchange.h"

/*
 * Begins to follow the namespaces, unless the proxy is without a kube-apiserver or told not to.  all: settles also
 * those that nobody asks for, and sweeps what is left of those that are gone.
 */
extern void namespaces_start(bool all);

/* Whether they are followed. */
extern bool namespaces_followed(void);

/* Whether a request must not go on before it is known what its namespace is: it may create an object in one. */
extern bool namespaces_needed(const Exchange *exchange);

/*
 * Finds out about a namespace, sets namespace_uid or namespace_state of the exchange and calls then(), perhaps before
 * it returns.  When it cannot be found out, the exchange is answered with 503 instead.
 */
extern void namespaces_ask(Exchange *exchange, const char *name, void (*then) (Exchange *exchange));

/* The same after the store has refused the uid that was found: asks kube-apiserver, in any case. */
extern void namespaces_ask_again(Exchange *exchange, const char *name, void (*then) (Exchange *exchange));

/*
 * For a deletion of everything: notes it first when the namespace is terminating, and goes on whatever comes of that.
 */
extern void namespaces_refresh(Exchange *exchange, const char *name, void (*then) (Exchange *exchange));

#endif							/* NAMESPACES_H */
