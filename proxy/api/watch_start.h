/*-------------------------------------------------------------------------
 *
 * watch_start.h
 *	  Where a watch starts, and what it selects.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WATCH_START_H
#define WATCH_START_H

#include "api/list.h"

/* The texts are in the answer of the call and in the arena of the exchange. */
typedef struct WatchStart
{
	int			lane;
	int64_t		version;
	const char *cursor;			/* of the initial events; NULL: none */
	ListQuery  *query;			/* of these; NULL: the extension plans them */
	JsonText	namespace_name; /* "": all */
	JsonText	labels;
	JsonText	fields;
	JsonText	first_representation;
	JsonText	representation;
	bool		bookmarks;
	JsonText	end_bookmark;	/* "": none */
	int32_t		timeout;
} WatchStart;

/* The call that asks for the start of a watch.  NULL: the request is refused, and the answer has been sent. */
extern PgCall *watch_call(Exchange *exchange);

/* Reads the answer to the call; false when the reply in its first columns is all. */
extern bool watch_start_read(Exchange *exchange, const PgResult *result, WatchStart *start);

#endif							/* WATCH_START_H */
