/*-------------------------------------------------------------------------
 *
 * kyverno_policy.c
 *	  The names of the rules of Kyverno's policies.
 *
 * Kyverno generates rules for pod controllers from rules for pods.  Only the
 * names of the generated rules and the conditions for them are needed here.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/results/kyverno_policy.h"

#include <string.h>

#include "engine/base/ascii.h"
#include "engine/base/utf8.h"

#define CONTROLLERS "pod-policies.kyverno.io/autogen-controllers"
#define ALL_CONTROLLERS "CronJob,DaemonSet,Deployment,Job,ReplicaSet,ReplicationController,StatefulSet"

/* Names of generated rules are cut to this length. */
#define RULE_NAME_MAX 63

static bool
is_present(const JsonNode *node)
{
	return node != NULL && node->kind != JSON_KIND_NULL;
}

static size_t
item_count(const JsonNode *array)
{
	return array != NULL && array->kind == JSON_KIND_ARRAY ? array->u.array.count : 0;
}

static bool
has_text(const JsonNode *object, const char *key)
{
	const JsonNode *node = json_get(object, key);

	return node != NULL && node->kind == JSON_KIND_STRING && node->u.string.len > 0;
}

/* ---------- kinds that a rule matches ---------- */

/* v1, v2beta1, * ... */
static bool
is_version(JsonText text)
{
	static const char *const stages[] = {"alpha", "beta"};
	size_t		at = 1;

	if (json_text_is(text, "*"))
		return true;
	if (text.len < 2 || text.bytes[0] != 'v' || !ascii_is_digit(text.bytes[1]))
		return false;
	while (at < text.len && ascii_is_digit(text.bytes[at]))
		at++;
	for (size_t i = 0; i < 2 && at < text.len; i++)
	{
		size_t		len = strlen(stages[i]);

		if (text.len - at <= len || memcmp(text.bytes + at, stages[i], len) != 0)
			continue;
		at += len;
		if (!ascii_is_digit(text.bytes[at]))
			return false;
		while (at < text.len && ascii_is_digit(text.bytes[at]))
			at++;
		break;
	}
	return at == text.len;
}

/* The kind in kind, kind.subresource, kind/subresource, version/kind, group/version/kind ... */
static JsonText
kind_of(JsonText selector)
{
	JsonText	parts[4];
	size_t		count = 0;
	const char *end = selector.bytes + selector.len;
	JsonText	kind = {"", 0};
	bool		dotted = false;

	for (const char *from = selector.bytes;; from++)
	{
		const char *slash = from < end ? memchr(from, '/', (size_t) (end - from)) : NULL;
		const char *stop = slash != NULL ? slash : end;

		if (count == 4)
			return kind;
		parts[count++] = (JsonText) {from, (size_t) (stop - from)};
		if (slash == NULL)
			break;
		from = slash;
	}
	switch (count)
	{
		case 1:
			kind = parts[0];
			dotted = true;
			break;
		case 2:
			dotted = is_version(parts[0]);
			kind = parts[dotted ? 1 : 0];
			break;
		case 3:
			dotted = !is_version(parts[0]);
			kind = parts[dotted ? 2 : 1];
			break;
		default:
			kind = parts[2];
			break;
	}
	if (dotted && kind.len > 0)
	{
		const char *dot = memchr(kind.bytes, '.', kind.len);

		if (dot != NULL)
			kind.len = (size_t) (dot - kind.bytes);
	}
	return kind;
}

static bool
contains_pod(const JsonNode *kinds)
{
	for (size_t i = 0; i < item_count(kinds); i++)
		if (kinds->u.array.items[i]->kind == JSON_KIND_STRING &&
			json_text_is(kind_of(kinds->u.array.items[i]->u.string), "Pod"))
			return true;
	return false;
}

/* Calls visit() for each description of resources in a match or exclude block, until visit() returns false. */
static bool
each_description(const JsonNode *block, bool (*visit) (const JsonNode *description, void *state), void *state)
{
	static const char *const lists[] = {"any", "all"};

	if (!visit(json_get(block, "resources"), state))
		return false;
	for (size_t i = 0; i < 2; i++)
	{
		const JsonNode *list = json_get(block, lists[i]);

		for (size_t j = 0; j < item_count(list); j++)
			if (!visit(json_get(list->u.array.items[j], "resources"), state))
				return false;
	}
	return true;
}

static bool
collect_pod(const JsonNode *description, void *state)
{
	bool	   *found = state;

	*found = *found || contains_pod(json_get(description, "kinds"));
	return true;
}

static bool
collect_kinds(const JsonNode *description, void *state)
{
	bool	   *found = state;

	*found = *found || item_count(json_get(description, "kinds")) > 0;
	return true;
}

/* ---------- whether rules are generated ---------- */

/* False if the description does not fit controllers; *state becomes true at a kind for which rules are generated. */
static bool
supports_controllers(const JsonNode *description, void *state)
{
	static const char *const kinds[] = {"Pod", "DaemonSet", "Deployment", "Job", "StatefulSet", "ReplicaSet",
	"ReplicationController", "CronJob"};
	bool	   *needed = state;
	const JsonNode *list = json_get(description, "kinds");

	if (has_text(description, "name") || item_count(json_get(description, "names")) > 0 ||
		is_present(json_get(description, "selector")) ||
		is_present(json_get(description, "annotations")) || (item_count(list) > 1 && contains_pod(list)))
		return false;
	for (size_t i = 0; i < item_count(list); i++)
		for (size_t j = 0; j < sizeof(kinds) / sizeof(kinds[0]); j++)
			*needed = *needed || json_string_is(list->u.array.items[i], kinds[j]);
	return true;
}

