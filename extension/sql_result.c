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
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(sql_check_results_mapping);
PG_FUNCTION_INFO_V1(sql_evaluated_at);
PG_FUNCTION_INFO_V1(sql_result_difference);
PG_FUNCTION_INFO_V1(sql_field_hash);

/* Microseconds from 1970 to 2000, where timestamptz begins. */
#define EPOCH_DIFFERENCE (((int64) POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

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
hash_bytes(void *state, const char *bytes, size_t len)
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
	return PointerGetDatum(text_of(text.bytes, text.len));
}

/* Joins metadata and body into the whole document; NULL if there is no body. */
static JsonNode *
whole_document(FunctionCallInfo fcinfo, Arena *arena, int metadata, int body)
{
	JsonNode   *document;

	if (PG_ARGISNULL(body))
		return NULL;
	document = parse_document(arena, datum_text(PG_GETARG_DATUM(body)));
	if (!PG_ARGISNULL(metadata))
		json_set(arena, document, "metadata", parse_document(arena, datum_text(PG_GETARG_DATUM(metadata))));
	return document;
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
	result = text_of_json(&arena, mapping);
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
	document = whole_document(fcinfo, &arena, 2, 3);
	found = result_time(&arena, mapping, document, &time);
	arena_free(&arena);
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
		PUT(COLUMN_EXCEPTIONS, text_array(entry->exceptions, entry->exception_count));
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
	Arena		arena;
	JsonNode   *old;
	JsonNode   *new;
	ResultChange *changes;
	size_t		count;
	pg_cryptohash_ctx *context;
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
	old = whole_document(fcinfo, &arena, 3, 4);
	new = whole_document(fcinfo, &arena, 5, 6);
	context = hash_begin();
	count = result_difference(&arena, mapping, old, new, PG_GETARG_INT32(2), hash_bytes, context, &changes);
	pg_cryptohash_free(context);
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
	result = result_field_hash(&arena, fields, count, hash_bytes, context);
	pg_cryptohash_free(context);
	arena_free(&arena);
	PG_RETURN_INT64(result);
}
