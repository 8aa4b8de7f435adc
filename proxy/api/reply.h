/*-------------------------------------------------------------------------
 *
 * reply.h
 *	  Answers: replies of the extension's functions and Status objects of the proxy.
 *
 * Every answer to an exchange goes through here (or through
 * reply_stream_begin), so that it is counted once and its deadline stops.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REPLY_H
#define REPLY_H

#include "engine/api/status.h"
#include "api/exchange.h"
#include "codec/encoding.h"

/* The first columns of every function that replies, in this order. */
typedef struct Reply
{
	int			code;
	const char *content_type;
	bool		gzip;			/* the body is compressed */
	int			retry_after;	/* 0 for none */
	const char *allow;			/* methods, of a 405; NULL for none */
	JsonText   *warnings;
	size_t		warning_count;
	JsonText	body;
} Reply;

/* Reads columns 0 to 4 of a row.  The pointers of the reply point into the result and the arena. */
extern Reply reply_read(Arena *arena, const PgResult *result, size_t row);

/*
 * Sends a whole answer in the form that the client asked for.  With a result, the body is borrowed from the result, and
 * the result is freed after the answer was sent; otherwise the body is copied.
 */
extern void reply_send(Exchange *exchange, const Reply *given, PgResult *result);

/* Whether the client wants a JSON answer of this code indented. */
extern bool reply_is_pretty(Exchange *exchange, int code);

/* A JSON body, indented. */
extern JsonText reply_indented(Arena *arena, JsonText body);

/* The encoding of an answer in pieces; NULL when the answer needs none.  Changes the head of the reply accordingly. */
extern Encoding *reply_encoding(Exchange *exchange, Reply *reply);

/* Sends the head of a chunked answer. */
extern void reply_stream_begin(Exchange *exchange, const Reply *reply, void (*writable) (void *state), void *state);

/* Answers with a Status.  details may be NULL; its retry_after_seconds becomes Retry-After. */
extern void reply_status(Exchange *exchange, int code, const char *reason, const char *message,
						 const StatusDetails *details);

/* Answers 405.  allow: the methods of the path; NULL for paths of kube-apiserver, which does not list them. */
extern void reply_method_not_allowed(Exchange *exchange, const char *allow);

/* Answers a request whose call gave no result. */
extern void reply_outcome(Exchange *exchange, PgOutcome outcome, const PgError *error);

/* Notes that the call of an exchange has ended.  False: the call gave no result, and the request has been answered. */
extern bool reply_call_ended(Exchange *exchange, PgOutcome outcome, const PgError *error);

/* The end of a call whose reply is the answer to the exchange in state. */
extern void reply_with_result(void *state, PgOutcome outcome, PgResult *result, const PgError *error);

/* The Status of a failed call, in the arena; for answers that have begun. */
extern JsonText reply_failure(Arena *arena, const PgError *error);

/* Whether it would not help to send the writes of a failed batch one by one. */
extern bool reply_is_transient(PgOutcome outcome, const PgError *error);

extern void reply_too_many_requests(Exchange *exchange);
extern void reply_timeout(Exchange *exchange);
extern void reply_plain(Exchange *exchange, int code, const char *text, int retry_after);

#endif							/* REPLY_H */
