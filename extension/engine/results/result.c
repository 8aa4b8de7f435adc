/*-------------------------------------------------------------------------
 *
 * result.c
 *	  Which result is which, and what changed.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/results/result_private.h"

#include <stdlib.h>
#include <string.h>

static int
compare_numbers(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

static int
compare_subjects(const ResultSubject *a, const ResultSubject *b)
{
	int			order = json_text_compare(a->api_version, b->api_version);

	if (a == b)
		return 0;
	if (order == 0)
		order = json_text_compare(a->kind, b->kind);
	if (order == 0)
		order = json_text_compare(a->namespace_name, b->namespace_name);
	if (order == 0)
		order = json_text_compare(a->name, b->name);
	return order != 0 ? order : json_text_compare(a->uid, b->uid);
}

static bool
is_failing(ResultStatus status)
{
	return status == RESULT_WARN || status == RESULT_FAIL || status == RESULT_ERROR;
}

/* By what equals are told apart by: what detail_id() hashes. */
static int
compare_details(const ReportResult *a, const ReportResult *b)
{
	int			order = json_text_compare(a->message, b->message);

	if (order == 0)
		order = json_text_compare(a->properties, b->properties);
	if (order == 0)
		order = compare_numbers((int64_t) a->exception_count, (int64_t) b->exception_count);
	for (size_t i = 0; order == 0 && i < a->exception_count; i++)
		order = json_text_compare(a->exceptions[i], b->exceptions[i]);
	return order;
}

/* By everything that a result says but when it was evaluated; results that compare equal are the same. */
static int
compare_contents(const ReportResult *a, const ReportResult *b)
{
	int			order = json_text_compare(a->identity, b->identity);

	if (order == 0)
		order = compare_details(a, b);
	if (order == 0)
		order = (int) is_failing(b->status) - (int) is_failing(a->status);
	if (order == 0)
		order = (int) a->status - (int) b->status;
	if (order == 0)
		order = json_text_compare(a->native_status, b->native_status);
	if (order == 0)
		order = json_text_compare(a->category, b->category);
	if (order == 0)
		order = json_text_compare(a->severity, b->severity);
	if (order == 0)
		order = a->score < b->score ? -1 : a->score > b->score;
	return order != 0 ? order : compare_subjects(a->subject, b->subject);
}

static int
order_by_contents(const void *a, const void *b)
{
	return compare_contents(a, b);
}

static int
order_by_key(const void *a, const void *b)
{
	return compare_numbers(((const ReportResult *) a)->key, ((const ReportResult *) b)->key);
}

int64_t
result_field_hash(Arena *arena, const JsonText *fields, size_t count, ResultHash hash, void *state)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	for (size_t i = 0; i < count; i++)
		result_put_field(&buf, fields[i]);
	return hash(state, buf.bytes != NULL ? buf.bytes : "", buf.len);
}

static int64_t
detail_id(Arena *arena, const ReportResult *result, ResultHash hash, void *state)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	result_put_field(&buf, (JsonText) {"detail", 6});
	result_put_field(&buf, result->message);
	result_put_field(&buf, result->properties);
	for (size_t i = 0; i < result->exception_count; i++)
		result_put_field(&buf, result->exceptions[i]);
	return hash(state, buf.bytes, buf.len);
}

/*
 * The keys of results with one identity, sorted by contents, which have their details' ids.
 *
 * Mostly there is one.  Among several the first that fails, or else the first, has the key that it would have alone; the
 * others are told apart by their details, so that each keeps its key when another comes, goes or changes its status.
 * Where the first becomes another one, both fail or neither does: where one of them comes, goes or changes its status, as
 * many begin to fail, and cease to, as by the documents.  Where two change at once, one that begins to may take the place
 * of one that ceases to.
 */
