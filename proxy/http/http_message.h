/*-------------------------------------------------------------------------
 *
 * http_message.h
 *	  The texts of a request and the head of its answer.
 *
 * The part of an HttpRequest that needs no HTTP library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_MESSAGE_H
#define HTTP_MESSAGE_H

#include "http/http.h"

/* The first member of every HttpRequest.  All strings are in the arena. */
typedef struct HttpMessage
{
	Arena		arena;
	char	   *room;			/* first memory of the arena, malloc'ed */
	const char *method;
	const char *uri;			/* as sent */
	const char *path;
	const char *query;
	const char *audit_id;
	const char *request_id;		/* this and the next two are the client's; NULL: missing or invalid */
	const char *trace_id;
	const char *parent_id;
	const char *warning;		/* NULL: none */
	HttpTarget	target;			/* from here to group_count: for the access log */
	double		database_wait;
	double		database;
	const char *user;
	uint64_t	user_number;	/* answer_room_user(); 0: not known */
	const char **groups;
	size_t		group_count;
	HttpHeader *headers;
	size_t		header_count;
	bool		is_head;
	uint64_t	begun_at;		/* microseconds of the monotonic clock */
	int			status;			/* status of the answer; 0 before the answer */
} HttpMessage;

/* Begins an exchange and copies method and target.  header_capacity: largest number of headers that will be added. */
extern void http_message_init(HttpMessage *exchange, const char *method, size_t method_len, const char *target,
							  size_t target_len,
							  size_t header_capacity);
extern void http_message_add_header(HttpMessage *exchange, const char *name, size_t name_len, const char *value,
									size_t value_len);

/* Sets the ids of the request.  Call after the last header was added. */
extern void http_message_ready(HttpMessage *exchange);
extern double http_message_seconds(const HttpMessage *exchange);

/* Writes the access log and frees the arena. */
extern void http_message_end(HttpMessage *exchange, size_t bytes_sent, bool complete);

/* The head of an answer, without the headers that the library writes (date, connection, content-length). */
typedef struct AnswerHead
{
	const char *reason;
	HttpHeader *headers;
	size_t		header_count;
	size_t		length;			/* SIZE_MAX: not known */
	bool		close;			/* the handler set connection: close */
} AnswerHead;

extern void http_message_answer(HttpMessage *exchange, int status, const HttpHeader *headers,
								size_t header_count, size_t length,
								AnswerHead *head);

/* Reasons to refuse a request before the handler sees it. */
typedef enum HttpRefusal
{
	REFUSAL_NONE,
	REFUSAL_BAD_REQUEST,
	REFUSAL_NOT_FOUND,
	REFUSAL_LARGE_BODY,
	REFUSAL_BODY,				/* the port takes no bodies */
	REFUSAL_LARGE_HEAD,
	REFUSAL_BODIES,				/* too many bodies are held */
	REFUSAL_CLIENTS,			/* too many clients are connected */
	REFUSAL_UNAUTHORIZED,		/* the request has a body and invalid credentials */
	REFUSAL_REVIEWS				/* the request has a body, and too many token reviews are in progress */
} HttpRefusal;

/* Returns the refusal for a status that the library chose; for an unknown status REFUSAL_BAD_REQUEST. */
extern HttpRefusal http_refusal_of_status(int status);
extern int	http_refusal_status(HttpRefusal refusal);

/* Returns the seconds until the client should try again; 0: never. */
extern int	http_refusal_retry(HttpRefusal refusal);

/* Returns the Status document of a refusal with this HTTP status, in the arena of the exchange. */
extern const char *http_message_refusal(HttpMessage *exchange, HttpRefusal refusal, int status, size_t *len);

#endif							/* HTTP_MESSAGE_H */
