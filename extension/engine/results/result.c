/*-------------------------------------------------------------------------
 *
 * result.c
 *	  Keys of results, and changes between two states of a document.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/results/result_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of bytes that SHA-256 hashes in the time of one step. */
#define HASHED_PER_STEP 8

/* State for hashing; one buffer serves all hashes. */
typedef struct Hashing
{
	ResultHash	hash;
	void	   *state;
	StrBuf		buf;
} Hashing;

static int
compare_numbers(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

static int
compare_texts(const JsonText *a, size_t a_count, const JsonText *b, size_t b_count)
{
	int			order = compare_numbers((int64_t) a_count, (int64_t) b_count);

	for (size_t i = 0; order == 0 && i < a_count; i++)
		order = json_text_compare(a[i], b[i]);
	return order;
}

/* The group of an apiVersion; empty for the core group. */
static JsonText
api_group(JsonText api_version)
{
	const char *slash = api_version.len > 0 ? memchr(api_version.bytes, '/', api_version.len) : NULL;

	return (JsonText) {api_version.bytes, slash != NULL ? (size_t) (slash - api_version.bytes) : 0};
}

static JsonText
subject_name(const ResultSubject *subject)
{
	return subject->name.len > 0 ? subject->name : subject->uid;
}

/* Orders subjects by their parts that are in the key. */
static int
compare_objects(const ResultSubject *a, const ResultSubject *b)
{
	int			order = a == b ? 0 : json_text_compare(subject_name(a), subject_name(b));

	if (a == b || order != 0)
		return order;
	order = json_text_compare(a->namespace_name, b->namespace_name);
	if (order == 0)
		order = json_text_compare(a->kind, b->kind);
	return order != 0 ? order : json_text_compare(api_group(a->api_version), api_group(b->api_version));
}

static int
compare_subjects(const ResultSubject *a, const ResultSubject *b)
{
	int			order = a == b ? 0 : json_text_compare(a->api_version, b->api_version);

	if (a == b || order != 0)
		return order;
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

static int
compare_identities(const ResultEntry *a, const ResultEntry *b)
{
	int			order = json_text_compare(a->source, b->source);

	if (order == 0)
		order = json_text_compare(a->policy, b->policy);
	if (order == 0)
		order = json_text_compare(a->rule, b->rule);
	return order != 0 ? order : compare_texts(a->key_texts, a->key_count, b->key_texts, b->key_count);
}

/* Orders entries by the parts that the detail id hashes; these distinguish entries with equal identities. */
static int
compare_details(const ResultEntry *a, const ResultEntry *b)
{
	int			order = json_text_compare(a->message, b->message);

	if (order == 0)
		order = json_text_compare(a->properties, b->properties);
	return order != 0 ? order : compare_texts(a->exceptions, a->exception_count, b->exceptions, b->exception_count);
}

/* Orders entries by all other parts except the time of evaluation. */
static int
compare_remains(const ResultEntry *a, const ResultEntry *b)
{
	int			order = (int) is_failing(b->status) - (int) is_failing(a->status);

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
	return order;
}

static int
order_entries(const void *left, const void *right)
{
	const ResultEntry *a = *(ResultEntry *const *) left;
	const ResultEntry *b = *(ResultEntry *const *) right;
	int			order = compare_identities(a, b);

	if (order == 0)
		order = compare_details(a, b);
	return order != 0 ? order : compare_remains(a, b);
}

/* Orders results of one document by all parts except the time of evaluation. */
static int
order_by_contents(const void *left, const void *right)
{
	const ReportResult *a = left;
	const ReportResult *b = right;
	int			order = compare_numbers((int64_t) a->entry->identity_order, (int64_t) b->entry->identity_order);

	if (order == 0)
		order = compare_objects(a->subject, b->subject);
	if (order == 0)
		order = compare_numbers((int64_t) a->entry->content_order, (int64_t) b->entry->content_order);
	return order != 0 ? order : compare_subjects(a->subject, b->subject);
}

static bool
same_object(const ReportResult *a, const ReportResult *b)
{
	return a->entry->identity_order == b->entry->identity_order && compare_objects(a->subject, b->subject) == 0;
}

static int
order_by_key(const void *a, const void *b)
{
	return compare_numbers(((const ReportResult *) a)->key, ((const ReportResult *) b)->key);
}

/* The C library's qsort() must not be interrupted, so its work is charged in advance. */
static void
sort(void *elements, size_t count, size_t size, int (*order) (const void *, const void *))
{
	uint64_t	levels = 1;

	for (size_t rest = count; rest > 1; rest /= 2)
		levels++;
	arena_spend(count * levels / 4);
	if (count > 1)
		qsort(elements, count, size, order);
}

/* Sorts and numbers the entries. */
static void
order_contents(ResultList *list)
{
	sort(list->entries, list->entry_count, sizeof(ResultEntry *), order_entries);
	for (size_t i = 1; i < list->entry_count; i++)
	{
		const ResultEntry *before = list->entries[i - 1];
		ResultEntry *entry = list->entries[i];
		bool		same = compare_identities(before, entry) == 0;

		arena_checkpoint_at(i);
		entry->identity_order = before->identity_order + !same;
		same = same && compare_details(before, entry) == 0;
		entry->detail_order = before->detail_order + !same;
		same = same && compare_remains(before, entry) == 0;
		entry->content_order = before->content_order + !same;
	}
}

/*
 * Ids
 */

/* Appends a field to the bytes to hash: its length, then its bytes. */
static void
put_field(Hashing *hashing, JsonText field)
{
	char		length[4] = {(char) (field.len >> 24), (char) (field.len >> 16), (char) (field.len >> 8),
	(char) field.len};

	strbuf_append(&hashing->buf, length, sizeof(length));
	strbuf_append(&hashing->buf, field.bytes, field.len);
}

static void
put_word(Hashing *hashing, const char *word)
{
	put_field(hashing, (JsonText) {word, strlen(word)});
}

static void
put_number(Hashing *hashing, int64_t number)
{
	char		digits[24];

	snprintf(digits, sizeof(digits), "%lld", (long long) number);
	put_word(hashing, digits);
}

/* The hash of all fields put since the last hash. */
static int64_t
finish_hash(Hashing *hashing)
{
	size_t		len = hashing->buf.len;

	arena_spend(1 + len / HASHED_PER_STEP);
	hashing->buf.len = 0;
	return hashing->hash(hashing->state, hashing->buf.bytes != NULL ? hashing->buf.bytes : "", len);
}

static Hashing
begin_hashing(Arena *arena, ResultHash hash, void *state)
{
	Hashing		hashing = {.hash = hash, .state = state};

	strbuf_init(&hashing.buf, arena);
	return hashing;
}

int64_t
result_field_hash(Arena *arena, const JsonText *fields, size_t count, ResultHash hash, void *state)
{
	Hashing		hashing = begin_hashing(arena, hash, state);

	for (size_t i = 0; i < count; i++)
		put_field(&hashing, fields[i]);
	return finish_hash(&hashing);
}

static void
identify_entry(Hashing *hashing, ResultEntry *entry)
{
	put_word(hashing, "criterion");
	put_field(hashing, entry->source);
	put_field(hashing, entry->policy);
	put_field(hashing, entry->rule);
	put_field(hashing, entry->category);
	put_field(hashing, entry->severity);
	entry->criterion = finish_hash(hashing);

	put_word(hashing, "detail");
	put_field(hashing, entry->message);
	put_field(hashing, entry->properties);
	for (size_t i = 0; i < entry->exception_count; i++)
		put_field(hashing, entry->exceptions[i]);
	entry->detail = finish_hash(hashing);
}

static void
identify_subject(Hashing *hashing, ResultSubject *subject, int cluster)
{
	put_word(hashing, "subject");
	put_number(hashing, cluster);
	put_field(hashing, subject->api_version);
	put_field(hashing, subject->kind);
	put_field(hashing, subject->namespace_name);
	put_field(hashing, subject->name);
	put_field(hashing, subject->uid);
	subject->id = finish_hash(hashing);
}

/* Puts the identity of a result in its report; results with equal identities are distinguished elsewhere. */
static void
put_identity(Hashing *hashing, const ReportResult *result)
{
	const ResultEntry *entry = result->entry;
	const ResultSubject *subject = result->subject;

	put_word(hashing, "key");
	put_field(hashing, entry->source);
	put_field(hashing, entry->policy);
	put_field(hashing, entry->rule);
	put_field(hashing, api_group(subject->api_version));
	put_field(hashing, subject->kind);
	put_field(hashing, subject->namespace_name);
	put_field(hashing, subject_name(subject));
	for (size_t i = 0; i < entry->key_count; i++)
		put_field(hashing, entry->key_texts[i]);
}

/*
 * Sets the keys of results with one identity, sorted by contents.  The ids of their details are already set.
 *
 * Usually there is only one result.  Among several, the first failing result, or else the first result, gets the key
 * that a single result would get.  The keys of the others include their details, so that they stay the same when
 * another result appears, disappears or changes its status.  If one result changes, keys and documents give the same
 * number of results that begin or cease to fail.  If two results change at once, a result that begins to fail may get
 * the key of a result that ceases to fail.
 */
static void
name_equals(Hashing *hashing, ReportResult *results, size_t count)
{
	size_t		first = 0;
	int64_t		number = 0;

	while (first < count && !is_failing(results[first].entry->status))
		first++;
	if (first == count)
		first = 0;
	for (size_t i = 0; i < count; i++)
	{
		ReportResult *result = &results[i];

		number = i > 0 && results[i - 1].entry->detail_order == result->entry->detail_order ? number + 1 : 0;
		put_identity(hashing, result);
		if (i != first)
			put_number(hashing, result->entry->detail);
		put_number(hashing, i != first ? number : 0);
		result->key = finish_hash(hashing);
	}
}

/* Gives every result its key and its ids. */
static void
identify(Arena *arena, ResultList *list, int cluster, ResultHash hash, void *state)
{
	Hashing		hashing = begin_hashing(arena, hash, state);

	if (list->count == 0)
		return;
	order_contents(list);
	for (size_t i = 0; i < list->entry_count; i++)
		identify_entry(&hashing, list->entries[i]);
	for (size_t i = 0; i < list->count; i++)
		if (list->results[i].subject->id == 0)
			identify_subject(&hashing, list->results[i].subject, cluster);
	sort(list->results, list->count, sizeof(ReportResult), order_by_contents);
	for (size_t i = 0, next; i < list->count; i = next)
	{
		for (next = i + 1; next < list->count && same_object(&list->results[i], &list->results[next]);)
			next++;
		name_equals(&hashing, &list->results[i], next - i);
	}
	sort(list->results, list->count, sizeof(ReportResult), order_by_key);
	/* Equal keys in one report, by chance or by a deliberate collision, are changed to differ. */
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

/*
 * Compares entries of two documents.  twin remembers an equal entry, so that an entry of many subjects is compared
 * once.
 */
static bool
same_entries(ResultEntry *a, const ResultEntry *b)
{
	if (a->twin == b)
		return true;
	if (compare_identities(a, b) != 0 || compare_details(a, b) != 0 || compare_remains(a, b) != 0)
		return false;
	a->twin = b;
	return true;
}

/* Compares two lists, both in document order. */
static bool
same_results(const ResultList *a, const ResultList *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
	{
		arena_checkpoint_at(i);
		if (!same_entries(a->results[i].entry, b->results[i].entry) ||
			compare_subjects(a->results[i].subject, b->results[i].subject) != 0)
			return false;
	}
	return true;
}

/* Whether two results with the same key have the same contents.  The ids cover all texts except native_status. */
static bool
same_rows(const ReportResult *a, const ReportResult *b)
{
	return a->entry->detail == b->entry->detail && a->entry->criterion == b->entry->criterion &&
		a->subject->id == b->subject->id && a->entry->status == b->entry->status &&
		a->entry->score == b->entry->score &&
		json_text_compare(a->entry->native_status, b->entry->native_status) == 0;
}

size_t
result_difference(Arena *arena, const ResultMapping *mapping, const JsonNode *old, const JsonNode *new, int cluster,
				  ResultHash hash, void *state, ResultChange **changes)
{
	ResultList	before = {0};
	ResultList	after = {0};

	if (old != NULL)
		result_read(arena, mapping, old, &before);
	if (new != NULL)
		result_read(arena, mapping, new, &after);
	return result_compare(arena, &before, &after, cluster, hash, state, changes);
}

size_t
result_compare(Arena *arena, ResultList *before, ResultList *after, int cluster, ResultHash hash, void *state,
			   ResultChange **changes)
{
	size_t		count = 0;
	size_t		i = 0;
	size_t		j = 0;

	*changes = NULL;
	/* Most scans report the same results again; then no keys are needed. */
	if (same_results(before, after))
		return 0;
	identify(arena, before, cluster, hash, state);
	identify(arena, after, cluster, hash, state);
	*changes = arena_alloc(arena, sizeof(ResultChange) * (before->count + after->count));
	while (i < before->count || j < after->count)
	{
		const ReportResult *was = i < before->count ? &before->results[i] : NULL;
		const ReportResult *is = j < after->count ? &after->results[j] : NULL;

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
			if (!same_rows(was, is))
				(*changes)[count++] = (ResultChange) {was, is};
			i++;
			j++;
		}
	}
	return count;
}
