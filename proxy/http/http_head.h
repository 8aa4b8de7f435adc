/*-------------------------------------------------------------------------
 *
 * http_head.h
 *	  The head of an HTTP/1 request: request line and header lines.
 *
 * Plain C, because it reads the bytes of unknown clients (fuzz target
 * regress/fuzz/http_head_fuzz.c).  It copies and changes nothing; all pointers
 * point into the given bytes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for a user of more than a thousand groups, each of which is a line.  libh2o would give up at 417,792 bytes. */
#define HTTP_HEAD_BYTES ((size_t) 256 * 1024)
#define HTTP_HEAD_LINES ((size_t) 4096)

typedef struct HttpText
{
	const char *bytes;			/* NULL: absent */
	size_t		len;
} HttpText;

typedef struct HttpField
{
	HttpText	name;			/* a token, as sent */
	HttpText	value;			/* without the blanks around it */
} HttpField;

typedef struct HttpHead
{
	size_t		size;			/* bytes, including the empty line at the end */
	HttpText	method;
	HttpText	target;
	int			minor_version;	/* n of HTTP/1.n */
	HttpText	lines;			/* the header lines, for http_head_next() */
	size_t		line_count;

	/*
	 * The headers that control the rest of the request.  When lines have the same name, these are the last ones;
	 * lengths in several lines are equal.
	 */
	HttpField	host;
	HttpField	connection;
	HttpField	expect;
	HttpField	upgrade;
	HttpField	content_length;
	HttpField	transfer_encoding;
	uint64_t	body_len;		/* from content_length */
} HttpHead;

typedef enum HttpHeadOutcome
{
	HTTP_HEAD_WHOLE,
	HTTP_HEAD_PARTIAL,			/* more bytes are needed */
	HTTP_HEAD_BAD,				/* 400; method and target are set when the request line could be read */
	HTTP_HEAD_LARGE				/* 431; method and target likewise */
} HttpHeadOutcome;

/*
 * Reads a head from the len bytes received so far.  seen: the len of the last call, which returned HTTP_HEAD_PARTIAL; 0
 * at first.  seen only saves time: the outcome depends on the bytes alone.
 */
extern HttpHeadOutcome http_head_read(const char *bytes, size_t len, size_t seen, HttpHead *head);

/* Removes the next header from the lines of a whole head; false when none is left. */
extern bool http_head_next(HttpText *lines, HttpField *field);

#endif							/* HTTP_HEAD_H */
