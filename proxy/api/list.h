/*-------------------------------------------------------------------------
 *
 * list.h
 *	  Lists of any size in bounded memory.
 *
 * A list comes from the extension in pieces.  At most two are here at a time:
 * the one that is being sent and the next one, which is asked for as soon as
 * the sending begins, if there is room for both.  While a client does not take
 * what it has, no call is in flight for it: a slow reader holds no connection
 * and no snapshot.
 *
 * The first piece waits for room (pg_answer_for()).  Once it is there, room
 * for a piece is held until the end, so that a list that has begun waits for
 * nobody.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LIST_H
#define LIST_H

#include "api/exchange.h"
#include "base/answer_room.h"

typedef struct Pieces
{
	PgStatement statement;		/* PG_LIST, PG_DELETE_COLLECTION or PG_EXPORT */
	JsonText	request;		/* these two stay the owner's */
	JsonText	body;
	char	   *cursor;			/* of the next piece; NULL for the first one */
	bool		try_standby;	/* the version is known: a standby that has it will do */
	bool		on_standby;		/* the call in flight */
	bool		exempt;			/* pg_exempt() */
	bool		complete;		/* the last piece has arrived */
	bool		begun;			/* the first piece has arrived */
	bool		encoded;		/* a piece that was taken is held in two forms */
	AnswerHolding holding;		/* its user is the owner's to set */
	Exchange   *exchange;		/* whom the calls are for */
	size_t		taken;			/* bytes of the piece that was taken last, until the next one is asked for */
	PgCall	   *call;
	PgResult   *ready;			/* arrived, not yet taken */
	uint64_t	(*time_left) (void *state);
	void		(*arrived) (void *state);	/* a piece can be taken */
	void		(*failed) (void *state, PgOutcome outcome, const PgError *error);	/* pieces_fetch() tries again */
	void	   *state;
} Pieces;

/* Asks for the next piece unless one is there or under way. */
extern void pieces_fetch(Pieces *pieces);

/*
 * The piece that has arrived, which is then the caller's, or NULL; asks for the one behind it.  The caller is done with
 * the piece before.
 */
extern PgResult *pieces_take(Pieces *pieces);

extern void pieces_end(Pieces *pieces);

/*
 * The bytes of a piece, those of its rows one behind the other: in the result or, when there are several, in the
 * arena.
 */
extern JsonText piece_bytes(const PgResult *piece, Arena *arena);

/* A piece on its way to the client, 256 KB at a time: TLS copies what it is given. */
typedef struct PieceSending
{
	bool		busy;			/* false when nothing is left */
	PgResult   *result;			/* what has been taken is in one of these two */
	Arena		arena;
	JsonText	rest;
} PieceSending;

/* The bytes of a piece, which is the sender's from here on. */
extern JsonText piece_take(PieceSending *sending, PgResult *piece);

/* Sends the bytes of the piece that was taken, or what has been made of them. */
extern void piece_send(PieceSending *sending, JsonText bytes, HttpRequest *http);

/* When the client has taken the last part: sends the next one, or ends the piece and returns false. */
extern bool piece_send_more(PieceSending *sending, HttpRequest *http);

/* Frees a piece, sent or not. */
extern void piece_drop(PieceSending *sending);

/* Answers a list, a deletecollection or an export. */
extern void list_start(Exchange *exchange, PgStatement statement);

#endif							/* LIST_H */
