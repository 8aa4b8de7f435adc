/*-------------------------------------------------------------------------
 *
 * exchange.h
 *	  What a request asked and what the head of its answer says.
 *
 * The part of an HttpRequest that needs no HTTP library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "http.h"

/* The first member of every HttpRequest.  All strings are in the arena. */
typedef struct Exchange
{
	Arena		arena;
	const char *method;
	const char *uri;			/* as sent */
	const char *path;
	const char *query;
	const char *audit_id;
	const char *user;
	HttpHeader *headers;
	size_t		header_count;
	bool		is_head;
	uint64_t	begun_at;		/* microseconds of the monotonic clock */
	int			status;			/* of the answer; 0 before there is one */
} Exchange;

/* header_capacity: how many headers will be added at most. */
extern void exchange_init(Exchange *exchange, const char *method, size_t method_len, const char *target, size_t target_len,
						  size_t header_capacity);
extern void exchange_add_header(Exchange *exchange, const char *name, size_t name_len, const char *value, size_t value_len);
/* After the last header: settles the audit id. */
extern void exchange_ready(Exchange *exchange);
extern double exchange_seconds(const Exchange *exchange);
/* Writes the access log and frees the arena. */
extern void exchange_end(Exchange *exchange, size_t bytes_sent, bool complete);

/* The head of an answer, complete but for what the library writes itself (date, connection, content-length). */
typedef struct AnswerHead
{
	const char *reason;
	HttpHeader *headers;
	size_t		header_count;
	size_t		length;			/* SIZE_MAX: not known */
	bool		close;			/* connection: close was asked for */
} AnswerHead;

extern void exchange_answer(Exchange *exchange, int status, const HttpHeader *headers, size_t header_count, size_t length,
							AnswerHead *head);

/* A Status document (400, 404, 413) for a request that no handler gets to see. */
extern const char *exchange_refusal(Exchange *exchange, int status, size_t *len);

#endif							/* EXCHANGE_H */
