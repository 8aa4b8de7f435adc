/*-------------------------------------------------------------------------
 *
 * answer_room.h
 *	  How much memory the answers of a worker take, and whose they are.
 *
 * A part of an answer is counted from the moment at which it is asked for: its
 * expected size before the query, its true size afterwards, until the client
 * has taken it.  All of them together take --max-buffered-answer-bytes, those
 * of one user half of that, lists and exports three quarters of either, so
 * that gets go on while lists wait.  Where nothing is held, one answer always
 * fits, however large it is.
 *
 * What finds no room waits where it is: calls in the queue of their pool
 * (pg.c), watches before their next event.  Meanwhile clients are cut that
 * take nothing (http.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ANSWER_ROOM_H
#define ANSWER_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWER_ROOM_LISTENERS 2

/* What one owner holds, embedded in it; zeroed memory holds nothing. */
typedef struct AnswerHolding
{
	uint64_t	user;			/* answer_room_user(); 0: nobody in particular */
	size_t		bytes;
} AnswerHolding;

/* The number of a user; never 0. */
extern uint64_t answer_room_user(const char *name);

/* Holds so many bytes from now on instead of what was held before. */
extern void answer_room_hold(AnswerHolding *holding, size_t bytes);

/* What is reserved for an answer of an expected size: less where few of them would fit. */
extern size_t answer_room_expected(size_t bytes);

/* Whether there is room for more; lasting: for a list or an export. */
extern bool answer_room_has(uint64_t user, size_t bytes, bool lasting);

/* The same, for who waits if there is none. */
extern bool answer_room_ask(uint64_t user, size_t bytes, bool lasting);

/* Whether somebody waits, or did half a second ago, for what this user (0: anybody) holds. */
extern bool answer_room_short(uint64_t user);

/* Called from the loop when something was given back that somebody waits for; ANSWER_ROOM_LISTENERS at most. */
extern void answer_room_on_release(void (*released) (void *state), void *state);

#endif							/* ANSWER_ROOM_H */
