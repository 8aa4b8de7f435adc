/*-------------------------------------------------------------------------
 *
 * namespace_selector.h
 *	  Policy Reporter's selector of namespaces: which namespaces have some labels.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NAMESPACE_SELECTOR_H
#define NAMESPACE_SELECTOR_H

#include "api/exchange.h"

/* names is an array of texts in the arena of the exchange. */
typedef void (*NamespacesSelected) (Exchange *exchange, JsonNode *names);

/*
 * Reads the selector in the body of the request, {"label": "value"}, and asks kube-apiserver for the namespaces that
 * it selects.  A value may be several ones between commas, * (the label exists) or !* (it does not).  Answers the
 * request itself when the body is no selector (400), without a kube-apiserver (501) and when that does not tell (503).
 */
extern void namespace_selector_ask(Exchange *exchange, NamespacesSelected selected);

#endif							/* NAMESPACE_SELECTOR_H */
