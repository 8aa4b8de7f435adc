/*-------------------------------------------------------------------------
 *
 * body.h
 *	  The body of a request, as the extension takes it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BODY_H
#define BODY_H

#include "api/exchange.h"

/*
 * Sets the exchange's body: the client's bytes, or the JSON that its YAML stands for, in the exchange's arena; then,
 * perhaps later, lets it go on (exchange_next()).  A YAML body that cannot be read stays as it is and has body_error
 * set: what to say about it, and when, the extension decides.  A verb that takes none has none, whatever was sent.
 * When too many bodies are being read, that has been answered.
 */
extern void body_take(Exchange *exchange);

#endif							/* BODY_H */
