/*-------------------------------------------------------------------------
 *
 * selector_fuzz.c
 *	  Fuzz target: label selectors and field selectors.
 *
 * The input is a selector, or a selector, a newline and the labels of an
 * object in JSON.  An object that an index lookup by the selector's terms
 * would miss must not match.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/api/selector.h"

/*
 * Says whether the labels have the term, which is "key" or "key=value".
 */
static bool
has_term(const JsonNode *labels, JsonText term)
{
	const char *equals = memchr(term.bytes, '=', term.len);
	JsonText	key = term;
	JsonText	value;
	const JsonNode *label;

	if (equals != NULL)
		key.len = (size_t) (equals - term.bytes);
	label = json_get_text(labels, key);
	if (label == NULL || label->kind != JSON_KIND_STRING)
		return false;
	if (equals == NULL)
		return true;
	value.bytes = equals + 1;
	value.len = term.len - key.len - 1;
	return json_text_compare(label->u.string, value) == 0;
}

static void
check_labels(Arena *arena, const Selector *selector, const JsonNode *labels)
{
	JsonText   *terms;
	size_t		count = selector_terms(arena, selector, &terms);

	check(count <= selector->count);
	if (!selector_matches_labels(selector, labels))
		return;
	for (size_t i = 0; i < count; i++)
		check(has_term(labels, terms[i]));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *text = (const char *) bytes;
	const char *newline = size > 0 ? memchr(text, '\n', size) : NULL;
	size_t		len = newline != NULL ? (size_t) (newline - text) : size;
	const char *error = NULL;
	JsonNode   *labels = NULL;
	JsonError	json_error;
	Selector   *selector;
	FieldSelector *fields;
	Arena		arena;

	arena_init(&arena);
	if (newline != NULL)
		labels = json_parse(&arena, newline + 1, size - len - 1, NULL, NULL, &json_error);

	selector = selector_parse(&arena, text, len, &error);
	if (selector == NULL)
	{
		check(error != NULL);
	}
	else
	{
		check_labels(&arena, selector, NULL);
		if (labels != NULL)
			check_labels(&arena, selector, labels);
	}

	error = NULL;
	fields = field_selector_parse(&arena, text, len, &error);
	if (fields == NULL)
		check(error != NULL);
	for (size_t i = 0; fields != NULL && i < fields->count; i++)
	{
		FieldTerm  *term = &fields->terms[i];
		FieldSelector single = {term, 1};

		check(field_selector_matches(&single, term->value, term->value) != term->negated);
	}
	arena_free(&arena);
	return 0;
}
