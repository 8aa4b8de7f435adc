/*-------------------------------------------------------------------------
 *
 * result_rows.c
 *	  Rows of results, in the form that result_difference() of the SQL variant
 *	  takes.
 *
 * extension/sql_result.c makes the same rows in the variant in C.
 *
 *-------------------------------------------------------------------------
 */
#include "decide/result_rows.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <time.h>

/* A computation under the budget of its documents. */
typedef struct Computing
{
	Arena	   *arena;
	const ResultMapping *mapping;
	int			cluster;
	const ResultStates *states;
	bool		time_only;
	bool		damaged;
	ResultRows *rows;
	EVP_MD_CTX *context;
} Computing;

static int64_t
hash_fields(void *state, const char *bytes, size_t len)
{
	EVP_MD_CTX *context = state;
	unsigned char digest[EVP_MAX_MD_SIZE];
	uint64_t	number = 0;

	/* The type NULL means the type that the context already has. */
	if (EVP_DigestInit_ex(context, NULL, NULL) != 1 || EVP_DigestUpdate(context, bytes, len) != 1 ||
		EVP_DigestFinal_ex(context, digest, NULL) != 1)
		abort();
	for (int i = 0; i < 8; i++)
		number = number << 8 | digest[i];
	return (int64_t) number;
}

/* Returns the parsed document; NULL when there is no body. */
static JsonNode *
whole_document(Computing *computing, JsonText metadata, JsonText body)
{
	JsonError	error;
	JsonNode   *document;
	JsonNode   *part;

	if (body.bytes == NULL)
		return NULL;
	document = json_parse(computing->arena, body.bytes, body.len, NULL, NULL, &error);
	if (document == NULL || document->kind != JSON_KIND_OBJECT)
	{
		computing->damaged = true;
		return NULL;
	}
	if (metadata.bytes == NULL)
		return document;
	part = json_parse(computing->arena, metadata.bytes, metadata.len, NULL, NULL, &error);
	computing->damaged = computing->damaged || part == NULL || part->kind != JSON_KIND_OBJECT;
	if (!computing->damaged)
		json_set(computing->arena, document, "metadata", part);
	return document;
}

static void
write_time(StrBuf *buf, int64_t microseconds)
{
	time_t		seconds = (time_t) (microseconds / 1000000);
	struct tm	parts;
	char		text[40];

	gmtime_r(&seconds, &parts);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
	strbuf_printf(buf, "%s.%06dZ", text, (int) (microseconds % 1000000));
}

static void
put_text(StrBuf *buf, const char *column, JsonText text)
{
	strbuf_printf(buf, ",\"%s\":", column);
	json_write_string(buf, text.bytes, text.len);
}

static void
put_row(StrBuf *buf, const ResultChange *change)
{
	/* A removed result is described by its old values. */
	const ReportResult *result = change->new != NULL ? change->new : change->old;
	ResultEntry *entry = result->entry;
	bool		wanted = change->new != NULL;

	strbuf_printf(buf, "{\"key\":%lld,\"wanted\":%s,\"position\":%zu,\"criterion\":%lld,\"subject\":%lld,"
				  "\"detail\":%lld,\"status\":\"%c\",\"score\":%.17g",
				  (long long) result->key, wanted ? "true" : "false", entry->position, (long long) entry->criterion,
				  (long long) result->subject->id, (long long) entry->detail, (char) entry->status, entry->score);
	if (change->old != NULL)
		strbuf_printf(buf, ",\"old_status\":\"%c\"", (char) change->old->entry->status);
	put_text(buf, "api_version", result->subject->api_version);
	put_text(buf, "kind", result->subject->kind);
	put_text(buf, "subject_namespace", result->subject->namespace_name);
	put_text(buf, "subject_name", result->subject->name);
	put_text(buf, "subject_uid", result->subject->uid);
	put_text(buf, "native_status", entry->native_status);

	/*
	 * Results of several subjects can share an entry; only the first row has the texts of the entry.  Rows of removed
	 * results have texts too, because the database verifies the ids by them.
	 */
	if (!entry->told)
	{
		put_text(buf, "source", entry->source);
		put_text(buf, "policy", entry->policy);
		put_text(buf, "rule", entry->rule);
		put_text(buf, "category", entry->category);
		put_text(buf, "severity", entry->severity);
		put_text(buf, "message", entry->message);
		put_text(buf, "properties", entry->properties);
		strbuf_puts(buf, ",\"exceptions\":[");
		for (size_t i = 0; i < entry->exception_count; i++)
		{
			if (i > 0)
				strbuf_putc(buf, ',');
			json_write_string(buf, entry->exceptions[i].bytes, entry->exceptions[i].len);
		}
		strbuf_putc(buf, ']');
		entry->told = true;
	}
	if (entry->has_time)
	{
		strbuf_puts(buf, ",\"evaluated_at\":\"");
		write_time(buf, entry->time);
		strbuf_putc(buf, '"');
	}
	strbuf_putc(buf, '}');
}

