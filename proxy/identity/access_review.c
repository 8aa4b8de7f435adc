/*-------------------------------------------------------------------------
 *
 * access_review.c
 *	  Whether the user may send the request: SubjectAccessReview by kube-apiserver.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/access_review.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/api/selector.h"
#include "engine/api/status.h"
#include "base/config.h"

#define REMEMBERED_DECISIONS 8192
#define DECISIONS_UNDER_WAY 200

/* Decisions about longer attributes are not kept in the cache (AUTHZ-11): clients choose the attributes. */
#define ATTRIBUTES_LIMIT 10000

static bool read_review(Arena *arena, const JsonNode *review, ReviewAnswer *answer, const char **why);

static ReviewKind kind = {
	.name = "SubjectAccessReview",
	.path = "/apis/authorization.k8s.io/v1/subjectaccessreviews",
	.budget = TRANSFER_ACCESS,
	.strange_budget = TRANSFER_STRANGE_ACCESS,
	.capacity = REMEMBERED_DECISIONS,
	.most_under_way = DECISIONS_UNDER_WAY,
	.read = read_review,
};
static ReviewCache *cache;

void
access_reviews_start(KubeApi *api)
{
	kind.positive_ms = (uint64_t) config.authorized_ttl;
	kind.negative_ms = (uint64_t) config.unauthorized_ttl;
	cache = review_cache_new(api, &kind);
}

/* --- Attributes --- */

/*
 * Returns the value of metadata.name=value in a field selector, "" when there is none or it cannot be a name in a path.
 */
static const char *
selected_name(Arena *arena, const JsonText *selector)
{
	const char *error;
	const FieldSelector *fields = selector != NULL ?
	field_selector_parse(arena, selector->bytes, selector->len, &error) : NULL;

	for (size_t i = 0; fields != NULL && i < fields->count; i++)
	{
		const FieldTerm *term = &fields->terms[i];
		const char *name;

		if (term->is_namespace || term->negated)
			continue;
		name = arena_strndup(arena, term->value.bytes, term->value.len);
		return strpbrk(name, "/%") != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ? "" : name;
	}
	return "";
}

static const char *
parameter_text(Arena *arena, const JsonText *parameter)
{
	return parameter != NULL ? arena_strndup(arena, parameter->bytes, parameter->len) : "";
}

void
access_attributes(Arena *arena, const Route *route, AccessAttributes *attributes)
{
	const JsonText *fields = route_parameter(route, "fieldSelector");

	*attributes = (AccessAttributes) {
		.resource = route->resource,
		.verb = route->verb,
		.path = route->path,
		.group = foreign_bytes_replace(arena, route->group),
		.version = foreign_bytes_replace(arena, route->version),
		.resource_name = foreign_bytes_replace(arena, route->resource_name),
		.subresource = foreign_bytes_replace(arena, route->subresource),
		.namespace_name = foreign_bytes_replace(arena, route->namespace_name),
		.name = foreign_bytes_replace(arena, route->name),
		.label_selector = "",
		.field_selector = "",
	};
	if (!route->resource)
	{
		char	   *method = arena_strdup(arena, route->method);

		for (char *c = method; *c != '\0'; c++)
			*c = (char) tolower((unsigned char) *c);
		attributes->verb = method;
		return;
	}
	if (route->name[0] != '\0' ||
		(strcmp(route->verb, "list") != 0 && strcmp(route->verb, "watch") != 0 &&
		 strcmp(route->verb, "deletecollection") != 0))
		return;
	attributes->name = selected_name(arena, fields);
	/* Requests with /watch/ in the path are authorized without selectors. */
	if (route->watch_path)
		return;
	attributes->field_selector = parameter_text(arena, fields);
	attributes->label_selector = parameter_text(arena, route_parameter(route, "labelSelector"));
}

/* --- The document --- */

static void
set_text(Arena *arena, JsonNode *object, const char *key, const char *value)
{
	if (value != NULL && value[0] != '\0')
		json_set(arena, object, key, json_new_cstring(arena, value));
}

static JsonNode *
text_array(Arena *arena, const char *const *texts, size_t count)
{
	JsonNode   *array = json_new_array(arena);

	for (size_t i = 0; i < count; i++)
		json_append(arena, array, json_new_cstring(arena, texts[i]));
	return array;
}

static void
append_requirement(Arena *arena, JsonNode *requirements, JsonText key, const char *operator,
				   const JsonText *values, size_t count)
{
	JsonNode   *requirement = json_new_object(arena);

	json_set(arena, requirement, "key", json_new_string(arena, key.bytes, key.len));
	json_set(arena, requirement, "operator", json_new_cstring(arena, operator));
	if (count > 0)
	{
		JsonNode   *array = json_new_array(arena);

		for (size_t i = 0; i < count; i++)
			json_append(arena, array, json_new_string(arena, values[i].bytes, values[i].len));
		json_set(arena, requirement, "values", array);
	}
	json_append(arena, requirements, requirement);
}

static int
compare_keys(const void *a, const void *b)
{
	return json_text_compare(((const SelectorRequirement *) a)->key, ((const SelectorRequirement *) b)->key);
}

/*
 * Adds the requirements of a label selector.  Selectors only narrow a request: operators that a review does not have
 * are left out, and the review then covers more objects.
 */
