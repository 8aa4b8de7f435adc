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

static json_t *make_document(Arena *arena, const void *asked);
static bool read_review(const json_t *status, ReviewAnswer *answer, const char **why);

static ReviewKind kind = {
	.name = "SubjectAccessReview",
	.path = "/apis/authorization.k8s.io/v1/subjectaccessreviews",
	.budget = TRANSFER_ACCESS,
	.strange_budget = TRANSFER_STRANGE_ACCESS,
	.capacity = REMEMBERED_DECISIONS,
	.most_under_way = DECISIONS_UNDER_WAY,
	.document = make_document,
	.read = read_review,
};
static ReviewCache *cache;

typedef struct AccessQuestion
{
	const User *user;
	const AccessAttributes *attributes;
} AccessQuestion;

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

/* Returns a string; for an empty text NULL, which json_pack() omits. */
static json_t *
optional(const char *text)
{
	return text == NULL || text[0] == '\0' ? NULL : kube_json_string(text);
}

static json_t *
text_array(const char *const *texts, size_t count)
{
	json_t	   *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, kube_json_string(texts[i]));
	return array;
}

static void
append_requirement(Arena *arena, json_t *requirements, JsonText key, const char *operator,
				   const JsonText *values, size_t count)
{
	const char **texts = arena_alloc(arena, (count + 1) * sizeof(char *));

	for (size_t i = 0; i < count; i++)
		texts[i] = arena_strndup(arena, values[i].bytes, values[i].len);
	json_array_append_new(requirements,
						  json_pack("{s:o, s:s, s:o*}", "key",
									kube_json_string(arena_strndup(arena, key.bytes, key.len)), "operator", operator,
									"values", count > 0 ? text_array(texts, count) : NULL));
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
append_labels(Arena *arena, json_t *requirements, const char *text)
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
							   requirement->values, requirement->value_count);
	}
}

static void
append_fields(Arena *arena, json_t *requirements, const char *text)
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

static json_t *
selector(Arena *arena, const char *text, void (*append) (Arena *arena, json_t *requirements, const char *text))
{
	json_t	   *requirements;

	if (text[0] == '\0')
		return NULL;
	requirements = json_array();
	append(arena, requirements, text);
	if (json_array_size(requirements) > 0)
		return json_pack("{s:o}", "requirements", requirements);
	json_decref(requirements);
	return NULL;
}

static json_t *
resource_attributes(Arena *arena, const AccessAttributes *asked)
{
	return json_pack("{s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*}",
					 "namespace", optional(asked->namespace_name), "verb", optional(asked->verb),
					 "group", optional(asked->group), "version", optional(asked->version),
					 "resource", optional(asked->resource_name), "subresource", optional(asked->subresource),
					 "name", optional(asked->name),
					 "labelSelector", selector(arena, asked->label_selector, append_labels),
					 "fieldSelector", selector(arena, asked->field_selector, append_fields));
}

static json_t *
user_extra(const User *user)
{
	json_t	   *extra = json_object();

	for (size_t i = 0; i < user->extra_count; i++)
	{
		json_auto_t *key = kube_json_string(user->extra[i].key);

		json_object_setn_new(extra, json_string_value(key), json_string_length(key),
							 text_array(user->extra[i].values, user->extra[i].value_count));
	}
	return extra;
}

static json_t *
review_spec(Arena *arena, const User *user, const AccessAttributes *asked)
{
	json_t	   *attributes = asked->resource ? resource_attributes(arena, asked) :
	json_pack("{s:o*, s:o*}", "path", optional(asked->path), "verb", optional(asked->verb));

	return json_pack("{s:o, s:o*, s:o*, s:o*, s:o*}",
					 asked->resource ? "resourceAttributes" : "nonResourceAttributes", attributes,
					 "user", optional(user->name), "uid", optional(user->uid),
					 "groups", user->group_count > 0 ? text_array(user->groups, user->group_count) : NULL,
					 "extra", user->extra_count > 0 ? user_extra(user) : NULL);
}

static json_t *
make_document(Arena *arena, const void *asked)
{
	const AccessQuestion *question = asked;

	return json_pack("{s:s, s:s, s:{}, s:o}", "kind", "SubjectAccessReview",
					 "apiVersion", "authorization.k8s.io/v1", "metadata",
					 "spec", review_spec(arena, question->user, question->attributes));
}

/* --- The key --- */

static void
append_texts(StrBuf *key, const char *const *texts, size_t count)
{
	strbuf_printf(key, "%zu ", count);
	for (size_t i = 0; i < count; i++)
		strbuf_append(key, texts[i], strlen(texts[i]) + 1);
}

/*
 * Returns the key of a review: all parts of the document, texts with the NUL at their ends, lists with their lengths.
 */
static JsonText
question_key(Arena *arena, const User *user, const AccessAttributes *asked)
{
	const char *const texts[] = {
		asked->resource ? "resource" : "", asked->verb, asked->path, asked->group, asked->version, asked->resource_name,
		asked->subresource, asked->namespace_name, asked->name, asked->label_selector, asked->field_selector,
		user->name, user->uid == NULL ? "" : user->uid
	};
	StrBuf		key;

	strbuf_init(&key, arena);
	append_texts(&key, texts, sizeof(texts) / sizeof(texts[0]));
	append_texts(&key, user->groups, user->group_count);
	for (size_t i = 0; i < user->extra_count; i++)
	{
		append_texts(&key, &user->extra[i].key, 1);
		append_texts(&key, user->extra[i].values, user->extra[i].value_count);
	}
	return (JsonText) {key.bytes, key.len};
}

static size_t
attributes_length(const AccessAttributes *asked)
{
	return strlen(asked->namespace_name) + strlen(asked->verb) + strlen(asked->group) + strlen(asked->version) +
		strlen(asked->resource_name) + strlen(asked->subresource) + strlen(asked->name) + strlen(asked->path);
}

void
access_review_ask(Arena *arena, const User *user, bool stranger, const AccessAttributes *attributes,
				  ReviewWaiter *waiter, ReviewDone done, void *state)
{
	AccessQuestion question = {user, attributes};

	review_ask(cache, question_key(arena, user, attributes), &question,
			   attributes_length(attributes) < ATTRIBUTES_LIMIT, stranger, waiter, done, state);
}

/* --- The answer --- */

static bool
read_review(const json_t *status, ReviewAnswer *answer, const char **why)
{
	answer->positive = json_is_true(json_object_get(status, "allowed"));
	answer->told = json_object_get(status, "reason");
	*why = "the SubjectAccessReview is both allowed and denied";
	return !answer->positive || !json_is_true(json_object_get(status, "denied"));
}
