/*-------------------------------------------------------------------------
 *
 * review.c
 *	  Reviews by kube-apiserver, each asked once and cached for a while.
 *
 * The cache finds answers by a keyed digest of the whole question.  So no two
 * questions have the same digest, no client can choose a bucket, and a token
 * is not kept in memory after its review.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/review.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/allocate.h"
#include "base/log.h"
#include "base/loop.h"

#define DIGEST_SIZE 32

/* A review ends after this time, whatever the number of attempts; milliseconds. */
#define REVIEW_TIMEOUT 10000

/* Answers with a larger text are not cached, so that the memory of a cache is bounded. */
#define ANSWER_LIMIT 8192
#define TEXT (JSON_COMPACT | JSON_ENCODE_ANY)

/*
 * Number of remembered digests of questions that had a positive answer; a power of two.  An asker with a remembered
 * digest is no stranger.
 */
#define VOUCHED_SLOTS 8192

/* Shortest time between two log lines about failures, in milliseconds. */
#define FAILURE_LOG_INTERVAL 5000

typedef struct Review Review;

struct Review
{
	ReviewCache *cache;
	Review	   *next_in_bucket;
	Review	   *newer;			/* cached reviews, in the order of their last use */
	Review	   *older;
	unsigned char digest[DIGEST_SIZE];
	KubeCall   *call;			/* NULL: not in progress */
	LoopTimer	timeout;
	bool		stranger;
	bool		remember;
	bool		told;			/* the callbacks of its waiters run: do not free it */
	uint64_t	expires_at;		/* when the cached answer expires; 0: not cached */
	ReviewAnswer answer;
	ReviewWaiter *waiters;
};

struct ReviewCache
{
	KubeApi    *api;
	const ReviewKind *kind;
	Review	  **buckets;
	size_t		bucket_mask;
	Review	   *newest;
	Review	   *oldest;
	size_t		remembered;
	size_t		under_way[2];	/* number of reviews in progress: of known askers, and of strangers */
	uint64_t	vouched[VOUCHED_SLOTS]; /* the first bytes of a digest, which also select the slot */
	uint64_t	failure_logged_at;
};

static void
make_digest(JsonText question, unsigned char *digest)
{
	static unsigned char key[DIGEST_SIZE];
	static bool known;
	unsigned int size;

	if (!known && getrandom(key, sizeof(key), 0) != sizeof(key))
		abort();
	known = true;
	if (HMAC(EVP_sha256(), key, sizeof(key), (const unsigned char *) question.bytes, question.len, digest,
			 &size) == NULL)
		abort();
}

ReviewCache *
review_cache_new(KubeApi *api, const ReviewKind *kind)
{
	ReviewCache *cache = calloc(1, sizeof(*cache));
	size_t		size = 64;

	while (size < kind->capacity)
		size *= 2;
	if (cache != NULL)
		cache->buckets = calloc(size, sizeof(Review *));
	if (cache == NULL || cache->buckets == NULL)
		abort();
	cache->api = api;
	cache->kind = kind;
	cache->bucket_mask = size - 1;
	return cache;
}

/* --- The cache --- */

static Review **
bucket_of(ReviewCache *cache, const unsigned char *digest)
{
	uint64_t	number;

	memcpy(&number, digest, sizeof(number));
	return &cache->buckets[number & cache->bucket_mask];
}

static void
unlink_use(Review *review)
{
	ReviewCache *cache = review->cache;

	*(review->newer != NULL ? &review->newer->older : &cache->newest) = review->older;
	*(review->older != NULL ? &review->older->newer : &cache->oldest) = review->newer;
	cache->remembered--;
}

