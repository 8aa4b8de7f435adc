/*-------------------------------------------------------------------------
 *
 * result_extract.c
 *	  Reads the results of a document with a mapping.
 *
 * A document may contain everything that the schema of its type allows.  A
 * value that does not fit a column is read as absent.  No value is an error,
 * because the report is already accepted.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/results/result_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/ascii.h"
#include "engine/base/utf8.h"
#include "engine/schema/jsonpath.h"
#include "engine/api/metadata.h"

/*
 * Times of 1970 mean that no time is set: Go's zero value, a clock that was never set, and the second of a minute,
 * which falcosidekick writes in its place.
 */
#define MIN_SECONDS INT64_C(31536000)
/* The last second of the year 9999. */
#define MAX_SECONDS INT64_C(253402300799)

/* The starts of paths. */
typedef struct Place
{
	const JsonNode *document;
	const JsonNode *result;
	const JsonNode *resource;
} Place;

typedef struct SubjectList
{
	ResultSubject **subjects;
	size_t		count;
} SubjectList;

typedef struct Extraction
{
	Arena	   *arena;
	const ResultMapping *mapping;
	ResultList *list;
	size_t		capacity;
	size_t		entry_capacity;
	SubjectList *cached;		/* by number of the subject source; for sources that depend only on the document */
	bool	   *cached_known;
} Extraction;

static const JsonNode *
source_node(Arena *arena, const ResultSource *source, const Place *place)
{
	const JsonNode *start = source->scope == SCOPE_DOCUMENT ? place->document :
	source->scope == SCOPE_RESULT ? place->result :
	source->scope == SCOPE_RESOURCE ? place->resource : NULL;

	if (start == NULL || source->path == NULL)
		return start;
	return jsonpath_first(arena, source->path, start);
}

/* Replaces NUL, which PostgreSQL's texts cannot contain. */
static JsonText
without_nul(Arena *arena, JsonText text)
{
	StrBuf		buf;

	if (text.len == 0 || memchr(text.bytes, '\0', text.len) == NULL)
		return text;
	strbuf_init(&buf, arena);
	for (size_t i = 0; i < text.len; i++)
	{
		if (text.bytes[i] == '\0')
			strbuf_puts(&buf, REPLACEMENT_CHARACTER);
		else
			strbuf_putc(&buf, text.bytes[i]);
	}
	return (JsonText) {buf.bytes, buf.len};
}

/* A scalar as text; empty for null, lists and objects. */
static JsonText
scalar_text(Arena *arena, const JsonNode *node)
{
	StrBuf		buf;

	if (node == NULL)
		return (JsonText) {"", 0};
	switch (node->kind)
	{
		case JSON_KIND_STRING:
			return without_nul(arena, node->u.string);
		case JSON_KIND_BOOL:
		case JSON_KIND_INTEGER:
		case JSON_KIND_NUMBER:
			strbuf_init(&buf, arena);
			json_write(&buf, node);
			return (JsonText) {strbuf_finish(&buf), buf.len};
		case JSON_KIND_NULL:
		case JSON_KIND_ARRAY:
		case JSON_KIND_OBJECT:
			break;
	}
	return (JsonText) {"", 0};
}

/* Cuts a text between characters; most is the maximum number of bytes. */
static JsonText
cut(JsonText text, size_t most)
{
	return (JsonText) {text.bytes, utf8_cut(text.bytes, text.len, most)};
}

