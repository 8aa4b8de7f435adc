/*-------------------------------------------------------------------------
 *
 * policy_fuzz.c
 *	  Fuzz target: the names of a policy's rules.
 *
 * The input is a policy as JSON.  For any policy: names of rules are strings
 * without NUL, and every rule that keeps its name is listed, unless its name
 * looks generated.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/results/kyverno_policy.h"

static void
check_rules(Arena *arena, const JsonNode *policy)
{
	const JsonNode *rules = json_path(policy, "spec", "rules", NULL);
	const JsonNode *names = kyverno_policy_rules(arena, policy);
	size_t		own = 0;

	check(names->kind == JSON_KIND_ARRAY);
	for (size_t i = 0; i < names->u.array.count; i++)
	{
		const JsonNode *name = names->u.array.items[i];

		check(name->kind == JSON_KIND_STRING && memchr(name->u.string.bytes, '\0', name->u.string.len) == NULL);
		if (name->u.string.len < 8 || memcmp(name->u.string.bytes, "autogen-", 8) != 0)
			own++;
	}
	for (size_t i = 0; rules != NULL && rules->kind == JSON_KIND_ARRAY && i < rules->u.array.count; i++)
	{
		const JsonNode *name = json_get(rules->u.array.items[i], "name");

		if (name != NULL && name->kind == JSON_KIND_STRING &&
			memchr(name->u.string.bytes, '\0', name->u.string.len) == NULL &&
			(name->u.string.len < 8 || memcmp(name->u.string.bytes, "autogen-", 8) != 0))
			own--;
	}
	check(own == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	Arena		arena;
	JsonError	error;
	const JsonNode *policy;

	arena_init(&arena);
	policy = json_parse(&arena, (const char *) bytes, size, NULL, NULL, &error);
	if (policy != NULL)
		check_rules(&arena, policy);
	arena_free(&arena);
	return 0;
}
