/*-------------------------------------------------------------------------
 *
 * answer_room.c
 *	  Limits the memory for answers: of a worker, and of each user.
 *
 *-------------------------------------------------------------------------
 */
#include "base/answer_room.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "engine/base/hash.h"

/* Users are hashed to this many shares.  Two users of one share count as one user. */
#define SHARES 1024

/* A refusal counts as recent for this long.  Waiting calls ask again more often than that. */
#define SHORT_MS 500

/* The expected size of an answer is reserved up to this part (an eighth) of the limit. */
#define EXPECTED_PART 8

typedef struct Share
{
	size_t		held;
	uint64_t	refused_at;		/* time of the last refusal for lack of room; 0: never */
} Share;

static Share all;
static Share shares[SHARES];
static uint64_t refused_at;		/* time of the last refusal, whichever share was full */

typedef struct Listener
{
	void		(*released) (void *state);
	void	   *state;
} Listener;

static Listener listeners[ANSWER_ROOM_LISTENERS];
static size_t listener_count;
static bool release_pending;

uint64_t
answer_room_user(const char *name)
{
	return hash_bytes(HASH_SEED, name, strlen(name)) | 1;
}

static Share *
share_of(uint64_t user)
{
	/* answer_room_user() sets the lowest bit of every number. */
	return &shares[(user >> 1) % SHARES];
}

static bool
is_recent(uint64_t at)
{
	return at != 0 && loop_now() - at < SHORT_MS;
}

static void
tell_release(void *state)
{
	release_pending = false;
	for (size_t i = 0; i < listener_count; i++)
		listeners[i].released(listeners[i].state);
}

void
answer_room_on_release(void (*released) (void *state), void *state)
{
	if (listener_count == ANSWER_ROOM_LISTENERS)
		abort();
	listeners[listener_count++] = (Listener) {released, state};
}

void
answer_room_hold(AnswerHolding *holding, size_t bytes)
{
	bool		less = bytes < holding->bytes;

	if (bytes == holding->bytes)
		return;
	all.held += bytes - holding->bytes;
	if (holding->user != 0)
		share_of(holding->user)->held += bytes - holding->bytes;
	metrics_gauge_add(GAUGE_ANSWER_BYTES, (long) bytes - (long) holding->bytes);
	holding->bytes = bytes;
	if (less && listener_count > 0 && !release_pending && is_recent(refused_at))
	{
		release_pending = true;
		loop_defer(tell_release, NULL);
	}
}

static bool
fits(const Share *share, size_t bytes, size_t limit)
{
	return share->held == 0 || (share->held < limit && bytes <= limit - share->held);
}

static size_t
limit_of(bool lasting)
{
	return lasting ? config.max_buffered_answer_bytes / 4 * 3 : config.max_buffered_answer_bytes;
}

size_t
answer_room_expected(size_t bytes)
{
	size_t		most = config.max_buffered_answer_bytes / EXPECTED_PART;

	return bytes < most ? bytes : most;
}

/* Returns the share (of all, or of the user) that has no room for that many more bytes; NULL when both have room. */
static Share *
full_share(uint64_t user, size_t bytes, bool lasting)
{
	size_t		limit = limit_of(lasting);

	if (!fits(&all, bytes, limit))
		return &all;
	return user != 0 && !fits(share_of(user), bytes, limit / 2) ? share_of(user) : NULL;
}

bool
answer_room_has(uint64_t user, size_t bytes, bool lasting)
{
	return full_share(user, bytes, lasting) == NULL;
}

bool
answer_room_ask(uint64_t user, size_t bytes, bool lasting)
{
	Share	   *full = full_share(user, bytes, lasting);

	if (full == NULL)
		return true;
	full->refused_at = refused_at = loop_now();
	return false;
}

bool
answer_room_short(uint64_t user)
{
	if (all.held > config.max_buffered_answer_bytes || is_recent(all.refused_at))
		return true;
	return user == 0 ? is_recent(refused_at) : is_recent(share_of(user)->refused_at);
}
