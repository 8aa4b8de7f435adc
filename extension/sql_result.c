/*-------------------------------------------------------------------------
 *
 * sql_result.c
 *	  SQL functions over the results of documents.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "funcapi.h"
#include "lib/ilist.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(sql_check_results_mapping);
PG_FUNCTION_INFO_V1(sql_evaluated_at);
PG_FUNCTION_INFO_V1(sql_result_difference);
PG_FUNCTION_INFO_V1(sql_remember_removal);
PG_FUNCTION_INFO_V1(sql_field_hash);

/* Microseconds from 1970 to 2000, where timestamptz begins. */
#define EPOCH_DIFFERENCE (((int64) POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/*
 * A transaction remembers the newest differences: up to so many bytes of documents and rows.  This is enough for a
 * batch of the API, whose results follow later beyond 1 MiB, and for a piece of a deletecollection.  If an older
 * difference is asked for, it is computed again.
 */
#define REMEMBERED_BYTES (8 * 1024 * 1024)

/* The arguments that determine a difference; mapping is the mapping's id.  A text with bytes NULL is an SQL null. */
typedef struct DifferenceOf
{
	int64		mapping;
	int32		cluster;
	JsonText	old_metadata;
	JsonText	old_body;
	JsonText	metadata;
	JsonText	body;
} DifferenceOf;

typedef struct Remembered
{
	dlist_node	node;
	DifferenceOf of;			/* with texts behind this structure */
	HeapTuple  *rows;			/* of result_difference() */
	size_t		count;
	size_t		bytes;
} Remembered;

/* The remembered differences of this transaction, newest first, in a memory context that ends with the transaction. */
static MemoryContext remembering = NULL;
static dlist_head remembered = DLIST_STATIC_INIT(remembered);
static size_t remembered_bytes = 0;

/* Bytes of the bodies of this transaction whose results may follow later. */
static size_t postponable_bytes = 0;

/* Columns of result_difference(), as types/functions_c.sql declares them. */
typedef enum DifferenceColumn
{
	COLUMN_KEY,
	COLUMN_WANTED,
	COLUMN_OLD_STATUS,
	COLUMN_POSITION,
	COLUMN_CRITERION,
	COLUMN_SOURCE,
	COLUMN_POLICY,
	COLUMN_RULE,
	COLUMN_CATEGORY,
	COLUMN_SEVERITY,
	COLUMN_SUBJECT,
	COLUMN_API_VERSION,
	COLUMN_KIND,
	COLUMN_SUBJECT_NAMESPACE,
	COLUMN_SUBJECT_NAME,
	COLUMN_SUBJECT_UID,
	COLUMN_STATUS,
	COLUMN_NATIVE_STATUS,
	COLUMN_SCORE,
	COLUMN_DETAIL,
	COLUMN_MESSAGE,
	COLUMN_PROPERTIES,
	COLUMN_EXCEPTIONS,
	COLUMN_EVALUATED_AT,
	COLUMN_COUNT
} DifferenceColumn;

static const Oid column_types[COLUMN_COUNT] = {
	INT8OID, BOOLOID, CHAROID, INT4OID, INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT8OID, TEXTOID,
	TEXTOID, TEXTOID, TEXTOID, TEXTOID, CHAROID, TEXTOID, FLOAT8OID, INT8OID, TEXTOID, TEXTOID, TEXTARRAYOID,
	TIMESTAMPTZOID
};

/* The same as a row descriptor, made once. */
static TupleDesc column_layout = NULL;

static int64_t
sha256_number(void *state, const char *bytes, size_t len)
{
	pg_cryptohash_ctx *context = state;
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	uint64		number = 0;

	if (pg_cryptohash_init(context) < 0 ||
		pg_cryptohash_update(context, (const uint8 *) bytes, len) < 0 ||
		pg_cryptohash_final(context, digest, sizeof(digest)) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute a SHA-256 hash")));
	for (int i = 0; i < 8; i++)
		number = number << 8 | digest[i];
	return (int64_t) number;
}

static pg_cryptohash_ctx *
hash_begin(void)
{
	pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);

	if (context == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not make a SHA-256 context")));
	return context;
}

static Datum
text_datum(JsonText text)
{
	return PointerGetDatum(text_value(text.bytes, text.len));
}

/* Joins metadata and body into the whole document; NULL if there is no body. */
static JsonNode *
whole_document(Arena *arena, JsonText metadata, JsonText body)
{
	JsonNode   *document;

	if (body.bytes == NULL)
		return NULL;
	document = parse_document(arena, body);
	if (metadata.bytes != NULL)
		json_set(arena, document, "metadata", parse_document(arena, metadata));
	return document;
}

static JsonText
text_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? (JsonText) {NULL, 0} : datum_text(PG_GETARG_DATUM(number));
}

