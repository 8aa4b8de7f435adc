/*-------------------------------------------------------------------------
 *
 * token_review.c
 *	  Finds the user of a bearer token: TokenReview by kube-apiserver.
 *
 * With --api-audiences, a token must be issued for one of these audiences: the
 * TokenReview names them, and the answer must name one of them.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/token_review.h"

#include <string.h>

#include "base/config.h"
#include "trust/request_header.h"

#define REMEMBERED_TOKENS 4096
#define TOKENS_UNDER_WAY 200

static json_t *make_document(Arena *arena, const void *token);
static bool read_review(const json_t *status, ReviewAnswer *answer, const char **why);

static ReviewKind kind = {
	.name = "TokenReview",
	.path = "/apis/authentication.k8s.io/v1/tokenreviews",
	.budget = TRANSFER_TOKENS,
	.strange_budget = TRANSFER_STRANGE_TOKENS,
	.capacity = REMEMBERED_TOKENS,
	.most_under_way = TOKENS_UNDER_WAY,
	.document = make_document,
	.read = read_review,
};
static ReviewCache *cache;
static json_t *audiences;		/* NULL: any */

void
token_reviews_start(KubeApi *api)
{
	NameList	names;
	Arena		arena;

	arena_init(&arena);
	name_list_split(&arena, config.api_audiences, &names);
	if (names.count > 0)
		audiences = json_array();
	for (size_t i = 0; i < names.count; i++)
		json_array_append_new(audiences, kube_json_string(names.names[i]));
	arena_free(&arena);
	kind.positive_ms = kind.negative_ms = (uint64_t) config.token_cache_ttl;
	cache = review_cache_new(api, &kind);
}

bool
token_reviews_possible(void)
{
	return cache != NULL;
}

static json_t *
make_document(Arena *arena, const void *token)
{
	return json_pack("{s:s, s:s, s:{}, s:{s:o, s:O*}}", "kind", "TokenReview",
					 "apiVersion", "authentication.k8s.io/v1", "metadata",
					 "spec", "token", kube_json_string(token), "audiences", audiences);
}

void
token_review_ask(Arena *arena, const char *token, ReviewWaiter *waiter, ReviewDone done, void *state)
{
	review_ask(cache, (JsonText) {token, strlen(token)}, token, true, true, waiter, done, state);
}

/* --- The answer --- */

/* Whether a value is absent, null, or a string without NUL. */
static bool
is_text(const json_t *value)
{
	return value == NULL || json_is_null(value) || kube_json_text(value, NULL) != NULL;
}

static bool
is_text_array(const json_t *array)
{
	size_t		i;
	json_t	   *item;

	json_array_foreach(array, i, item)
		if (kube_json_text(item, NULL) == NULL)
		return false;
	return array == NULL || json_is_null(array) || json_is_array(array);
}

/* Whether a value has the form that token_review_user() relies on. */
static bool
is_user(const json_t *user)
{
	const char *name = kube_json_text(user, "username", NULL);
	json_t	   *extra = json_object_get(user, "extra");
	const char *key;
	json_t	   *values;

	json_object_foreach(extra, key, values)
		if (!is_text_array(values))
		return false;
	return name != NULL && name[0] != '\0' && is_text(json_object_get(user, "uid")) &&
		is_text_array(json_object_get(user, "groups")) &&
		(extra == NULL || json_is_null(extra) || json_is_object(extra));
}

static bool
has_audience(const json_t *granted)
{
	size_t		i;
	size_t		k;
	json_t	   *given;
	json_t	   *wanted;

	json_array_foreach(granted, i, given)
		json_array_foreach(audiences, k, wanted)
		if (json_equal(given, wanted))
		return true;
	return false;
}

static bool
read_review(const json_t *status, ReviewAnswer *answer, const char **why)
{
	const char *error = kube_json_text(status, "error", NULL);

	if (!json_is_true(json_object_get(status, "authenticated")))
	{
		*why = error;
		return error == NULL || error[0] == '\0';
	}
	if (audiences != NULL && !has_audience(json_object_get(status, "audiences")))
		return true;
	answer->told = json_object_get(status, "user");
	answer->positive = is_user(answer->told);
	*why = "the TokenReview has no proper user";
	return answer->positive;
}

static const char **
take_texts(Arena *arena, const json_t *array, size_t *count)
{
	const char **texts = arena_alloc(arena, (json_array_size(array) + 1) * sizeof(char *));

	for (*count = 0; *count < json_array_size(array); ++*count)
		texts[*count] = arena_strdup(arena, json_string_value(json_array_get(array, *count)));
	return texts;
}

void
token_review_user(Arena *arena, const ReviewAnswer *answer, User *user)
{
	const char *uid = kube_json_text(answer->told, "uid", NULL);
	json_t	   *extra = json_object_get(answer->told, "extra");
	const char *key;
	json_t	   *values;

	memset(user, 0, sizeof(*user));
	user->name = arena_strdup(arena, kube_json_text(answer->told, "username", NULL));
	user->uid = uid != NULL ? arena_strdup(arena, uid) : NULL;
	user->groups = take_texts(arena, json_object_get(answer->told, "groups"), &user->group_count);
	user->extra = arena_alloc(arena, (json_object_size(extra) + 1) * sizeof(UserExtra));
	json_object_foreach(extra, key, values)
	{
		UserExtra  *taken = &user->extra[user->extra_count++];

		taken->key = arena_strdup(arena, key);
		taken->values = take_texts(arena, values, &taken->value_count);
	}
}
