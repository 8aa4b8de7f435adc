/*-------------------------------------------------------------------------
 *
 * body.h
 *	  The body of a request, in the form that the extension reads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BODY_H
#define BODY_H

#include "api/exchange.h"

/*
 * Sets the exchange's body to the client's bytes, or to JSON made from YAML, in the exchange's arena.  Then calls
 * exchange_next(), perhaps later.  When a YAML body cannot be read, the body stays as it is and body_error is set; the
 * extension decides when to report body_error and how.  For verbs without a body the client's body is ignored.  When
 * too many bodies are being read, answers with 429 instead.
 */
extern void body_take(Exchange *exchange);

#endif							/* BODY_H */