static bool
same_text(JsonText a, JsonText b)
{
	if (a.bytes == NULL || b.bytes == NULL)
		return a.bytes == b.bytes;
	return a.len == b.len && memcmp(a.bytes, b.bytes, a.len) == 0;
}

static const Remembered *
recall(const DifferenceOf *of)
{
	dlist_iter	iter;

	dlist_foreach(iter, &remembered)
	{
		const Remembered *known = dlist_container(Remembered, node, iter.cur);

		if (known->of.mapping == of->mapping && known->of.cluster == of->cluster &&
			same_text(known->of.body, of->body) && same_text(known->of.metadata, of->metadata) &&
			same_text(known->of.old_body, of->old_body) && same_text(known->of.old_metadata, of->old_metadata))
			return known;
	}
	return NULL;
}

static void
forget_all(void *argument)
{
	remembering = NULL;
	dlist_init(&remembered);
	remembered_bytes = 0;
	postponable_bytes = 0;
}

static void
forget_oldest(void)
{
	Remembered *oldest = dlist_tail_element(Remembered, node, &remembered);

	dlist_delete(&oldest->node);
	remembered_bytes -= oldest->bytes;
	for (size_t i = 0; i < oldest->count; i++)
		heap_freetuple(oldest->rows[i]);
	if (oldest->rows != NULL)
		pfree(oldest->rows);
	pfree(oldest);
}

static void
begin_remembering(void)
{
	MemoryContextCallback *callback;

	if (remembering != NULL)
		return;
	remembering = AllocSetContextCreate(TopTransactionContext, "differences", ALLOCSET_DEFAULT_SIZES);
	callback = MemoryContextAlloc(remembering, sizeof(*callback));
	callback->func = forget_all;
	callback->arg = NULL;
	MemoryContextRegisterResetCallback(remembering, callback);
}

/* Copies a text to *to, which it moves behind the copy. */
static JsonText
kept_text(char **to, JsonText text)
{
	if (text.bytes != NULL)
	{
		text.bytes = memcpy(*to, text.bytes, text.len);
		*to += text.len;
	}
	return text;
}

static TupleDesc
row_layout(void)
{
	if (column_layout == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
		TupleDesc	layout = CreateTemplateTupleDesc(COLUMN_COUNT);

		for (int i = 0; i < COLUMN_COUNT; i++)
			TupleDescInitEntry(layout, (AttrNumber) (i + 1), NULL, column_types[i], -1, 0);
		column_layout = layout;
		MemoryContextSwitchTo(caller);
	}
	return column_layout;
}

/* Computes the difference of two lists.  The context of the hash is no memory of the arena: an error must free it. */
static size_t
compare_lists(Arena *arena, ResultList *before, ResultList *after, int32 cluster, ResultChange **changes)
{
	pg_cryptohash_ctx *context = hash_begin();
	size_t		count = 0;

	PG_TRY();
	{
		count = result_compare(arena, before, after, cluster, sha256_number, context, changes);
	}
	PG_FINALLY();
	{
		pg_cryptohash_free(context);
	}
	PG_END_TRY();
	return count;
}

static DifferenceOf
difference_arguments(FunctionCallInfo fcinfo)
{
	DifferenceOf of = {
		.mapping = PG_GETARG_INT64(0), .cluster = PG_GETARG_INT32(2),
		.old_metadata = text_argument(fcinfo, 3), .old_body = text_argument(fcinfo, 4),
		.metadata = text_argument(fcinfo, 5), .body = text_argument(fcinfo, 6)
	};

	return of;
}

Datum
sql_check_results_mapping(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Arena		arena;
	FieldErrorList errors;
	JsonNode   *mapping;
	JsonText	type = datum_text(PG_GETARG_DATUM(1));
	text	   *result;

	arena_init_for(&arena, argument_bytes(fcinfo, 0, 1, -1));
	field_errors_init(&errors, &arena);
	mapping = parse_document(&arena, datum_text(PG_GETARG_DATUM(0)));
	if (result_mapping_compile(&arena, mapping, &errors) == NULL)
		raise_invalid(&arena, "ResultsMapping", "", arena_strndup(&arena, type.bytes, type.len), &errors);
	result = text_value_of_json(&arena, mapping);
	arena_free(&arena);
	PG_RETURN_TEXT_P(result);
}