static void
compute(void *state)
{
	Computing  *computing = state;
	const ResultStates *states = computing->states;
	JsonNode   *before = whole_document(computing, states->old_metadata, states->old_body);
	JsonNode   *after = whole_document(computing, states->metadata, states->body);
	ResultChange *changes;
	StrBuf		buf;
	int64_t		time;
	size_t		count;

	if (computing->damaged)
		return;
	computing->rows->evaluated_at = (JsonText) {"", 0};
	if (after != NULL && result_time(computing->arena, computing->mapping, after, &time))
	{
		strbuf_init(&buf, computing->arena);
		write_time(&buf, time);
		computing->rows->evaluated_at = (JsonText) {buf.bytes, buf.len};
	}
	if (computing->time_only)
		return;
	count = result_difference(computing->arena, computing->mapping, before, after, computing->cluster, hash_fields,
							  computing->context, &changes);
	strbuf_init(&buf, computing->arena);
	strbuf_putc(&buf, '[');
	for (size_t i = 0; i < count; i++)
	{
		if (i > 0)
			strbuf_putc(&buf, ',');
		put_row(&buf, &changes[i]);
		arena_checkpoint();
	}
	strbuf_putc(&buf, ']');
	computing->rows->rows = (JsonText) {buf.bytes, buf.len};
}

static bool
run(Arena *arena, Computing *computing, const char **why)
{
	const ResultStates *states = computing->states;
	ArenaLimit	limit;

	computing->context = EVP_MD_CTX_new();
	if (computing->context == NULL || EVP_DigestInit_ex(computing->context, EVP_sha256(), NULL) != 1)
		abort();
	/* Rows repeat texts of the documents, because each row has the texts of its subject. */
	limit = arena_run(arena, 4 * (states->old_metadata.len + states->old_body.len + states->metadata.len +
								  states->body.len), compute, computing);
	EVP_MD_CTX_free(computing->context);
	if (limit != ARENA_WITHIN)
		*why = "the results of the document cost too much";
	else if (computing->damaged)
		*why = "the document is not a JSON object";
	return limit == ARENA_WITHIN && !computing->damaged;
}

bool
result_rows(Arena *arena, const ResultMapping *mapping, int cluster, const ResultStates *states,
			ResultRows *rows, const char **why)
{
	Computing	computing = {.arena = arena, .mapping = mapping, .cluster = cluster, .states = states, .rows = rows};

	return run(arena, &computing, why);
}

bool
result_evaluated_at(Arena *arena, const ResultMapping *mapping, JsonText metadata, JsonText body,
					JsonText *evaluated_at, const char **why)
{
	const ResultStates states = {{NULL, 0}, {NULL, 0}, metadata, body};
	ResultRows	rows = {{NULL, 0}, {NULL, 0}};
	Computing	computing = {.arena = arena, .mapping = mapping, .states = &states, .time_only = true, .rows = &rows};
	bool		good = run(arena, &computing, why);

	*evaluated_at = rows.evaluated_at;
	return good;
}
