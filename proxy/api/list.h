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

/* A list that the proxy has planned. */
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
	JsonText	request;		/* these three belong to the owner */
	JsonText	body;
	ListQuery  *query;			/* PG_READ_LIST: the list as the proxy has planned it; else NULL */
	char	   *cursor;			/* of the next piece; NULL for the first one */
	bool		try_standby;	/* the list names its version: a standby that has the version may answer */
	bool		on_standby;		/* the call in flight */
	bool		exempt;			/* pg_exempt() */
	bool		complete;		/* the last piece has arrived */
	bool		begun;			/* the first piece has arrived */
	bool		encoded;		/* a taken piece is held in two forms: plain and encoded */
	AnswerHolding holding;		/* the owner sets the user */
	Exchange   *exchange;		/* for which the calls are made */
	size_t		taken;			/* bytes of the piece that was taken last */
	PgCall	   *call;
	PgResult   *ready;			/* arrived, not yet taken */
	uint64_t	(*time_left) (void *state);
	void		(*arrived) (void *state);	/* a piece can be taken */
	void		(*failed) (void *state, PgOutcome outcome, const PgError *error);	/* pieces_fetch() tries again */
	void	   *state;
} Pieces;

/* Asks for the next piece unless one is ready or under way. */
extern void pieces_fetch(Pieces *pieces);

/*
 * Returns the piece that has arrived, which the caller then owns, or NULL, and asks for the next one.  The caller must
 * have finished with the previous piece.
 */
extern PgResult *pieces_take(Pieces *pieces);

extern void pieces_end(Pieces *pieces);

/* A piece on its way to the client, 256 KB at a time: TLS copies the bytes that it gets. */
typedef struct PieceSending
{
	bool		busy;			/* false when nothing is left */
	PgResult   *result;			/* the taken piece is in one of these two */
	Arena		arena;
	JsonText	rest;
	const PgError *error;		/* why the piece has no bytes */
} PieceSending;

/*
 * Makes a query of a planned request.  It lives in the arena of the exchange, and refers to what lives there: the plan
 * and the namespace.
 */
extern ListQuery *list_query_new(Exchange *exchange, const ReadPlan *plan);

/* Returns the bytes of a piece (list_items.h); the PieceSending owns the piece from here on. */
extern JsonText piece_take(PieceSending *sending, PgResult *piece, ListQuery *query);

/* Sends the bytes of the taken piece, as they are or encoded. */
extern void piece_send(PieceSending *sending, JsonText bytes, HttpRequest *http);

/* Call when the client has taken the last part.  Sends the next part, or ends the piece and returns false. */
extern bool piece_send_more(PieceSending *sending, HttpRequest *http);

/* Frees a piece, sent or not. */
extern void piece_drop(PieceSending *sending);

/* Answers a list, a deletecollection or an export. */
extern void list_start(Exchange *exchange, PgStatement statement);

#endif							/* LIST_H */
