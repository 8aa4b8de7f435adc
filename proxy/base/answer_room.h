/*-------------------------------------------------------------------------
 *
 * answer_room.h
 *	  Limits the memory for answers: of a worker, and of each user.
 *
 * Each part of an answer counts from the request for it until the client has
 * taken it: first with its expected size, after the query with its true size.
 * All answers together may take --max-buffered-answer-bytes, the answers of
 * one user half of that.  Lists and exports may take only three quarters of
 * either limit, so that gets proceed while lists wait.  When a limit counts no
 * answer, the next one fits, however large it is.
 *
 * A request without room waits: calls in the queue of their pool (pg_pool.c),
 * watches before their next event.  Meanwhile http_server.c closes the connections of
 * clients that take nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ANSWER_ROOM_H
#define ANSWER_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWER_ROOM_LISTENERS 2

/* The bytes that one owner holds.  Embedded in the owner's struct; zeroed memory holds nothing. */
typedef struct AnswerHolding
{
	uint64_t	user;			/* from answer_room_user(); 0: no particular user */
	size_t		bytes;
} AnswerHolding;

/* Returns the number of the user with this name; never 0.  It is a hash: two users may have the same number. */
extern uint64_t answer_room_user(const char *name);

/* Sets the number of bytes held; this replaces the earlier number. */
extern void answer_room_hold(AnswerHolding *holding, size_t bytes);

/* Returns how many bytes to reserve for an answer of an expected size: fewer when only a few such answers would fit. */
extern size_t answer_room_expected(size_t bytes);

/* Whether so many more bytes fit within the limits of the worker and of the user; lasting: for a list or an export. */
extern bool answer_room_has(uint64_t user, size_t bytes, bool lasting);

/* The same, for a caller that waits when there is no room: also records the refusal. */
extern bool answer_room_ask(uint64_t user, size_t bytes, bool lasting);

/*
 * Whether room is short: too much is held in all, or in the last half second a request found no room because of all
 * answers together or of this user's answers (0: any user's).
 */
extern bool answer_room_short(uint64_t user);

/*
 * Registers a function that the loop calls after bytes were released, when a request found no room in the last half
 * second.  There can be ANSWER_ROOM_LISTENERS functions; one more aborts the process.
 */
extern void answer_room_on_release(void (*released) (void *state), void *state);

#endif							/* ANSWER_ROOM_H */