/* Whether all rules of a policy allow generated rules, and one of them is about pods or their controllers. */
static bool
makes_rules(const JsonNode *rules)
{
	bool		needed = false;

	for (size_t i = 0; i < item_count(rules); i++)
	{
		const JsonNode *rule = rules->u.array.items[i];
		const JsonNode *generate = json_get(rule, "generate");
		const JsonNode *mutate = json_get(rule, "mutate");
		const JsonNode *foreach = json_get(mutate, "foreach");

		if ((generate != NULL && generate->kind == JSON_KIND_OBJECT && generate->u.object.count > 0) ||
			has_text(mutate, "patchesJson6902"))
			return false;
		for (size_t j = 0; j < item_count(foreach); j++)
			if (has_text(foreach->u.array.items[j], "patchesJson6902"))
				return false;
		if (!each_description(json_get(rule, "match"), supports_controllers, &needed) ||
			!each_description(json_get(rule, "exclude"), supports_controllers, &needed))
			return false;
	}
	return needed;
}

/* Whether a part of the rule can be applied to controllers. */
static bool
is_convertible(const JsonNode *rule)
{
	static const char *const validations[] = {"pattern", "deny", "podSecurity", "anyPattern", "cel"};
	const JsonNode *mutate = json_get(rule, "mutate");
	const JsonNode *validate = json_get(rule, "validate");
	bool		matched = false;
	bool		excludes = false;
	bool		excluded = false;

	each_description(json_get(rule, "match"), collect_pod, &matched);
	each_description(json_get(rule, "exclude"), collect_kinds, &excludes);
	each_description(json_get(rule, "exclude"), collect_pod, &excluded);
	if (!matched || (excludes && !excluded))
		return false;
	if (is_present(json_get(mutate, "patchStrategicMerge")) || item_count(json_get(mutate, "foreach")) > 0 ||
		item_count(json_get(validate, "foreach")) > 0 || is_present(json_get(rule, "verifyImages")))
		return true;
	for (size_t i = 0; i < sizeof(validations) / sizeof(validations[0]); i++)
		if (is_present(json_get(validate, validations[i])))
			return true;
	return false;
}

/* Whether a comma-separated list has a controller other than CronJob. */
static bool
has_other_controllers(const char *controllers)
{
	while (*controllers != '\0')
	{
		size_t		len = strcspn(controllers, ",");

		if (len > 0 && !json_text_is((JsonText) {controllers, len}, "CronJob"))
			return true;
		controllers += len + (controllers[len] == ',');
	}
	return false;
}

/* ---------- names ---------- */

static bool
is_made(JsonText name)
{
	return name.len >= 8 && memcmp(name.bytes, "autogen-", 8) == 0;
}

static void
add_made(Arena *arena, JsonNode *names, const char *prefix, JsonText name)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	strbuf_puts(&buf, prefix);
	strbuf_append(&buf, name.bytes, name.len);
	json_append(arena, names, json_new_string(arena, buf.bytes, utf8_cut(buf.bytes, buf.len, RULE_NAME_MAX)));
}

JsonNode *
kyverno_policy_rules(Arena *arena, const JsonNode *policy)
{
	const JsonNode *rules = json_path(policy, "spec", "rules", NULL);
	const char *wanted = json_get_cstring(arena, json_path(policy, "metadata", "annotations", NULL), CONTROLLERS);
	const char *controllers = "none";
	JsonNode   *own = json_new_array(arena);
	JsonNode   *made = json_new_array(arena);

	if (makes_rules(rules))
		controllers = wanted != NULL ? wanted : ALL_CONTROLLERS;
	/* The database cannot store a name with a NUL. */
	for (size_t i = 0; i < item_count(rules); i++)
	{
		const JsonNode *rule = rules->u.array.items[i];
		const JsonNode *name = json_get(rule, "name");

		if (name == NULL || name->kind != JSON_KIND_STRING ||
			memchr(name->u.string.bytes, '\0', name->u.string.len) != NULL)
			continue;
		json_append(arena, own, json_new_string(arena, name->u.string.bytes, name->u.string.len));
		if (strcmp(controllers, "none") == 0 || is_made(name->u.string) || !is_convertible(rule))
			continue;
		if (has_other_controllers(controllers))
			add_made(arena, made, "autogen-", name->u.string);
		if (strstr(controllers, "CronJob") != NULL || strstr(controllers, "all") != NULL)
			add_made(arena, made, "autogen-cronjob-", name->u.string);
	}
	if (made->u.array.count == 0)
		return own;
	/* Generated rules replace the policy's own rules with such names. */
	for (size_t i = 0; i < own->u.array.count; i++)
		if (!is_made(own->u.array.items[i]->u.string))
			json_append(arena, made, own->u.array.items[i]);
	return made;
}