static void
link_use(Review *review)
{
	ReviewCache *cache = review->cache;

	review->newer = NULL;
	review->older = cache->newest;
	*(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = review;
	cache->newest = review;
	cache->remembered++;
}

/* Takes a review out of its bucket and frees it.  The review has no waiters and is not cached. */
static void
review_free(Review *review)
{
	Review	  **link = bucket_of(review->cache, review->digest);

	while (*link != review)
		link = &(*link)->next_in_bucket;
	*link = review->next_in_bucket;
	json_decref(review->answer.told);
	free(review);
}

static void
forget(Review *review)
{
	unlink_use(review);
	review->expires_at = 0;
	if (!review->told)
		review_free(review);
}

static Review *
find(ReviewCache *cache, const unsigned char *digest)
{
	Review	   *review = *bucket_of(cache, digest);

	while (review != NULL && memcmp(review->digest, digest, DIGEST_SIZE) != 0)
		review = review->next_in_bucket;
	return review;
}

static void
keep(Review *review)
{
	const ReviewKind *kind = review->cache->kind;
	uint64_t	age = review->answer.positive ? kind->positive_ms : kind->negative_ms;

	if (!review->remember || age == 0 || json_dumpb(review->answer.told, NULL, 0, TEXT) > ANSWER_LIMIT)
		return;
	while (review->cache->remembered >= kind->capacity)
		forget(review->cache->oldest);
	review->expires_at = loop_now() + age;
	link_use(review);
}

/*
 * Returns the slot of a digest and the number to store there.  Slots outlive the cached answers, so that an asker that
 * was known a moment ago does not wait among strangers.
 */
static uint64_t *
vouched_slot(ReviewCache *cache, const unsigned char *digest, uint64_t *number)
{
	memcpy(number, digest, sizeof(*number));
	return &cache->vouched[*number % VOUCHED_SLOTS];
}

static bool
is_vouched(ReviewCache *cache, const unsigned char *digest)
{
	uint64_t	number;

	return *vouched_slot(cache, digest, &number) == number;
}

static void
note_vouched(Review *review)
{
	uint64_t	number;
	uint64_t   *slot = vouched_slot(review->cache, review->digest, &number);

	if (review->answer.positive)
		*slot = number;
	else if (*slot == number)
		*slot = 0;
}

/* --- Reviews in progress --- */

static void
log_failure(ReviewCache *cache, const char *why)
{
	uint64_t	now = loop_now();

	if (cache->failure_logged_at != 0 && now - cache->failure_logged_at < FAILURE_LOG_INTERVAL)
		return;
	cache->failure_logged_at = now;
	log_line(LOG_ERROR, "%s failed: %s", cache->kind->name, why);
}

static void
remove_waiter(ReviewWaiter *waiter)
{
	Review	   *review = waiter->review;

	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a waiter is in the list of its review */
	*(waiter->previous != NULL ? &waiter->previous->next : &review->waiters) = waiter->next;
	if (waiter->next != NULL)
		waiter->next->previous = waiter->previous;
	waiter->review = NULL;
}

/* Calls the callbacks of all waiters, which may cancel other waiters, ask again, or fill the cache. */
static void
tell(Review *review, ReviewOutcome outcome)
{
	review->told = true;
	while (review->waiters != NULL)
	{
		ReviewWaiter *waiter = review->waiters;

		remove_waiter(waiter);
		waiter->done(waiter->state, outcome, outcome == REVIEW_ANSWERED ? &review->answer : NULL);
	}
	review->told = false;
	if (review->expires_at == 0)
		review_free(review);
}

static void
end_call(Review *review)
{
	review->call = NULL;
	review->cache->under_way[review->stranger]--;
	loop_timer_stop(&review->timeout);
}

/* Reads the answer into the review; false with *why when it is invalid. */
static bool
read_answer(Review *review, Arena *arena, int code, const json_t *document, const char **why)
{
	const ReviewKind *kind = review->cache->kind;
	const json_t *status = json_object_get(document, "status");
	ReviewAnswer answer = {0};

	if (code == 0)
		return false;
	if (code != 200 && code != 201)
	{
		*why = arena_printf(arena, "kube-apiserver answered with status %d%s", code,
							code == 403 ? "; the ClusterRole system:auth-delegator is needed" : "");
		return false;
	}
	*why = document == NULL ? "the answer is no JSON" : arena_printf(arena, "the %s has no status", kind->name);
	if (!json_is_object(status) || !kind->read(status, &answer, why))
		return false;
	json_incref(answer.told);
	review->answer = answer;
	return true;
}

static void
on_answer(void *state, int status, const json_t *document, const char *why)
{
	Review	   *review = state;
	Arena		arena;
	bool		answered;

	end_call(review);
	arena_init(&arena);
	answered = read_answer(review, &arena, status, document, &why);
	if (answered)
	{
		note_vouched(review);
		keep(review);
	}
	else
		log_failure(review->cache, why);
	arena_free(&arena);
	tell(review, answered ? REVIEW_ANSWERED : REVIEW_FAILED);
}

static void
on_timeout(void *state)
{
	Review	   *review = state;

	kubeapi_cancel(review->call);
	end_call(review);
	log_failure(review->cache, "kube-apiserver did not answer in time");
	tell(review, REVIEW_FAILED);
}

static Review *
start(ReviewCache *cache, const void *question, const unsigned char *digest, bool stranger)
{
	Review	  **bucket = bucket_of(cache, digest);
	Review	   *review = allocate(sizeof(*review));
	Arena		arena;

	review->cache = cache;
	memcpy(review->digest, digest, DIGEST_SIZE);
	review->next_in_bucket = *bucket;
	*bucket = review;
	review->stranger = stranger;
	cache->under_way[stranger]++;
	loop_timer_start(&review->timeout, REVIEW_TIMEOUT, on_timeout, review);
	arena_init(&arena);
	review->call = kubeapi_post(cache->api, cache->kind->path,
								kube_json_write(&arena, cache->kind->document(&arena, question)),
								stranger ? cache->kind->strange_budget : cache->kind->budget, on_answer, review);
	arena_free(&arena);
	return review;
}

void
review_ask(ReviewCache *cache, JsonText key, const void *question, bool remember, bool stranger, ReviewWaiter *waiter,
		   ReviewDone done, void *state)
{
	unsigned char digest[DIGEST_SIZE];
	Review	   *review;

	make_digest(key, digest);
	review = find(cache, digest);
	if (review != NULL && review->call == NULL && (review->expires_at == 0 || review->expires_at <= loop_now()))
	{
		/* A review that is being told and is not cached does not count. */
		if (review->expires_at != 0)
			forget(review);
		review = NULL;
	}
	if (review != NULL && review->call == NULL)
	{
		ReviewAnswer answer = review->answer;

		unlink_use(review);
		link_use(review);
		/* done() may remove the review from the cache. */
		json_incref(answer.told);
		done(state, REVIEW_ANSWERED, &answer);
		json_decref(answer.told);
		return;
	}
	if (review == NULL)
	{
		stranger = stranger && !is_vouched(cache, digest);
		if (cache->under_way[stranger] >= cache->kind->most_under_way)
		{
			done(state, REVIEW_REFUSED, NULL);
			return;
		}
		review = start(cache, question, digest, stranger);
	}
	review->remember |= remember;
	waiter->review = review;
	waiter->previous = NULL;
	waiter->next = review->waiters;
	if (review->waiters != NULL)
		review->waiters->previous = waiter;
	review->waiters = waiter;
	waiter->done = done;
	waiter->state = state;
}

void
review_cancel(ReviewWaiter *waiter)
{
	if (waiter->review != NULL)
		remove_waiter(waiter);
}