/* The first text of a source that is not empty; *word is the string in the document, before the map replaces it. */
static JsonText
source_text(Arena *arena, const ResultSource *source, const Place *place, JsonText *word)
{
	for (; source != NULL; source = source->next)
	{
		const JsonNode *node = NULL;
		JsonText	text = source->constant;

		if (source->scope != SCOPE_CONSTANT)
		{
			node = source_node(arena, source, place);
			text = scalar_text(arena, node);
		}
		if (word != NULL)
			*word = node != NULL && node->kind == JSON_KIND_STRING ? text : (JsonText) {"", 0};
		/* A map may replace an empty string, but not an absent value. */
		if (source->map != NULL && (text.len > 0 || (node != NULL && node->kind == JSON_KIND_STRING)))
		{
			const JsonNode *mapped = json_get_text(source->map, text);

			if (mapped == NULL)
				mapped = source->otherwise;
			if (mapped != NULL)
				text = without_nul(arena, mapped->u.string);
		}
		if (text.len > 0)
			return text;
	}
	return (JsonText) {"", 0};
}

static JsonText
without_blanks(JsonText text)
{
	while (text.len > 0 && (text.bytes[0] == ' ' || text.bytes[0] == '\t'))
		text.bytes++, text.len--;
	while (text.len > 0 && (text.bytes[text.len - 1] == ' ' || text.bytes[text.len - 1] == '\t'))
		text.len--;
	return text;
}

static bool
same_word(JsonText text, const char *word)
{
	return text.len == strlen(word) && ascii_same(text.bytes, word, text.len);
}

