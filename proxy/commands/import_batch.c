/*-------------------------------------------------------------------------
 *
 * import_batch.c
 *	  Writes objects into the database in batches, and verifies each batch after its commit.
 *
 * The database returns the outcome of each object.  Then the committed objects
 * are compared with the source, by a hash of the canonical JSON, which both
 * sides write with the same code.  An object that cannot be stored is printed
 * and counted, and the others are stored.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/import_batch.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"

/* Largest number of lines about objects that are newer in the database; the table shows how many there are. */
#define KEPT_TOLD 20

/* The same for objects that are stored as different documents; usually all have the same reason. */
#define ALTERED_TOLD 100

#define HASH_BYTES 32

void
import_batch_begin(ImportBatch *batch, const ReportStore *store, const ReportKind *kind, const char *source,
				   bool overwrite)
{
	memset(batch, 0, sizeof(*batch));
	batch->store = store;
	batch->kind = kind;
	batch->source = source;
	batch->overwrite = overwrite;
	arena_init(&batch->arena);
	progress_begin(&batch->progress, kind->name);
}

void
import_batch_end(ImportBatch *batch)
{
	arena_free(&batch->arena);
}

/* ---------- differences ---------- */

static const char *
difference_at(Arena *arena, const char *path, const JsonNode *source, const JsonNode *stored)
{
	if (source == NULL || stored == NULL || source->kind != stored->kind)
		return path;
	if (source->kind == JSON_KIND_OBJECT)
	{
		JsonPairs	pairs = {.left = source, .right = stored};

		while (json_pairs_next(&pairs))
		{
			const char *found = difference_at(arena, arena_printf(arena, "%s%s%s", path, path[0] == '\0' ? "" : ".",
																  json_text_cstring(arena, pairs.key)),
											  pairs.left_value, pairs.right_value);

			if (found != NULL)
				return found;
		}
		return NULL;
	}
	if (source->kind == JSON_KIND_ARRAY)
	{
		for (size_t i = 0; i < source->u.array.count && i < stored->u.array.count; i++)
		{
			const char *found = difference_at(arena, arena_printf(arena, "%s[%zu]", path, i), source->u.array.items[i],
											  stored->u.array.items[i]);

			if (found != NULL)
				return found;
		}
		return source->u.array.count == stored->u.array.count ? NULL : path;
	}
	return json_same(source, stored) ? NULL : path;
}

static const char *
text_difference(Arena *arena, const char *prefix, JsonText source, const char *stored)
{
	JsonError	error;
	const JsonNode *left = json_parse(arena, source.bytes, source.len, NULL, NULL, &error);
	const JsonNode *right = stored == NULL ? NULL : json_parse(arena, stored, strlen(stored), NULL, NULL, &error);
	const char *path = difference_at(arena, "", left, right);

	return path == NULL ? NULL : arena_printf(arena, "%s%s%s", prefix, prefix[0] == '\0' || path[0] == '\0' ? "" : ".",
											  path);
}

/* ---------- lines about objects ---------- */

static const char *
item_name(Arena *arena, const ImportItem *item)
{
	return arena_printf(arena, "%.*s%s%.*s", (int) item->namespace_name.len, item->namespace_name.bytes,
						item->namespace_name.len > 0 ? "/" : "", (int) item->name.len, item->name.bytes);
}

static void
note_outcome(ImportBatch *batch, ImportItem *item, const char *outcome, const char *reason)
{
	ImportCounts *counts = &batch->counts;
	const char *name = item_name(&batch->arena, item);

	item->stored = true;
	if (strcmp(outcome, "imported") == 0)
		counts->imported++;
	else if (strcmp(outcome, "updated") == 0)
		counts->updated++;
	else if (strcmp(outcome, "unchanged") == 0)
		counts->unchanged++;
	else
		item->stored = false;
	if (strcmp(outcome, "kept") == 0)
	{
		counts->kept++;
		if (batch->kept_told++ < KEPT_TOLD)
			progress_tell(&batch->progress, "%s is left as it is: %s", name, reason);
		else if (batch->kept_told == KEPT_TOLD + 1)
			progress_tell(&batch->progress, "further objects that are left as they are are only counted");
	}
	if (strcmp(outcome, "refused") == 0)
	{
		counts->refused++;
		progress_tell(&batch->progress, "%s is refused: %s", name, reason);
	}
}

