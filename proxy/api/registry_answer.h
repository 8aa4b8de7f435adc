/*-------------------------------------------------------------------------
 *
 * registry_answer.h
 *	  Answers that the registry gives: discovery, OpenAPI, and requests that wait for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRY_ANSWER_H
#define REGISTRY_ANSWER_H

#include "api/exchange.h"

/*
 * Calls exchange_next() when there is a reading at least as new as this call, or when the database gives none; never
 * before this function returns.  Until then the registry holds the exchange.
 */
extern void registry_refresh(Exchange *exchange);

/* Answers a GET or HEAD of a document: 200, 304, 404 or 406, or 503 before the first reading. */
extern void registry_answer(Exchange *exchange);

/* Answers 503, as every request before the first reading is answered (DISC-15). */
extern void registry_answer_unknown(Exchange *exchange);

#endif							/* REGISTRY_ANSWER_H */