static void
name_equals(Arena *arena, ReportResult *results, size_t count, ResultHash hash, void *state)
{
	size_t		first = 0;
	int64_t		number = 0;

	while (first < count && !is_failing(results[first].status))
		first++;
	if (first == count)
		first = 0;
	for (size_t i = 0; i < count; i++)
	{
		ReportResult *result = &results[i];
		char	   *digits;
		StrBuf		buf;

		number = i > 0 && compare_details(&results[i - 1], result) == 0 ? number + 1 : 0;
		strbuf_init(&buf, arena);
		strbuf_append(&buf, result->identity.bytes, result->identity.len);
		if (i != first)
		{
			digits = arena_printf(arena, "%lld", (long long) result->detail);
			result_put_field(&buf, (JsonText) {digits, strlen(digits)});
		}
		digits = arena_printf(arena, "%lld", i != first ? (long long) number : 0LL);
		result_put_field(&buf, (JsonText) {digits, strlen(digits)});
		result->key = hash(state, buf.bytes, buf.len);
	}
}

/* Gives every result its key and its ids. */
static void
identify(Arena *arena, ResultList *list, int cluster, ResultHash hash, void *state)
{
	char	   *cluster_text = arena_printf(arena, "%d", cluster);

	if (list->count == 0)
		return;
	qsort(list->results, list->count, sizeof(ReportResult), order_by_contents);
	for (size_t i = 0; i < list->count; i++)
	{
		ReportResult	   *result = &list->results[i];
		ResultSubject *subject = result->subject;
		JsonText	criterion[] = {{"criterion", 9}, result->source, result->policy, result->rule, result->category, result->severity};

		result->criterion = result_field_hash(arena, criterion, sizeof(criterion) / sizeof(criterion[0]), hash, state);
		result->detail = detail_id(arena, result, hash, state);
		if (subject->id == 0)
		{
			JsonText	fields[] = {{"subject", 7}, {cluster_text, strlen(cluster_text)}, subject->api_version, subject->kind,
			subject->namespace_name, subject->name, subject->uid};

			subject->id = result_field_hash(arena, fields, sizeof(fields) / sizeof(fields[0]), hash, state);
		}
	}
	for (size_t i = 0, next; i < list->count; i = next)
	{
		for (next = i + 1; next < list->count && json_text_compare(list->results[i].identity, list->results[next].identity) == 0;)
			next++;
		name_equals(arena, &list->results[i], next - i, hash, state);
	}
	qsort(list->results, list->count, sizeof(ReportResult), order_by_key);
	/* Two hashes of one report that agree by chance (or by somebody's long search) are made to differ. */
	for (size_t i = 1; i < list->count; i++)
		if (list->results[i].key <= list->results[i - 1].key && list->results[i - 1].key < INT64_MAX)
			list->results[i].key = list->results[i - 1].key + 1;
}

void
result_extract(Arena *arena, const ResultMapping *mapping, const JsonNode *document, int cluster,
			   ResultHash hash, void *state, ResultList *list)
{
	result_read(arena, mapping, document, list);
	if (hash != NULL)
		identify(arena, list, cluster, hash, state);
}

static bool
same_results(const ResultList *a, const ResultList *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (compare_contents(&a->results[i], &b->results[i]) != 0)
			return false;
	return true;
}

size_t
result_difference(Arena *arena, const ResultMapping *mapping, const JsonNode *old, const JsonNode *new, int cluster,
				  ResultHash hash, void *state, ResultChange **changes)
{
	ResultList	before = {0};
	ResultList	after = {0};
	size_t		count = 0;
	size_t		i = 0;
	size_t		j = 0;

	if (old != NULL)
		result_read(arena, mapping, old, &before);
	if (new != NULL)
		result_read(arena, mapping, new, &after);
	*changes = NULL;
	/* What most scans bring: the same once more.  Nothing needs to be told apart. */
	if (same_results(&before, &after))
		return 0;
	identify(arena, &before, cluster, hash, state);
	identify(arena, &after, cluster, hash, state);
	*changes = arena_alloc(arena, sizeof(ResultChange) * (before.count + after.count));
	while (i < before.count || j < after.count)
	{
		const ReportResult *was = i < before.count ? &before.results[i] : NULL;
		const ReportResult *is = j < after.count ? &after.results[j] : NULL;

		if (is == NULL || (was != NULL && was->key < is->key))
		{
			(*changes)[count++] = (ResultChange) {was, NULL};
			i++;
		}
		else if (was == NULL || is->key < was->key)
		{
			(*changes)[count++] = (ResultChange) {NULL, is};
			j++;
		}
		else
		{
			if (compare_contents(was, is) != 0)
				(*changes)[count++] = (ResultChange) {was, is};
			i++;
			j++;
		}
	}
	return count;
}
