/*-------------------------------------------------------------------------
 *
 * result_fuzz.c
 *	  Mappings and the results that they find.
 *
 * Input: a mapping as JSON, a newline, a document, a newline, another state
 * of the document.  For any of them: results of one document have different
 * keys in ascending order; a document does not differ from itself, nor from
 * itself with its results reversed; the difference from nothing is all of the
 * document's results; and the changes lead from one state to the other.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/results/result.h"

/* FNV-1a: the engine only requires that the hash spreads well. */
static int64_t
hash(void *state, const char *bytes, size_t len)
{
	uint64_t	number = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < len; i++)
		number = (number ^ (unsigned char) bytes[i]) * UINT64_C(1099511628211);
	return (int64_t) number;
}

static void
check_text(JsonText text)
{
	check(text.bytes != NULL && (text.len == 0 || memchr(text.bytes, '\0', text.len) == NULL));
}

static void
check_list(Arena *arena, const ResultList *list)
{
	for (size_t i = 0; i < list->count; i++)
	{
		const ReportResult *result = &list->results[i];
		const ResultEntry *entry = result->entry;
		JsonError	error;

		check(i == 0 || list->results[i - 1].key < result->key);
		check(strchr("pwfes", (char) entry->status) != NULL && entry->score >= 0);
		check_text(entry->source);
		check_text(entry->policy);
		check_text(entry->rule);
		check_text(entry->category);
		check_text(entry->severity);
		check_text(entry->message);
		check_text(entry->native_status);
		check_text(result->subject->name);
		check(entry->policy.len <= RESULT_MAX_TEXT && result->subject->name.len <= RESULT_MAX_NAME);
		check(json_parse(arena, entry->properties.bytes, entry->properties.len, NULL, NULL, &error) != NULL);
		for (size_t n = 0; n < entry->exception_count; n++)
			check_text(entry->exceptions[n]);
	}
}

static void
reverse_results(JsonNode *document)
{
	JsonNode   *results = json_get(document, "results");

	if (results == NULL || results->kind != JSON_KIND_ARRAY)
		return;
	for (size_t i = 0; i < results->u.array.count / 2; i++)
	{
		JsonNode   *other = results->u.array.items[results->u.array.count - 1 - i];

		results->u.array.items[results->u.array.count - 1 - i] = results->u.array.items[i];
		results->u.array.items[i] = other;
	}
}

static const ReportResult *
find(const ResultList *list, int64_t key)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->results[i].key == key)
			return &list->results[i];
	return NULL;
}

static void
check_changes(Arena *arena, const ResultMapping *mapping, JsonNode *old, JsonNode *new, bool plain)
{
	ResultList	before;
	ResultList	after;
	ResultChange *changes;
	size_t		count;
	size_t		appeared = 0;
	size_t		gone = 0;
	int64_t		time = 0;

	result_extract(arena, mapping, old, 1, hash, NULL, &before);
	result_extract(arena, mapping, new, 1, hash, NULL, &after);
	check_list(arena, &before);
	check_list(arena, &after);
	check(result_time(arena, mapping, new, &time) == after.has_time && (!after.has_time || time == after.time));

	check(result_difference(arena, mapping, old, old, 1, hash, NULL, &changes) == 0);
	check(result_difference(arena, mapping, NULL, new, 1, hash, NULL, &changes) == after.count);
	check(result_difference(arena, mapping, old, NULL, 1, hash, NULL, &changes) == before.count);
	count = result_difference(arena, mapping, old, new, 1, hash, NULL, &changes);
	for (size_t i = 0; i < count; i++)
	{
		const ReportResult *was = changes[i].old;
		const ReportResult *is = changes[i].new;

		check(was != NULL || is != NULL);
		check(was == NULL || is == NULL || was->key == is->key);
		check(was == NULL || find(&before, was->key) != NULL);
		check(is == NULL || find(&after, is->key) != NULL);
		appeared += was == NULL;
		gone += is == NULL;
	}
	check(before.count + appeared == after.count + gone);
	if (plain)
	{
		reverse_results(new);
		result_extract(arena, mapping, new, 1, hash, NULL, &before);
		check(before.count == after.count);
		for (size_t i = 0; i < before.count; i++)
			check(before.results[i].key == after.results[i].key &&
				  before.results[i].entry->detail == after.results[i].entry->detail &&
				  before.results[i].entry->status == after.results[i].entry->status);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	JsonNode   *parts[3] = {NULL, NULL, NULL};
	const char *p = (const char *) input;
	const char *end = p + size;
	Arena		arena;
	FieldErrorList errors;

	arena_init(&arena);
	for (int i = 0; i < 3; i++)
	{
		const char *line_end = p < end && i < 2 ? memchr(p, '\n', (size_t) (end - p)) : end;
		JsonError	error;

		if (line_end == NULL)
			line_end = end;
		parts[i] = json_parse(&arena, arena_strndup(&arena, p, (size_t) (line_end - p)), (size_t) (line_end - p),
							  NULL, NULL, &error);
		p = line_end < end ? line_end + 1 : end;
	}
	if (parts[0] != NULL)
	{
		ResultMapping *mapping;

		field_errors_init(&errors, &arena);
		mapping = result_mapping_compile(&arena, parts[0], &errors);
		check((mapping == NULL) == (errors.count > 0));
		if (mapping != NULL && parts[1] != NULL && parts[2] != NULL && parts[1]->kind == JSON_KIND_OBJECT &&
			parts[2]->kind == JSON_KIND_OBJECT)
			/* If no path reads the list itself, its order has no meaning. */
			check_changes(&arena, mapping, parts[1], parts[2],
						  json_string_is(json_get(parts[0], "list"), "$.results") &&
						  memmem(input, size, "$.results", 9) == memmem(input, size, "$", 1) &&
						  memmem(input, size, "\"$\"", 3) == NULL);
	}
	arena_free(&arena);
	return 0;
}