static void
append_labels(Arena *arena, JsonNode *requirements, const char *text)
{
	static const char *const operators[] = {
		[SELECTOR_EXISTS] = "Exists",[SELECTOR_NOT_EXISTS] = "DoesNotExist",[SELECTOR_IN] = "In",
		[SELECTOR_NOT_IN] = "NotIn",
		[SELECTOR_GREATER] = NULL,[SELECTOR_LESS] = NULL,
	};
	const char *error;
	Selector   *selector = selector_parse(arena, text, strlen(text), &error);

	if (selector == NULL || selector->count == 0)
		return;
	qsort(selector->requirements, selector->count, sizeof(SelectorRequirement), compare_keys);
	for (size_t i = 0; i < selector->count; i++)
	{
		const SelectorRequirement *requirement = &selector->requirements[i];

		if (operators[requirement->operator] != NULL)
			append_requirement(arena, requirements, requirement->key, operators[requirement->operator],
							   requirement->values,
							   requirement->value_count);
	}
}

static void
append_fields(Arena *arena, JsonNode *requirements, const char *text)
{
	const char *error;
	const FieldSelector *selector = field_selector_parse(arena, text, strlen(text), &error);

	for (size_t i = 0; selector != NULL && i < selector->count; i++)
	{
		const FieldTerm *term = &selector->terms[i];
		const char *key = term->is_namespace ? "metadata.namespace" : "metadata.name";

		append_requirement(arena, requirements, (JsonText) {key, strlen(key)}, term->negated ? "NotIn" : "In",
						   &term->value, 1);
	}
}

static void
set_selector(Arena *arena, JsonNode *attributes, const char *key, const char *text,
			 void (*append) (Arena *arena, JsonNode *requirements, const char *text))
{
	JsonNode   *requirements = json_new_array(arena);
	JsonNode   *selector = json_new_object(arena);

	if (text[0] != '\0')
		append(arena, requirements, text);
	if (requirements->u.array.count == 0)
		return;
	json_set(arena, selector, "requirements", requirements);
	json_set(arena, attributes, key, selector);
}

static JsonNode *
resource_attributes(Arena *arena, const AccessAttributes *asked)
{
	JsonNode   *attributes = json_new_object(arena);

	set_text(arena, attributes, "namespace", asked->namespace_name);
	set_text(arena, attributes, "verb", asked->verb);
	set_text(arena, attributes, "group", asked->group);
	set_text(arena, attributes, "version", asked->version);
	set_text(arena, attributes, "resource", asked->resource_name);
	set_text(arena, attributes, "subresource", asked->subresource);
	set_text(arena, attributes, "name", asked->name);
	set_selector(arena, attributes, "labelSelector", asked->label_selector, append_labels);
	set_selector(arena, attributes, "fieldSelector", asked->field_selector, append_fields);
	return attributes;
}

static JsonNode *
review_spec(Arena *arena, const User *user, const AccessAttributes *asked)
{
	JsonNode   *spec = json_new_object(arena);
	JsonNode   *extra = json_new_object(arena);

	if (asked->resource)
		json_set(arena, spec, "resourceAttributes", resource_attributes(arena, asked));
	else
	{
		JsonNode   *attributes = json_new_object(arena);

		set_text(arena, attributes, "path", asked->path);
		set_text(arena, attributes, "verb", asked->verb);
		json_set(arena, spec, "nonResourceAttributes", attributes);
	}
	set_text(arena, spec, "user", user->name);
	set_text(arena, spec, "uid", user->uid);
	if (user->group_count > 0)
		json_set(arena, spec, "groups", text_array(arena, user->groups, user->group_count));
	for (size_t i = 0; i < user->extra_count; i++)
		json_set(arena, extra, user->extra[i].key,
				 text_array(arena, user->extra[i].values, user->extra[i].value_count));
	if (user->extra_count > 0)
		json_set(arena, spec, "extra", extra);
	return spec;
}

static size_t
attributes_length(const AccessAttributes *asked)
{
	return strlen(asked->namespace_name) + strlen(asked->verb) + strlen(asked->group) + strlen(asked->version) +
		strlen(asked->resource_name) + strlen(asked->subresource) + strlen(asked->name) + strlen(asked->path);
}

void
access_review_ask(Arena *arena, const User *user, bool stranger, const AccessAttributes *attributes,
				  ReviewWaiter *waiter, ReviewDone done,
				  void *state)
{
	JsonNode   *review = json_new_object(arena);
	StrBuf		text;

	json_set(arena, review, "kind", json_new_cstring(arena, "SubjectAccessReview"));
	json_set(arena, review, "apiVersion", json_new_cstring(arena, "authorization.k8s.io/v1"));
	json_set(arena, review, "metadata", json_new_object(arena));
	json_set(arena, review, "spec", review_spec(arena, user, attributes));
	strbuf_init(&text, arena);
	json_write(&text, review);
	review_ask(cache, text.bytes, text.len, attributes_length(attributes) < ATTRIBUTES_LIMIT, stranger,
			   waiter, done, state);
}

/* --- The answer --- */

static bool
is_true(const JsonNode *node)
{
	return node != NULL && node->kind == JSON_KIND_BOOL && node->u.boolean;
}

static bool
read_review(Arena *arena, const JsonNode *review, ReviewAnswer *answer, const char **why)
{
	const JsonNode *status = json_get(review, "status");
	const char *reason = json_get_cstring(arena, status, "reason");

	if (status == NULL || status->kind != JSON_KIND_OBJECT)
	{
		*why = "the SubjectAccessReview has no status";
		return false;
	}
	answer->positive = is_true(json_get(status, "allowed"));
	if (answer->positive && is_true(json_get(status, "denied")))
	{
		*why = "the SubjectAccessReview is both allowed and denied";
		return false;
	}
	answer->text.bytes = reason != NULL ? reason : "";
	answer->text.len = strlen(answer->text.bytes);
	return true;
}
