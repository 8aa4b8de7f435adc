/*-------------------------------------------------------------------------
 *
 * reply.h
 *	  Answers: replies of the extension's functions and Status objects of our own.
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

/* Columns 0 to 4 of a row; what it points to lives in the result and in the arena. */
extern Reply reply_read(Arena *arena, const PgResult *result, size_t row);

/*
 * A whole answer, in the form that the client asked for.  With a result, the body is borrowed from it and the result
 * is freed when it has been sent; else it is copied.
 */
extern void reply_send(Exchange *exchange, const Reply *given, PgResult *result);

/* Whether the client wants an answer of this code indented, if it is JSON. */
extern bool reply_is_pretty(Exchange *exchange, int code);

/* A JSON body, indented. */
extern JsonText reply_indented(Arena *arena, JsonText body);

/* What an answer in pieces goes through; NULL when it goes out as it is.  Changes the head accordingly. */
extern Encoding *reply_encoding(Exchange *exchange, Reply *reply);

/* The head of a chunked answer. */
extern void reply_stream_begin(Exchange *exchange, const Reply *reply, void (*writable) (void *state), void *state);

/* A Status.  details may be NULL (none); its retry_after_seconds becomes Retry-After. */
extern void reply_status(Exchange *exchange, int code, const char *reason, const char *message,
						 const StatusDetails *details);

/*
 * The Status of a path that has no such method.  allow: the methods that it has; NULL on paths of kube-apiserver,
 * which does not say.
 */
extern void reply_method_not_allowed(Exchange *exchange, const char *allow);

/* The answer to a call that gave no result. */
extern void reply_outcome(Exchange *exchange, PgOutcome outcome, const PgError *error);

/* The Status of a call that failed, in the arena: for where an answer has begun. */
extern JsonText reply_failure(Arena *arena, const PgError *error);

/* Whether a failure would not go away by trying the parts of a batch one by one. */
extern bool reply_is_transient(PgOutcome outcome, const PgError *error);

extern void reply_too_many_requests(Exchange *exchange);
extern void reply_timeout(Exchange *exchange);
extern void reply_plain(Exchange *exchange, int code, const char *text, int retry_after);

#endif							/* REPLY_H */