bool
result_status_word(JsonText text, ResultStatus *status)
{
	static const char *const words[] = {"pass", "warn", "fail", "error", "skip"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (same_word(text, words[i]))
		{
			*status = (ResultStatus) words[i][0];
			return true;
		}
	return false;
}

/*
 * An unknown word gives the status error, so that users notice it.  Without a word nothing was checked: the status is
 * skip.
 */
static ResultStatus
status_of(JsonText text)
{
	ResultStatus status;

	if (text.len == 0)
		return RESULT_SKIP;
	return result_status_word(text, &status) ? status : RESULT_ERROR;
}

static JsonText
severity_of(JsonText text)
{
	static const char *const words[] = {"info", "low", "medium", "high", "critical"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (same_word(text, words[i]))
			return (JsonText) {words[i], strlen(words[i])};
	return (JsonText) {"unknown", 7};
}

/*
 * Reads a number, or a string with a number and blanks around it; 0 for none.  Scores are positive: adapters write 0
 * for an unknown score.
 */
static double
score_of(Arena *arena, JsonText text)
{
	char	   *end;
	double		score;

	text = without_blanks(text);
	if (text.len == 0 || text.len > 32 || strspn(arena_strndup(arena, text.bytes, text.len),
												 "0123456789.eE+-") != text.len)
		return 0;
	score = strtod(arena_strndup(arena, text.bytes, text.len), &end);
	return *end == '\0' && isfinite(score) && score > 0 && score < 1e9 ? score : 0;
}

/* A protobuf timestamp {seconds, nanos}, RFC 3339, or seconds since 1970. */
static bool
time_of(const JsonNode *node, int64_t *time)
{
	const JsonNode *seconds = node != NULL && node->kind == JSON_KIND_OBJECT ? json_get(node, "seconds") : node;
	const JsonNode *nanos = json_get(node, "nanos");
	int64_t		value;

	if (seconds == NULL)
		return false;
	if (seconds->kind == JSON_KIND_INTEGER)
		value = seconds->u.integer;
	else if (seconds->kind != JSON_KIND_STRING || !parse_time(seconds->u.string, &value))
		return false;
	if (value < MIN_SECONDS || value > MAX_SECONDS)
		return false;
	*time = value * 1000000;
	if (nanos != NULL && nanos->kind == JSON_KIND_INTEGER && nanos->u.integer > 0 && nanos->u.integer < 1000000000)
		*time += nanos->u.integer / 1000;
	return true;
}

static bool
source_time(Arena *arena, const ResultSource *source, const Place *place, int64_t *time)
{
	for (; source != NULL; source = source->next)
		if (source->scope != SCOPE_CONSTANT && time_of(source_node(arena, source, place), time))
			return true;
	return false;
}

static void
write_property(Arena *arena, StrBuf *buf, JsonText name, JsonText value)
{
	name = without_nul(arena, name);
	if (buf->len > 1)
		strbuf_putc(buf, ',');
	json_write_string(buf, name.bytes, name.len);
	strbuf_putc(buf, ':');
	json_write_string(buf, value.bytes, value.len);
}

static JsonText
properties_of(Arena *arena, const ResultMapping *mapping, const Place *place)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	strbuf_putc(&buf, '{');
	for (const ResultSource *source = mapping->properties; source != NULL; source = source->next)
	{
		const JsonNode *node = source_node(arena, source, place);

		if (node == NULL || node->kind != JSON_KIND_OBJECT)
			continue;
		for (size_t i = 0; i < node->u.object.count; i++)
		{
			JsonText	value = scalar_text(arena, node->u.object.members[i].value);

			if (value.len > 0)
				write_property(arena, &buf, node->u.object.members[i].key, value);
		}
		break;
	}
	for (const NamedSource *named = mapping->property; named != NULL; named = named->next)
	{
		JsonText	value = source_text(arena, named->source, place, NULL);

		if (value.len > 0)
			write_property(arena, &buf, named->name, value);
	}
	strbuf_putc(&buf, '}');
	return (JsonText) {strbuf_finish(&buf), buf.len};
}

static void
add_exception(Arena *arena, ResultEntry *entry, JsonText **list, size_t *capacity, JsonText text)
{
	text = without_blanks(text);
	if (text.len == 0)
		return;
	*list = arena_grow(arena, *list, entry->exception_count, sizeof(JsonText), capacity);
	(*list)[entry->exception_count++] = cut(text, RESULT_MAX_NAME);
}

/* Reads names from a list, or from one string with commas, as Kyverno writes them. */
static void
read_exceptions(Arena *arena, const ResultSource *source, const Place *place, ResultEntry *entry)
{
	JsonText   *list = NULL;
	size_t		capacity = 0;

	for (; source != NULL && entry->exception_count == 0; source = source->next)
	{
		const JsonNode *node = source_node(arena, source, place);
		JsonText	text = scalar_text(arena, node);

		for (size_t i = 0; node != NULL && node->kind == JSON_KIND_ARRAY && i < node->u.array.count; i++)
			add_exception(arena, entry, &list, &capacity, scalar_text(arena, node->u.array.items[i]));
		while (text.len > 0)
		{
			const char *comma = memchr(text.bytes, ',', text.len);
			size_t		len = comma != NULL ? (size_t) (comma - text.bytes) : text.len;

			add_exception(arena, entry, &list, &capacity, (JsonText) {text.bytes, len});
			len += comma != NULL;
			text.bytes += len;
			text.len -= len;
		}
	}
	entry->exceptions = list;
}

/*
 * Subjects
 */

/* NULL when the subject has neither a name nor a uid. */
static ResultSubject *
read_subject(Arena *arena, const SubjectSource *source, const Place *place)
{
	JsonText	name = cut(source_text(arena, source->name, place, NULL), RESULT_MAX_NAME);
	JsonText	uid = cut(source_text(arena, source->uid, place, NULL), RESULT_MAX_NAME);
	ResultSubject *subject;

	if (name.len == 0 && uid.len == 0)
		return NULL;
	subject = arena_alloc0(arena, sizeof(ResultSubject));
	subject->name = name;
	subject->uid = uid;
	subject->api_version = cut(source_text(arena, source->api_version, place, NULL), RESULT_MAX_NAME);
	subject->kind = cut(source_text(arena, source->kind, place, NULL), RESULT_MAX_NAME);
	subject->namespace_name = cut(source_text(arena, source->namespace_name, place, NULL), RESULT_MAX_NAME);
	return subject;
}

static SubjectList
read_subjects(Arena *arena, const SubjectSource *source, Place place)
{
	SubjectList list = {NULL, 0};
	const JsonNode *each = NULL;
	size_t		most = 1;

	if (source->each != NULL)
	{
		each = source_node(arena, source->each, &place);
		if (each == NULL || each->kind != JSON_KIND_ARRAY)
			return list;
		most = each->u.array.count;
	}
	list.subjects = arena_alloc(arena, sizeof(ResultSubject *) * (most + 1));
	for (size_t i = 0; i < most; i++)
	{
		ResultSubject *subject;

		place.resource = each != NULL ? each->u.array.items[i] : NULL;
		subject = read_subject(arena, source, &place);
		if (subject != NULL)
			list.subjects[list.count++] = subject;
	}
	return list;
}

static SubjectList
subjects_of(Extraction *extraction, const Place *place)
{
	size_t		n = 0;
	SubjectList list = {NULL, 0};

	for (const SubjectSource *source = extraction->mapping->subjects; source != NULL; source = source->next, n++)
	{
		if (!source->of_document)
			list = read_subjects(extraction->arena, source, *place);
		else
		{
			if (!extraction->cached_known[n])
				extraction->cached[n] = read_subjects(extraction->arena, source, *place);
			extraction->cached_known[n] = true;
			list = extraction->cached[n];
		}
		if (list.count > 0)
			return list;
	}
	/* A result without a subject gets a subject without a name. */
	if (!extraction->cached_known[n])
	{
		JsonText	none = {"", 0};
		ResultSubject *subject = arena_alloc(extraction->arena, sizeof(ResultSubject));

		*subject = (ResultSubject) {none, none, none, none, none, 0};
		extraction->cached[n].subjects = arena_alloc(extraction->arena, sizeof(ResultSubject *));
		extraction->cached[n].subjects[0] = subject;
		extraction->cached[n].count = 1;
		extraction->cached_known[n] = true;
	}
	return extraction->cached[n];
}

/*
 * Results
 */

/* Reads the texts of the mapping's key, which distinguish results of one report in addition to the usual texts. */
static void
read_key(Arena *arena, const ResultSource *key, const Place *place, ResultEntry *entry)
{
	JsonText   *texts = NULL;
	size_t		capacity = 0;

	for (; key != NULL; key = key->next)
	{
		ResultSource alone = *key;

		alone.next = NULL;
		texts = arena_grow(arena, texts, entry->key_count, sizeof(JsonText), &capacity);
		texts[entry->key_count++] = source_text(arena, &alone, place, NULL);
	}
	entry->key_texts = texts;
}

static void
add_result(Extraction *extraction, ResultEntry *entry, ResultSubject *subject)
{
	ResultList *list = extraction->list;

	list->results = arena_grow(extraction->arena, list->results, list->count, sizeof(ReportResult),
							   &extraction->capacity);
	list->results[list->count++] = (ReportResult) {entry, subject, 0};
	arena_checkpoint_at(list->count);
}

static void
read_result(Extraction *extraction, const Place *place, size_t position)
{
	Arena	   *arena = extraction->arena;
	const ResultMapping *mapping = extraction->mapping;
	SubjectList subjects = subjects_of(extraction, place);
	ResultList *list = extraction->list;
	ResultEntry *entry = arena_alloc0(arena, sizeof(ResultEntry));
	JsonText	word = {"", 0};
	ResultStatus known;

	arena_checkpoint();
	entry->position = position;
	entry->native_status = (JsonText) {"", 0};
	entry->source = cut(source_text(arena, mapping->source, place, NULL), RESULT_MAX_TEXT);
	entry->policy = cut(source_text(arena, mapping->policy, place, NULL), RESULT_MAX_TEXT);
	entry->rule = cut(source_text(arena, mapping->rule, place, NULL), RESULT_MAX_TEXT);
	entry->category = cut(source_text(arena, mapping->category, place, NULL), RESULT_MAX_TEXT);
	entry->severity = severity_of(source_text(arena, mapping->severity, place, NULL));
	entry->status = status_of(source_text(arena, mapping->status, place, &word));
	if (!result_status_word(word, &known))
		entry->native_status = cut(word, RESULT_MAX_TEXT);
	for (const ResultSource *source = mapping->score; source != NULL && entry->score == 0; source = source->next)
	{
		ResultSource alone = *source;

		alone.next = NULL;
		entry->score = score_of(arena, source_text(arena, &alone, place, NULL));
	}
	entry->message = source_text(arena, mapping->message, place, NULL);
	entry->properties = properties_of(arena, mapping, place);
	read_exceptions(arena, mapping->exceptions, place, entry);
	read_key(arena, mapping->key, place, entry);
	entry->has_time = source_time(arena, mapping->time, place, &entry->time);
	if (entry->has_time && (!list->has_time || entry->time > list->time))
	{
		list->has_time = true;
		list->time = entry->time;
	}
	list->entries = arena_grow(arena, list->entries, list->entry_count, sizeof(ResultEntry *),
							   &extraction->entry_capacity);
	list->entries[list->entry_count++] = entry;
	for (size_t i = 0; i < subjects.count; i++)
		add_result(extraction, entry, subjects.subjects[i]);
}

/*
 * The results of place->document: the elements of an array, one object with a policy, or the objects that a path with
 * a wildcard selects, such as the members of an object.  An empty object in place of a list is no result.
 */
static const JsonNode *const *
result_nodes(Arena *arena, const ResultMapping *mapping, const Place *place, size_t *count)
{
	*count = 0;
	for (const ResultSource *source = mapping->list; source != NULL; source = source->next)
	{
		const JsonNode *const *selected = &place->document;
		const JsonNode *node;

		*count = source->scope == SCOPE_DOCUMENT ? 1 : 0;
		if (*count == 1 && source->path != NULL)
			selected = jsonpath_all(arena, source->path, place->document, count);
		if (*count > 1)
			return selected;
		node = *count == 1 ? selected[0] : NULL;
		*count = 0;
		if (node != NULL && node->kind == JSON_KIND_ARRAY)
		{
			*count = node->u.array.count;
			return (const JsonNode *const *) node->u.array.items;
		}
		if (node != NULL && node->kind == JSON_KIND_OBJECT)
		{
			const JsonNode **alone = arena_alloc(arena, sizeof(JsonNode *));
			Place		here = {.document = place->document, .result = node};

			if (source_text(arena, mapping->policy, &here, NULL).len == 0)
				continue;
			alone[0] = node;
			*count = 1;
			return alone;
		}
	}
	return NULL;
}

void
result_read(Arena *arena, const ResultMapping *mapping, const JsonNode *document, ResultList *list)
{
	Extraction	extraction = {.arena = arena, .mapping = mapping, .list = list};
	Place		place = {.document = document};
	size_t		ways = 1;
	size_t		count;
	const JsonNode *const *nodes = result_nodes(arena, mapping, &place, &count);

	memset(list, 0, sizeof(*list));
	for (const SubjectSource *source = mapping->subjects; source != NULL; source = source->next)
		ways++;
	extraction.cached = arena_alloc0(arena, sizeof(SubjectList) * ways);
	extraction.cached_known = arena_alloc0(arena, sizeof(bool) * ways);
	for (size_t i = 0; i < count; i++)
	{
		place.result = nodes[i];
		if (nodes[i]->kind == JSON_KIND_OBJECT)
			read_result(&extraction, &place, i);
	}
}

bool
result_time(Arena *arena, const ResultMapping *mapping, const JsonNode *document, int64_t *time)
{
	Place		place = {.document = document};
	size_t		count;
	const JsonNode *const *nodes = result_nodes(arena, mapping, &place, &count);
	bool		found = false;

	for (size_t i = 0; i < count; i++)
	{
		int64_t		this;

		place.result = nodes[i];
		if (nodes[i]->kind == JSON_KIND_OBJECT && source_time(arena, mapping->time, &place, &this) &&
			(!found || this > *time))
		{
			*time = this;
			found = true;
		}
	}
	return found;
}
