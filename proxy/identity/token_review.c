/*-------------------------------------------------------------------------
 *
 * token_review.c
 *	  Finds the user of a bearer token: TokenReview by kube-apiserver.
 *
 * With --api-audiences, the token must be meant for one of them: the
 * TokenReview names them, and the answer must contain one of them.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/token_review.h"

#include <string.h>

#include "base/config.h"
#include "trust/request_header.h"

#define REMEMBERED_TOKENS 4096
#define TOKENS_UNDER_WAY 200

static bool read_review(Arena *arena, const JsonNode *review, ReviewAnswer *answer, const char **why);

static ReviewKind kind = {
	.name = "TokenReview",
	.path = "/apis/authentication.k8s.io/v1/tokenreviews",
	.budget = TRANSFER_TOKENS,
	.strange_budget = TRANSFER_STRANGE_TOKENS,
	.capacity = REMEMBERED_TOKENS,
	.most_under_way = TOKENS_UNDER_WAY,
	.read = read_review,
};
static ReviewCache *cache;
static NameList audiences;

void
token_reviews_start(KubeApi *api)
{
	static Arena arena;			/* holds the audiences until the process ends */

	arena_init(&arena);
	name_list_split(&arena, config.api_audiences, &audiences);
	kind.positive_ms = kind.negative_ms = (uint64_t) config.token_cache_ttl;
	cache = review_cache_new(api, &kind);
}

bool
token_reviews_possible(void)
{
	return cache != NULL;
}

void
token_review_ask(Arena *arena, const char *token, ReviewWaiter *waiter, ReviewDone done, void *state)
{
	JsonNode   *review = json_new_object(arena);
	JsonNode   *spec = json_new_object(arena);
	StrBuf		text;

	json_set(arena, review, "kind", json_new_cstring(arena, "TokenReview"));
	json_set(arena, review, "apiVersion", json_new_cstring(arena, "authentication.k8s.io/v1"));
	json_set(arena, review, "metadata", json_new_object(arena));
	json_set(arena, review, "spec", spec);
	json_set(arena, spec, "token", json_new_cstring(arena, token));
	if (audiences.count > 0)
	{
		JsonNode   *list = json_new_array(arena);

		for (size_t i = 0; i < audiences.count; i++)
			json_append(arena, list, json_new_cstring(arena, audiences.names[i]));
		json_set(arena, spec, "audiences", list);
	}
	strbuf_init(&text, arena);
	json_write(&text, review);
	review_ask(cache, text.bytes, text.len, true, true, waiter, done, state);
}

/* --- The answer --- */

/* Whether a node is absent, null, or a string without NUL. */
static bool
is_text(const JsonNode *node)
{
	return node == NULL || node->kind == JSON_KIND_NULL ||
		(node->kind == JSON_KIND_STRING && memchr(node->u.string.bytes, '\0', node->u.string.len) == NULL);
}

static bool
is_text_array(const JsonNode *node)
{
	if (node == NULL || node->kind == JSON_KIND_NULL)
		return true;
	if (node->kind != JSON_KIND_ARRAY)
		return false;
	for (size_t i = 0; i < node->u.array.count; i++)
	{
		if (node->u.array.items[i]->kind != JSON_KIND_STRING || !is_text(node->u.array.items[i]))
			return false;
	}
	return true;
}

/* Checks what token_review_user() relies on. */
static bool
is_user(Arena *arena, const JsonNode *user)
{
	const char *name = json_get_cstring(arena, user, "username");
	const JsonNode *extra = json_get(user, "extra");

	if (name == NULL || name[0] == '\0' || !is_text(json_get(user, "username")) || !is_text(json_get(user, "uid")) ||
		!is_text_array(json_get(user, "groups")))
		return false;
	if (extra == NULL || extra->kind == JSON_KIND_NULL)
		return true;
	if (extra->kind != JSON_KIND_OBJECT)
		return false;
	for (size_t i = 0; i < extra->u.object.count; i++)
	{
		const JsonMember *member = &extra->u.object.members[i];

		if (memchr(member->key.bytes, '\0', member->key.len) != NULL || !is_text_array(member->value))
			return false;
	}
	return true;
}

static bool
has_audience(const JsonNode *granted)
{
	if (granted == NULL || granted->kind != JSON_KIND_ARRAY)
		return false;
	for (size_t i = 0; i < granted->u.array.count; i++)
	{
		for (size_t k = 0; k < audiences.count; k++)
		{
			if (json_string_is(granted->u.array.items[i], audiences.names[k]))
				return true;
		}
	}
	return false;
}

static bool
read_review(Arena *arena, const JsonNode *review, ReviewAnswer *answer, const char **why)
{
	const JsonNode *status = json_get(review, "status");
	const JsonNode *authenticated = json_get(status, "authenticated");
	const JsonNode *user = json_get(status, "user");
	const char *error = json_get_cstring(arena, status, "error");
	StrBuf		text;

	if (status == NULL || status->kind != JSON_KIND_OBJECT)
	{
		*why = "the TokenReview has no status";
		return false;
	}
	if (authenticated == NULL || authenticated->kind != JSON_KIND_BOOL || !authenticated->u.boolean)
	{
		if (error == NULL || error[0] == '\0')
			return true;
		*why = error;
		return false;
	}
	if (audiences.count > 0 && !has_audience(json_get(status, "audiences")))
		return true;
	if (!is_user(arena, user))
	{
		*why = "the TokenReview has no proper user";
		return false;
	}
	strbuf_init(&text, arena);
	json_write(&text, user);
	answer->positive = true;
	answer->text.bytes = text.bytes;
	answer->text.len = text.len;
	return true;
}

static const char **
take_texts(Arena *arena, const JsonNode *array, size_t *count)
{
	size_t		length = array != NULL && array->kind == JSON_KIND_ARRAY ? array->u.array.count : 0;
	const char **texts = arena_alloc(arena, (length + 1) * sizeof(char *));

	for (size_t i = 0; i < length; i++)
		texts[i] = arena_strndup(arena, array->u.array.items[i]->u.string.bytes, array->u.array.items[i]->u.string.len);
	*count = length;
	return texts;
}

void
token_review_user(Arena *arena, const ReviewAnswer *answer, User *user)
{
	JsonError	error;
	const JsonNode *given = json_parse(arena, arena_strndup(arena, answer->text.bytes, answer->text.len),
									   answer->text.len, NULL, NULL,
									   &error);
	const JsonNode *extra = json_get(given, "extra");

	memset(user, 0, sizeof(*user));
	user->name = json_get_cstring(arena, given, "username");
	user->uid = json_get_cstring(arena, given, "uid");
	user->groups = take_texts(arena, json_get(given, "groups"), &user->group_count);
	if (extra == NULL || extra->kind != JSON_KIND_OBJECT)
		return;
	user->extra = arena_alloc(arena, (extra->u.object.count + 1) * sizeof(UserExtra));
	for (size_t i = 0; i < extra->u.object.count; i++)
	{
		UserExtra  *taken = &user->extra[user->extra_count++];
		const JsonMember *member = &extra->u.object.members[i];

		taken->key = arena_strndup(arena, member->key.bytes, member->key.len);
		taken->values = take_texts(arena, member->value, &taken->value_count);
	}
}
