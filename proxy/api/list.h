/*-------------------------------------------------------------------------
 *
 * list.h
 *	  Lists of any size in bounded memory.
 *
 * The extension returns a list in pieces.  The proxy holds at most two: the
 * piece that it sends and the next one.  It asks for the next piece as soon as
 * it begins to send, if there is room for both.  While a client does not read,
 * no call is in flight for that client: a slow reader holds no connection and
 * no snapshot.
 *
 * The first piece waits for room (pg_answer_for()).  From then on the list
 * holds room for one piece until its end, so that a list that has begun never
 * waits for other clients.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIST_H
#define LIST_H

#include "api/exchange.h"
#include "base/answer_room.h"
#include "api/list_items.h"

/* A list that the proxy has planned (variant sql). */
typedef struct ListQuery
{
	const RegistryType *type;
	const char *namespace_name; /* "": all */
	ReadPlan	plan;
	ListForm	form;
} ListQuery;

typedef struct Pieces
{
	PgStatement statement;		/* PG_LIST, PG_READ_LIST, PG_DELETE_COLLECTION or PG_EXPORT */
	JsonText	request;		/* request, body and query belong to the owner */
	JsonText	body;
	ListQuery  *query;			/* PG_READ_LIST: the list as the proxy has planned it; else NULL */
	char	   *cursor;			/* where the next piece begins; NULL for the first piece */
	bool		try_standby;	/* the list names its version: a standby that has the version may answer */
	bool		on_standby;		/* whether the call in flight is */
	bool		exempt;			/* whether the calls are exempt from limits of queues (pg_exempt()) */
	bool		complete;		/* the last piece has arrived */
	bool		begun;			/* the first piece has arrived */
	bool		encoded;		/* a taken piece is held in two forms: plain and encoded */
	AnswerHolding holding;		/* the owner sets the user */
	Exchange   *exchange;		/* the exchange that the calls are for */
	size_t		taken;			/* bytes of the piece that was taken last */
	PgCall	   *call;
	PgResult   *ready;			/* the piece that has arrived and was not yet taken */
	uint64_t	(*time_left) (void *state);
	void		(*arrived) (void *state);	/* a piece can be taken */
	void		(*failed) (void *state, PgOutcome outcome, const PgError *error);	/* the caller may try again with
																					 * pieces_fetch() */
	void	   *state;
} Pieces;

/* Asks for the next piece unless one is ready or under way. */
extern void pieces_fetch(Pieces *pieces);

/*
 * Returns the piece that has arrived, which the caller then owns, or NULL, and asks for the next one.  The caller must
 * have finished with the previous piece.
 */
extern PgResult *pieces_take(Pieces *pieces);

/* Cancels the call in flight and frees all pieces. */
extern void pieces_end(Pieces *pieces);

/* A piece on its way to the client, 256 KB at a time: TLS copies the bytes that it gets. */
typedef struct PieceSending
{
	bool		busy;			/* false when nothing is left */
	PgResult   *result;			/* the taken piece is in result or in arena */
	Arena		arena;
	JsonText	rest;
	const PgError *error;		/* why the piece has no bytes */
} PieceSending;

/* Makes a query of a planned request, in the arena of the exchange.  The query points to the namespace of the route. */
extern ListQuery *list_query_new(Exchange *exchange, const ReadPlan *plan);

/* Returns the bytes of a piece (list_items.h); the PieceSending owns the piece from here on. */
extern JsonText piece_take(PieceSending *sending, PgResult *piece, ListQuery *query);

/* Begins to send the bytes of the taken piece, plain or encoded. */
extern void piece_send(PieceSending *sending, JsonText bytes, HttpRequest *http);

/* Call when the client has taken the last part.  Sends the next part, or ends the piece and returns false. */
extern bool piece_send_more(PieceSending *sending, HttpRequest *http);

/* Frees the taken piece, if there is one. */
extern void piece_drop(PieceSending *sending);

/* Answers a list, a deletecollection or an export: statement is PG_LIST, PG_DELETE_COLLECTION or PG_EXPORT. */
extern void list_start(Exchange *exchange, PgStatement statement);

#endif							/* LIST_H */
