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

/* The start of a watch.  Its texts are in the answer of the call and in the arena of the exchange. */
typedef struct WatchStart
{
	int			lane;
	int64_t		version;
	const char *cursor;			/* where the list of initial events begins; NULL: no initial events */
	ListQuery  *query;			/* the planned list of initial events; NULL: the extension plans it */
	JsonText	namespace_name; /* "": all namespaces */
	JsonText	labels;
	JsonText	fields;
	JsonText	first_representation;
	JsonText	representation;
	bool		bookmarks;
	JsonText	end_bookmark;	/* frame after the initial events; "": none */
	int32_t		timeout;
} WatchStart;

/* Returns the call that asks for the start of a watch.  NULL: the request was invalid and has been answered. */
extern PgCall *watch_call(Exchange *exchange);

/* Reads the answer to the call; false when it has only a reply, in its first columns. */
extern bool watch_start_read(Exchange *exchange, const PgResult *result, WatchStart *start);

#endif							/* WATCH_START_H */
