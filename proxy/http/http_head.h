/*-------------------------------------------------------------------------
 *
 * http_head.h
 *	  The head of a request of HTTP/1: request line and header lines.
 *
 * Plain C, because it reads the bytes of clients whom nobody knows (fuzz target
 * regress/fuzz/http_head_fuzz.c).  Nothing is copied or changed; everything
 * points into the bytes that were given.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Room for a user of more than a thousand groups, each of which is a line.  libh2o would give up at 417,792 bytes.
 */
#define HTTP_HEAD_BYTES ((size_t) 256 * 1024)
#define HTTP_HEAD_LINES ((size_t) 4096)

typedef struct HttpText
{
	const char *bytes;			/* NULL: there is none */
	size_t		len;
} HttpText;

typedef struct HttpField
{
	HttpText	name;			/* a token, as sent */
	HttpText	value;			/* without the blanks around it */
} HttpField;

typedef struct HttpHead
{
	size_t		size;			/* bytes, with the empty line at the end */
	HttpText	method;
	HttpText	target;
	int			minor_version;	/* of HTTP/1 */
	HttpText	lines;			/* the header lines, for http_head_next() */
	size_t		line_count;
	/* What says how the request goes on; of lines of one name the last, but for the length all are the same. */
	HttpField	host;
	HttpField	connection;
	HttpField	expect;
	HttpField	upgrade;
	HttpField	content_length;
	HttpField	transfer_encoding;
	uint64_t	body_len;		/* that content_length tells */
} HttpHead;

typedef enum HttpHeadOutcome
{
	HTTP_HEAD_WHOLE,
	HTTP_HEAD_PARTIAL,			/* more has to come */
	HTTP_HEAD_BAD,				/* 400; method and target are set when the request line could be read */
	HTTP_HEAD_LARGE				/* 431; likewise */
} HttpHeadOutcome;

/*
 * Reads a head from the bytes that have come so far.  seen: how many of them there were when it was partial the last
 * time; 0 at first.  It only saves time: the outcome depends on the bytes alone.
 */
extern HttpHeadOutcome http_head_read(const char *bytes, size_t len, size_t seen, HttpHead *head);

/* Takes the next line off the lines of a head that was whole; false when there is none. */
extern bool http_head_next(HttpText *lines, HttpField *field);

#endif							/* HTTP_HEAD_H */