Datum
sql_evaluated_at(PG_FUNCTION_ARGS)
{
	const ResultMapping *mapping;
	Arena		arena;
	JsonNode   *document;
	int64_t		time;
	bool		found;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(3))
		PG_RETURN_NULL();
	mapping = mapping_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	arena_init_for(&arena, argument_bytes(fcinfo, 2, 3, -1));
	document = whole_document(&arena, text_argument(fcinfo, 2), text_argument(fcinfo, 3));
	found = result_time(&arena, mapping, document, &time);
	arena_free(&arena);
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(time - EPOCH_DIFFERENCE);
}

/* Forms the row of a change, in the current memory context. */
static HeapTuple
form_row(const ResultChange *change)
{
	/* A removed result is described by its old values. */
	const ReportResult *result = change->new != NULL ? change->new : change->old;
	ResultEntry *entry = result->entry;
	bool		wanted = change->new != NULL;
	Datum		values[COLUMN_COUNT] = {0};
	bool		nulls[COLUMN_COUNT];

	memset(nulls, true, sizeof(nulls));
#define PUT(column, datum) (values[column] = (datum), nulls[column] = false)
	PUT(COLUMN_KEY, Int64GetDatum(result->key));
	PUT(COLUMN_WANTED, BoolGetDatum(wanted));
	if (change->old != NULL)
		PUT(COLUMN_OLD_STATUS, CharGetDatum((char) change->old->entry->status));
	PUT(COLUMN_POSITION, Int32GetDatum((int32) entry->position));
	PUT(COLUMN_CRITERION, Int64GetDatum(entry->criterion));
	PUT(COLUMN_SUBJECT, Int64GetDatum(result->subject->id));
	PUT(COLUMN_API_VERSION, text_datum(result->subject->api_version));
	PUT(COLUMN_KIND, text_datum(result->subject->kind));
	PUT(COLUMN_SUBJECT_NAMESPACE, text_datum(result->subject->namespace_name));
	PUT(COLUMN_SUBJECT_NAME, text_datum(result->subject->name));
	PUT(COLUMN_SUBJECT_UID, text_datum(result->subject->uid));
	PUT(COLUMN_STATUS, CharGetDatum((char) entry->status));
	PUT(COLUMN_NATIVE_STATUS, text_datum(entry->native_status));
	PUT(COLUMN_SCORE, Float8GetDatum(entry->score));
	PUT(COLUMN_DETAIL, Int64GetDatum(entry->detail));
	/* Results of several subjects can share an entry; only the first row carries the texts of the entry. */
	if (wanted && !entry->told)
	{
		PUT(COLUMN_SOURCE, text_datum(entry->source));
		PUT(COLUMN_POLICY, text_datum(entry->policy));
		PUT(COLUMN_RULE, text_datum(entry->rule));
		PUT(COLUMN_CATEGORY, text_datum(entry->category));
		PUT(COLUMN_SEVERITY, text_datum(entry->severity));
		PUT(COLUMN_MESSAGE, text_datum(entry->message));
		PUT(COLUMN_PROPERTIES, text_datum(entry->properties));
		PUT(COLUMN_EXCEPTIONS, text_array_value(entry->exceptions, entry->exception_count));
		entry->told = true;
	}
	if (entry->has_time)
		PUT(COLUMN_EVALUATED_AT, TimestampTzGetDatum(entry->time - EPOCH_DIFFERENCE));
#undef PUT
	return heap_form_tuple(row_layout(), values, nulls);
}

