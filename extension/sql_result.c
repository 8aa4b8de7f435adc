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
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(sql_check_results_mapping);
PG_FUNCTION_INFO_V1(sql_evaluated_at);
PG_FUNCTION_INFO_V1(sql_prepare_results);
PG_FUNCTION_INFO_V1(sql_result_difference);
PG_FUNCTION_INFO_V1(sql_field_hash);

/* Microseconds from 1970 to 2000, where timestamptz begins. */
#define EPOCH_DIFFERENCE (((int64) POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/*
 * A transaction remembers differences up to REMEMBERED_BYTES bytes of documents in all, and up to REMEMBERED_DOCUMENTS
 * bytes of documents in one difference.  It does not remember a difference beyond these limits; a later call computes
 * the difference again.
 */
#define REMEMBERED_BYTES (1024 * 1024)
#define REMEMBERED_DOCUMENTS (64 * 1024)

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
	DifferenceOf of;
	ResultChange *changes;
	size_t		count;
	struct Remembered *next;
} Remembered;

/* The remembered differences of this transaction, in a memory context that ends with the transaction. */
static MemoryContext remembering = NULL;
static Remembered *remembered = NULL;
static size_t remembered_bytes = 0;

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
	for (const Remembered *known = remembered; known != NULL; known = known->next)
	{
		if (known->of.mapping == of->mapping && known->of.cluster == of->cluster &&
			same_text(known->of.body, of->body) && same_text(known->of.metadata, of->metadata) &&
			same_text(known->of.old_body, of->old_body) && same_text(known->of.old_metadata, of->old_metadata))
			return known;
	}
	return NULL;
}

static void
forget(void *argument)
{
	remembering = NULL;
	remembered = NULL;
	remembered_bytes = 0;
}

static JsonText
kept_text(Arena *arena, JsonText text)
{
	if (text.bytes != NULL)
		text.bytes = arena_strndup(arena, text.bytes, text.len);
	return text;
}

/* Computes the difference.  new is NULL, or set to the new document. */
static size_t
difference(Arena *arena, const ResultMapping *mapping, const DifferenceOf *of, ResultChange **changes, JsonNode **new)
{
	JsonNode   *before = whole_document(arena, of->old_metadata, of->old_body);
	JsonNode   *after = whole_document(arena, of->metadata, of->body);
	pg_cryptohash_ctx *context = hash_begin();
	size_t		count = result_difference(arena, mapping, before, after, of->cluster, sha256_number, context, changes);

	pg_cryptohash_free(context);
	if (new != NULL)
		*new = after;
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

/*
 * Returns the time of evaluation, as sql_evaluated_at() does.  Also computes the difference from the same parsed
 * document, and remembers the difference for sql_result_difference().  A writer calls this function before it locks its
 * lane.
 */
Datum
sql_prepare_results(PG_FUNCTION_ARGS)
{
	const ResultMapping *mapping;
	DifferenceOf of;
	Remembered *new;
	Arena		arena;
	JsonNode   *document;
	MemoryContext caller;
	size_t		bytes;
	int64_t		time;
	bool		found;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(6))
		PG_RETURN_NULL();
	require_arguments(fcinfo, 2, 2);
	mapping = mapping_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	bytes = argument_bytes(fcinfo, 3, 4, 5, 6, -1);
	if (bytes > REMEMBERED_DOCUMENTS || remembered_bytes + bytes > REMEMBERED_BYTES)
	{
		arena_init_for(&arena, bytes);
		document = whole_document(&arena, text_argument(fcinfo, 5), text_argument(fcinfo, 6));
		found = result_time(&arena, mapping, document, &time);
		arena_free(&arena);
	}
	else
	{
		of = difference_arguments(fcinfo);
		if (remembering == NULL)
		{
			MemoryContextCallback *callback;

			remembering = AllocSetContextCreate(TopTransactionContext, "differences", ALLOCSET_DEFAULT_SIZES);
			callback = MemoryContextAlloc(remembering, sizeof(*callback));
			callback->func = forget;
			callback->arg = NULL;
			MemoryContextRegisterResetCallback(remembering, callback);
		}
		/* The arena holds the changes; it is freed with the memory context. */
		remembered_bytes += bytes;
		caller = MemoryContextSwitchTo(remembering);
		arena_init_for(&arena, 2 * bytes);
		new = arena_alloc0(&arena, sizeof(*new));
		new->of = of;
		new->of.old_metadata = kept_text(&arena, of.old_metadata);
		new->of.old_body = kept_text(&arena, of.old_body);
		new->of.metadata = kept_text(&arena, of.metadata);
		new->of.body = kept_text(&arena, of.body);
		new->count = difference(&arena, mapping, &new->of, &new->changes, &document);
		found = result_time(&arena, mapping, document, &time);
		new->next = remembered;
		remembered = new;
		MemoryContextSwitchTo(caller);
	}
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(time - EPOCH_DIFFERENCE);
}

static void
put_change(const ResultChange *change, ReturnSetInfo *set)
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
	tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
}

Datum
sql_result_difference(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	const ResultMapping *mapping;
	const Remembered *known;
	DifferenceOf of;
	Arena		arena;
	ResultChange *changes;
	size_t		count;
	MemoryContext row_context;
	MemoryContext caller;

	InitMaterializedSRF(fcinfo, 0);
	if (set->setDesc->natts != COLUMN_COUNT)
		elog(ERROR, "result_difference is declared with %d columns", set->setDesc->natts);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		return (Datum) 0;
	require_arguments(fcinfo, 2, 2);
	mapping = mapping_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	arena_init_for(&arena, argument_bytes(fcinfo, 3, 4, 5, 6, -1));
	of = difference_arguments(fcinfo);
	known = recall(&of);
	if (known != NULL)
	{
		changes = known->changes;
		count = known->count;
		/* An earlier call for the same difference may have set told. */
		for (size_t i = 0; i < count; i++)
		{
			if (changes[i].new != NULL)
				changes[i].new->entry->told = false;
		}
	}
	else
		count = difference(&arena, mapping, &of, &changes, NULL);
	row_context = AllocSetContextCreate(CurrentMemoryContext, "result_difference", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(row_context);
	for (size_t i = 0; i < count; i++)
	{
		put_change(&changes[i], set);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(row_context);
	arena_free(&arena);
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
