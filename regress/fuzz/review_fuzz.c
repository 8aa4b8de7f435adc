/*-------------------------------------------------------------------------
 *
 * review_fuzz.c
 *	  Fuzz target: reviews, from the call to the use of the answer.
 *
 * The input has a line for each event.  There are only a few tokens, the
 * cache is small and few calls may be under way:
 *
 *	a N			a waiter asks about token N; b N: and asks again when answered, 700 ms later
 *	c N			waiter N gives up
 *	r N CODE BODY	call N is answered; code 0: kube-apiserver was not reachable
 *	t N			N milliseconds pass
 *
 * Every waiter is answered once, unless it gave up; equal reviews share a call;
 * the cache and the calls in progress stay within their limits; only an answer
 * with authenticated: true gives a user.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "fuzz.h"

/* Every target links the document engine, but none links the proxy's files.  These need libcrypto and jansson alone. */
#include "base/name_list.c"
#include "codec/kube_json.c"
#include "trust/request_header.c"
#include "identity/review.c"
#include "identity/token_review.c"

#define TOKENS 8
#define WAITERS 200
#define CALLS 200
#define TIME_TO_ASK_AGAIN 700

struct KubeCall
{
	bool		open;
	char	   *document;
	KubeAnswer	answer;
	void	   *state;
};

typedef struct Asker
{
	ReviewWaiter waiter;
	size_t		token;
	bool		waiting;
	bool		again;
} Asker;

Config		config;

static KubeCall calls[CALLS];
static size_t call_count;
static Asker askers[WAITERS];
static size_t asker_count;
static uint64_t now;
static LoopTimer *timers[CALLS];
static Arena world;

/* --- Functions of the proxy's other files --- */

uint64_t
loop_now(void)
{
	return now;
}

void
loop_timer_start(LoopTimer *timer, uint64_t delay_ms, void (*fire) (void *state), void *state)
{
	*timer = (LoopTimer) {.due = now + delay_ms, .fire = fire, .state = state, .running = true};
	for (size_t i = 0; i < CALLS; i++)
	{
		if (timers[i] == NULL)
		{
			timers[i] = timer;
			return;
		}
	}
	abort();
}

void
loop_timer_stop(LoopTimer *timer)
{
	timer->running = false;
	for (size_t i = 0; i < CALLS; i++)
	{
		if (timers[i] == timer)
			timers[i] = NULL;
	}
}

void
log_line(LogLevel level, const char *format,...)
{
}

KubeCall *
kubeapi_post(KubeApi *api, const char *path, JsonText body, TransferBudget budget, KubeAnswer answer, void *state)
{
	KubeCall   *call = &calls[call_count++];

	check(call_count <= CALLS);
	for (size_t i = 0; i + 1 < call_count; i++)
		check(!calls[i].open || strcmp(calls[i].document, body.bytes) != 0);
	*call = (KubeCall) {.open = true, .document = strndup(body.bytes, body.len), .answer = answer, .state = state};
	return call;
}

void
kubeapi_cancel(KubeCall *call)
{
	check(call->open);
	call->open = false;
}

/* --- Waiters --- */

static void ask(size_t token, bool again);

static void
told(void *state, ReviewOutcome outcome, const ReviewAnswer *answer)
{
	Asker	   *asker = state;
	User		user;

	check(asker->waiting);
	asker->waiting = false;
	check((outcome == REVIEW_ANSWERED) == (answer != NULL));
	if (answer != NULL && answer->positive)
	{
		token_review_user(&world, answer, &user);
		check(user.name[0] != '\0');
		for (size_t i = 0; i < user.group_count; i++)
			check(strlen(user.groups[i]) < 1 << 20);
		for (size_t i = 0; i < user.extra_count; i++)
			for (size_t k = 0; k < user.extra[i].value_count; k++)
				check(strlen(user.extra[i].key) + strlen(user.extra[i].values[k]) < 1 << 20);
	}
	if (asker->again)
	{
		/* This takes time: the answer may expire before every waiter has it. */
		now += TIME_TO_ASK_AGAIN;
		ask(asker->token, false);
	}
}

static void
ask(size_t token, bool again)
{
	Asker	   *asker = &askers[asker_count];
	char		name[20];

	if (asker_count == WAITERS || call_count == CALLS)
		return;
	asker_count++;
	*asker = (Asker) {.token = token % TOKENS, .waiting = true, .again = again};
	snprintf(name, sizeof(name), "token-%zu", asker->token);
	token_review_ask(&world, name, &asker->waiter, told, asker);
	check(asker->waiting == (asker->waiter.review != NULL));
}

static void
answer_call(size_t number, int code, const char *body)
{
	json_auto_t *answer = code == 0 ? NULL : kube_json_read(body, strlen(body));

	if (number >= call_count || !calls[number].open)
		return;
	calls[number].open = false;
	calls[number].answer(calls[number].state, code, answer, code == 0 ? "away" : NULL);
}

static void
pass(uint64_t milliseconds)
{
	now += milliseconds;
	for (size_t i = 0; i < CALLS; i++)
	{
		LoopTimer  *timer = timers[i];

		if (timer == NULL || timer->due > now)
			continue;
		loop_timer_stop(timer);
		timer->fire(timer->state);
	}
}

static void
check_bounds(void)
{
	size_t		open = 0;

	for (size_t i = 0; i < call_count; i++)
		open += calls[i].open;
	check(open == cache->under_way[0] + cache->under_way[1] && cache->remembered <= kind.capacity);
	check(cache->under_way[0] <= kind.most_under_way && cache->under_way[1] <= kind.most_under_way);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *next;
	char	   *text = strndup((const char *) bytes, size);

	arena_init(&world);
	call_count = asker_count = 0;
	now = 1000;
	memset(timers, 0, sizeof(timers));
	config.api_audiences = "";
	config.token_cache_ttl = 1000;
	kind.capacity = 3;
	kind.most_under_way = 4;
	token_reviews_start(NULL);
	for (const char *line = text; line != NULL && *line != '\0'; line = next == NULL ? NULL : next + 1)
	{
		char	   *rest;
		size_t		number;
		char	   *copy;

		next = strchr(line, '\n');
		copy = arena_strndup(&world, line, next != NULL ? (size_t) (next - line) : strlen(line));
		if (copy[0] == '\0')
			continue;
		number = strtoul(copy + 1, &rest, 10);
		if (copy[0] == 'a' || copy[0] == 'b')
			ask(number, copy[0] == 'b');
		else if (copy[0] == 'c' && number < asker_count)
		{
			review_cancel(&askers[number].waiter);
			askers[number].waiting = false;
		}
		else if (copy[0] == 'r')
		{
			int			code = (int) strtol(rest, &rest, 10);

			answer_call(number, code, rest);
		}
		else if (copy[0] == 't')
			pass(number % 100000);
		check_bounds();
	}
	/* In the end every waiter is answered. */
	while (cache->under_way[0] + cache->under_way[1] > 0)
		pass(REVIEW_TIMEOUT);
	for (size_t i = 0; i < asker_count; i++)
		check(!askers[i].waiting);
	while (cache->oldest != NULL)
		forget(cache->oldest);
	for (size_t i = 0; i < call_count; i++)
		free(calls[i].document);
	free(cache->buckets);
	free(cache);
	arena_free(&world);
	free(text);
	return 0;
}