/* Remembers the changes for sql_result_difference(). */
static void
remember(const DifferenceOf *of, const ResultChange *changes, size_t count)
{
	size_t		texts = of->old_metadata.len + of->old_body.len + of->metadata.len + of->body.len;
	Remembered *new = MemoryContextAllocHuge(remembering, sizeof(Remembered) + texts);
	char	   *to = (char *) (new + 1);
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "row of results", ALLOCSET_SMALL_SIZES);

	new->of = *of;
	new->of.old_metadata = kept_text(&to, of->old_metadata);
	new->of.old_body = kept_text(&to, of->old_body);
	new->of.metadata = kept_text(&to, of->metadata);
	new->of.body = kept_text(&to, of->body);
	new->bytes = sizeof(Remembered) + texts;
	new->rows = count > 0 ? MemoryContextAllocHuge(remembering, sizeof(HeapTuple) * count) : NULL;
	new->count = count;
	for (size_t i = 0; i < count; i++)
	{
		HeapTuple	row;

		MemoryContextSwitchTo(row_context);
		row = form_row(&changes[i]);
		MemoryContextSwitchTo(remembering);
		new->rows[i] = heap_copytuple(row);
		new->bytes += sizeof(HeapTuple) + HEAPTUPLESIZE + row->t_len;
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(MemoryContextGetParent(row_context));
	MemoryContextDelete(row_context);
	dlist_push_head(&remembered, &new->node);
	remembered_bytes += new->bytes;
	while (remembered_bytes > REMEMBERED_BYTES && dlist_has_next(&remembered, dlist_head_node(&remembered)))
		forget_oldest();
}

void
results_begin(WriteResults *results, FunctionCallInfo fcinfo, int first)
{
	memset(results, 0, sizeof(*results));
	if (PG_ARGISNULL(first) || PG_ARGISNULL(first + 1))
		return;
	require_arguments(fcinfo, first + 2, first + 2);
	results->mapping_id = PG_GETARG_INT64(first);
	results->mapping = mapping_lookup(results->mapping_id, PG_GETARG_DATUM(first + 1));
	results->cluster = PG_GETARG_INT32(first + 2);
	results->costly = SIZE_MAX;
}

/* Reads the results of a document from its parts; body has metadata only for the call. */
static void
read_list(WriteResults *results, JsonNode *metadata, JsonNode *body, ResultList *list)
{
	json_set(&results->arena, body, "metadata", metadata);
	result_extract(&results->arena, results->mapping, body, 0, NULL, NULL, list);
	json_remove(body, "metadata");
}

/* The same for the time alone. */
static bool
read_time(WriteResults *results, JsonNode *metadata, JsonNode *body, int64_t *time)
{
	bool		found;

	json_set(&results->arena, body, "metadata", metadata);
	found = result_time(&results->arena, results->mapping, body, time);
	json_remove(body, "metadata");
	return found;
}

void
results_read_stored(WriteResults *results, Arena *arena, StoredObject *stored)
{
	JsonError	error;
	JsonNode   *metadata;
	JsonNode   *body;

	results->old_metadata = stored->metadata;
	results->old_body = stored->body;
	if (stored->body.len > results->costly)
		return;
	metadata = json_parse(arena, stored->metadata.bytes, stored->metadata.len, NULL, NULL, &error);
	body = json_parse(arena, stored->body.bytes, stored->body.len, NULL, NULL, &error);
	/* write_decide() refuses to write to such an object. */
	if (metadata == NULL || body == NULL || metadata->kind != JSON_KIND_OBJECT || body->kind != JSON_KIND_OBJECT)
		return;
	read_list(results, metadata, body, &results->before);
	stored->parsed_metadata = metadata;
	stored->parsed_body = body;
}

bool
results_decide(WriteResults *results, JsonNode *metadata, JsonNode *body, JsonText metadata_text, JsonText body_text,
			   int64 *time)
{
	DifferenceOf of = {
		.mapping = results->mapping_id, .cluster = results->cluster, .old_metadata = results->old_metadata,
		.old_body = results->old_body, .metadata = metadata_text, .body = body_text
	};
	ResultList	after = {0};
	ResultChange *changes;
	size_t		count;

	if (body != NULL)
	{
		json_settle(&results->arena, metadata);
		json_settle(&results->arena, body);
	}
	begin_remembering();
	if (results->costly != SIZE_MAX)
	{
		size_t		bytes = of.old_body.len + of.body.len;

		/* The same condition as in record_results(). */
		postponable_bytes += bytes;
		if (bytes > results->costly || postponable_bytes > 4 * results->costly)
		{
			int64_t		when;

			if (body == NULL || !read_time(results, metadata, body, &when))
				return false;
			*time = when - EPOCH_DIFFERENCE;
			return true;
		}
	}
	if (body != NULL)
		read_list(results, metadata, body, &after);
	count = compare_lists(&results->arena, &results->before, &after, results->cluster, &changes);
	remember(&of, changes, count);
	*time = after.time - EPOCH_DIFFERENCE;
	return after.has_time;
}

