/*-------------------------------------------------------------------------
 *
 * reply.h
 *	  Answers: replies of the extension's functions and Status objects of the proxy.
 *
 * Every answer to an exchange is sent by this file, so that each answer is
 * counted once and its deadline stops.
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
	int			retry_after;	/* seconds; 0: no header Retry-After */
	const char *allow;			/* allowed methods, for a 405; NULL: no header Allow */
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

/* Returns a JSON body indented, in the arena. */
extern JsonText reply_indented(Arena *arena, JsonText body);

/* Returns the encoding of an answer in pieces, and changes the head of the reply to it; NULL: sent as it is. */
extern Encoding *reply_encoding(Exchange *exchange, Reply *reply);

/* Sends the head of a chunked answer.  writable() is called each time that the client has taken what was sent. */
extern void reply_stream_begin(Exchange *exchange, const Reply *reply, void (*writable) (void *state), void *state);

/* Answers with a Status.  details may be NULL; its retry_after_seconds becomes Retry-After. */
extern void reply_status(Exchange *exchange, int code, const char *reason, const char *message,
						 const StatusDetails *details);

/* Answers 405.  allow: the methods of the path; NULL for paths of kube-apiserver, which does not list them. */
extern void reply_method_not_allowed(Exchange *exchange, const char *allow);

/* Answers a request whose call gave no result: outcome is not PG_OK; error is set for PG_FAILED. */
extern void reply_outcome(Exchange *exchange, PgOutcome outcome, const PgError *error);

/* Call when the call of an exchange has ended.  False: the call gave no result, and the request has been answered. */
extern bool reply_call_ended(Exchange *exchange, PgOutcome outcome, const PgError *error);

/* The PgDone of a call whose reply is the answer to a request; state is the exchange. */
extern void reply_with_result(void *state, PgOutcome outcome, PgResult *result, const PgError *error);

/* Returns the Status of a failed call, in the arena, for an answer whose head was sent. */
extern JsonText reply_failure(Arena *arena, const PgError *error);

/* Whether the failure of a batch is not due to one of its writes: then sending them one by one would not help. */
extern bool reply_is_transient(PgOutcome outcome, const PgError *error);

/* Answer 400 with a message; answer 429; answer 504; answer with a plain text and Retry-After in seconds (0: none). */
extern void reply_bad_request(Exchange *exchange, const char *why);
extern void reply_too_many_requests(Exchange *exchange);
extern void reply_timeout(Exchange *exchange);
extern void reply_plain(Exchange *exchange, int code, const char *text, int retry_after);

#endif							/* REPLY_H */