/* ---------- calls ---------- */

static JsonText
hash_of(Arena *arena, const ImportItem *item)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char hash[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	char	   *text = arena_alloc(arena, HASH_BYTES * 2);

	if (context == NULL || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1 ||
		EVP_DigestUpdate(context, item->metadata.bytes, item->metadata.len) != 1 ||
		EVP_DigestUpdate(context, item->body.bytes, item->body.len) != 1 ||
		EVP_DigestFinal_ex(context, hash, NULL) != 1)
		abort();
	EVP_MD_CTX_free(context);
	for (size_t i = 0; i < HASH_BYTES; i++)
	{
		text[i * 2] = digits[hash[i] >> 4];
		text[i * 2 + 1] = digits[hash[i] & 15];
	}
	return (JsonText) {text, HASH_BYTES * 2};
}

/* Reads the stored objects again, and compares them. */
static bool
verify_items(ImportBatch *batch, ImportItem *items, size_t count)
{
	Arena	   *arena = &batch->arena;
	JsonText	namespaces[IMPORT_BATCH_OBJECTS];
	JsonText	names[IMPORT_BATCH_OBJECTS];
	JsonText	hashes[IMPORT_BATCH_OBJECTS];
	ImportItem *stored[IMPORT_BATCH_OBJECTS];
	size_t		stored_count = 0;
	PgParameter parameters[7];
	PgFailure	failure;
	PgRows	   *rows;

	for (size_t i = 0; i < count; i++)
	{
		if (!items[i].stored)
			continue;
		stored[stored_count] = &items[i];
		namespaces[stored_count] = items[i].namespace_name;
		names[stored_count] = items[i].name;
		hashes[stored_count++] = hash_of(arena, &items[i]);
	}
	if (stored_count == 0)
		return true;
	report_store_name(batch->store, batch->kind, parameters);
	parameters[4] = (PgParameter) {.items = namespaces, .count = stored_count};
	parameters[5] = (PgParameter) {.items = names, .count = stored_count};
	parameters[6] = (PgParameter) {.items = hashes, .count = stored_count};
	rows = pg_session_query(batch->store->session, arena,
							"SELECT v.position, v.stored, v.metadata, v.body FROM "
							"kube_reports_internal.api_import_verify("
							REPORT_STORE_TYPE ", $5, $6, $7) v", parameters, 7, &failure);
	if (rows == NULL)
	{
		progress_tell(&batch->progress, "copies cannot be read again: %s", failure.message);
		return false;
	}
	batch->counts.verified += stored_count - (size_t) pg_rows_count(rows);
	for (int row = 0; row < pg_rows_count(rows); row++)
	{
		const ImportItem *item = stored[pg_rows_place(rows, row, 0, stored_count)];
		const char *where = NULL;

		batch->counts.altered++;
		if (batch->counts.altered > ALTERED_TOLD)
			continue;
		if (strcmp(pg_rows_value(rows, row, 1), "t") == 0)
		{
			where = text_difference(arena, "metadata", item->metadata, pg_rows_value(rows, row, 2));
			if (where == NULL)
				where = text_difference(arena, "", item->body, pg_rows_value(rows, row, 3));
			progress_tell(&batch->progress, "%s is stored, but differs in %s", item_name(arena, item),
						  where == NULL ? "its wording" : where);
		}
		else
			progress_tell(&batch->progress, "%s was stored, but does not exist any more", item_name(arena, item));
	}
	pg_rows_free(rows);
	return true;
}