/* Remembers the results of an object that is deleted without a decision of the engine. */
Datum
sql_remember_removal(PG_FUNCTION_ARGS)
{
	WriteResults results;
	StoredObject stored = {0};
	Arena		arena;
	JsonText	none = {NULL, 0};
	int64		time;

	results_begin(&results, fcinfo, 0);
	if (results.mapping == NULL || PG_ARGISNULL(3) || PG_ARGISNULL(4))
		PG_RETURN_VOID();
	stored.metadata = datum_text(PG_GETARG_DATUM(3));
	stored.body = datum_text(PG_GETARG_DATUM(4));
	arena_init_for(&arena, stored.metadata.len + stored.body.len);
	arena_init_for(&results.arena, stored.metadata.len + stored.body.len);
	results_read_stored(&results, &arena, &stored);
	results_decide(&results, NULL, NULL, none, none, &time);
	arena_free(&results.arena);
	arena_free(&arena);
	PG_RETURN_VOID();
}

/* Whether rows of row_layout() are rows of the declared type. */
static bool
fits_layout(TupleDesc declared)
{
	if (declared->natts != COLUMN_COUNT)
		return false;
	for (int i = 0; i < COLUMN_COUNT; i++)
		if (TupleDescAttr(declared, i)->atttypid != column_types[i])
			return false;
	return true;
}

/* Computes the rows of a difference and puts them into the result. */
static void
put_difference(FunctionCallInfo fcinfo, const ResultMapping *mapping, const DifferenceOf *of, Tuplestorestate * rows)
{
	ResultList	before = {0};
	ResultList	after = {0};
	Arena		arena;
	JsonNode   *document;
	ResultChange *changes;
	size_t		count;
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "row of results", ALLOCSET_SMALL_SIZES);
	MemoryContext caller;

	arena_init_for(&arena, argument_bytes(fcinfo, 3, 4, 5, 6, -1));
	if ((document = whole_document(&arena, of->old_metadata, of->old_body)) != NULL)
		result_extract(&arena, mapping, document, 0, NULL, NULL, &before);
	if ((document = whole_document(&arena, of->metadata, of->body)) != NULL)
		result_extract(&arena, mapping, document, 0, NULL, NULL, &after);
	count = compare_lists(&arena, &before, &after, of->cluster, &changes);
	caller = MemoryContextSwitchTo(row_context);
	for (size_t i = 0; i < count; i++)
	{
		tuplestore_puttuple(rows, form_row(&changes[i]));
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(row_context);
	arena_free(&arena);
}

Datum
sql_result_difference(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	const ResultMapping *mapping;
	const Remembered *known;
	DifferenceOf of;

	InitMaterializedSRF(fcinfo, 0);
	if (!fits_layout(set->setDesc))
		elog(ERROR, "result_difference is declared with other columns");
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		return (Datum) 0;
	require_arguments(fcinfo, 2, 2);
	mapping = mapping_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	of = difference_arguments(fcinfo);
	known = recall(&of);
	if (known == NULL)
	{
		/* A write through the API sees no such message: regress/sql/revise.sql. */
		elog(DEBUG1, "computing results from %zu bytes of documents", argument_bytes(fcinfo, 3, 4, 5, 6, -1));
		put_difference(fcinfo, mapping, &of, set->setResult);
		return (Datum) 0;
	}
	for (size_t i = 0; i < known->count; i++)
		tuplestore_puttuple(set->setResult, known->rows[i]);
	return (Datum) 0;
}

Datum
sql_field_hash(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Datum	   *elements;
	bool	   *nulls;
	int			count;
	JsonText   *fields;
	Arena		arena;
	pg_cryptohash_ctx *context;
	int64		result;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
	arena_init_for(&arena, argument_bytes(fcinfo, 0, -1));
	fields = arena_alloc(&arena, sizeof(JsonText) * (count + 1));
	for (int i = 0; i < count; i++)
		fields[i] = nulls[i] ? (JsonText) {"", 0} : datum_text(elements[i]);
	context = hash_begin();
	result = result_field_hash(&arena, fields, count, sha256_number, context);
	pg_cryptohash_free(context);
	arena_free(&arena);
	PG_RETURN_INT64(result);
}