/* Sends objects in one call.  If it fails, one object may be the cause: then each object is sent alone. */
static bool
send_items(ImportBatch *batch, ImportItem *items, size_t count)
{
	Arena	   *arena = &batch->arena;
	JsonText	versions[IMPORT_BATCH_OBJECTS];
	JsonText	metadatas[IMPORT_BATCH_OBJECTS];
	JsonText	bodies[IMPORT_BATCH_OBJECTS];
	PgParameter parameters[9];
	PgFailure	failure;
	PgRows	   *rows;

	for (size_t i = 0; i < count; i++)
	{
		versions[i] = items[i].source_version;
		metadatas[i] = items[i].metadata;
		bodies[i] = items[i].body;
	}
	report_store_name(batch->store, batch->kind, parameters);
	parameters[4] = (PgParameter) {.items = versions, .count = count};
	parameters[5] = (PgParameter) {.items = metadatas, .count = count};
	parameters[6] = (PgParameter) {.items = bodies, .count = count};
	parameters[7] = (PgParameter) {.text = batch->overwrite ? "true" : "false"};
	parameters[8] = (PgParameter) {.text = batch->source};
	rows = pg_session_query(batch->store->session, arena,
							"SELECT i.position, i.outcome, i.reason FROM kube_reports_internal.api_import("
							REPORT_STORE_TYPE ", $5, $6, $7, $8::boolean, source => $9) i", parameters, 9, &failure);
	if (rows == NULL && count > 1 && failure.sqlstate[0] != '\0')
	{
		for (size_t i = 0; i < count; i++)
		{
			if (!send_items(batch, &items[i], 1))
				return false;
		}
		return true;
	}
	/* After errors about privileges, space and connections, no other object could be stored either. */
	if (rows == NULL && (failure.sqlstate[0] == '\0' || strncmp(failure.sqlstate, "42", 2) == 0 ||
						 strncmp(failure.sqlstate, "53", 2) == 0 || strncmp(failure.sqlstate, "55", 2) == 0 ||
						 strncmp(failure.sqlstate, "57", 2) == 0 || strncmp(failure.sqlstate, "25", 2) == 0))
	{
		progress_tell(&batch->progress, "the database accepts no writes: %s", failure.message);
		return false;
	}
	if (rows == NULL)
	{
		note_outcome(batch, &items[0], "refused", failure.message);
		batch->unnoted++;
		return true;
	}
	for (int row = 0; row < pg_rows_count(rows); row++)
		note_outcome(batch, &items[pg_rows_place(rows, row, 0, count)], pg_rows_value(rows, row, 1),
					 pg_rows_value(rows, row, 2));
	pg_rows_free(rows);
	return verify_items(batch, items, count);
}

bool
import_batch_flush(ImportBatch *batch)
{
	bool		sent = batch->count == 0 || send_items(batch, batch->items, batch->count);

	batch->count = 0;
	batch->bytes = 0;
	arena_free(&batch->arena);
	arena_init(&batch->arena);
	progress_step(&batch->progress, batch->counts.read);
	return sent;
}

/* ---------- objects ---------- */

void
import_batch_refuse(ImportBatch *batch, const char *namespace_name, const char *name, const char *reason)
{
	ImportItem	item = {.namespace_name = {namespace_name, strlen(namespace_name)}, .name = {name, strlen(name)}};

	batch->counts.read++;
	batch->unnoted++;
	note_outcome(batch, &item, "refused", reason);
}

static JsonText
copied(Arena *arena, const JsonNode *string)
{
	if (string == NULL || string->kind != JSON_KIND_STRING)
		return (JsonText) {"", 0};
	return (JsonText) {arena_strndup(arena, string->u.string.bytes, string->u.string.len), string->u.string.len};
}

bool
import_batch_add(ImportBatch *batch, Arena *arena, JsonNode *document)
{
	ImportItem *item = &batch->items[batch->count];
	JsonNode   *metadata = json_get(document, "metadata");

	batch->counts.read++;
	if (metadata == NULL || metadata->kind != JSON_KIND_OBJECT)
		metadata = json_new_object(arena);
	item->source_version = copied(&batch->arena, json_get(metadata, "resourceVersion"));
	json_remove(metadata, "resourceVersion");
	json_remove(metadata, "selfLink");

	/*
	 * Every stored object has a generation.  Objects from before Kubernetes 1.11, and some of a reports-server, lack
	 * it.
	 */
	if (json_get(metadata, "generation") == NULL)
		json_set(arena, metadata, "generation", json_new_integer(arena, 1));
	item->namespace_name = copied(&batch->arena, json_get(metadata, "namespace"));
	item->name = copied(&batch->arena, json_get(metadata, "name"));
	item->metadata = json_text_of(&batch->arena, metadata);
	json_remove(document, "apiVersion");
	json_remove(document, "kind");
	json_remove(document, "metadata");
	item->body = json_text_of(&batch->arena, document);
	batch->bytes += item->metadata.len + item->body.len;
	if (++batch->count < IMPORT_BATCH_OBJECTS && batch->bytes < IMPORT_BATCH_BYTES)
		return true;
	return import_batch_flush(batch);
}
