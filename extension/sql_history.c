/*-------------------------------------------------------------------------
 *
 * sql_history.c
 *	  SQL functions for rows of history.
 *
 * A row of report_change has arrays with an element for each result that
 * changed.  If all elements would be equal, the array has one element; if all
 * would be null, the array is null.  unpacked_changes() turns such a row into
 * one row for each result.  It reads all arrays at once: with a call of a
 * function such as unnest() for each array, history would take several times
 * as long to read.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(sql_packed);
PG_FUNCTION_INFO_V1(sql_unpacked_changes);

/* Columns of unpacked_changes(), as types/functions_c.sql declares them; its arguments are arrays in the same order. */
typedef enum ChangeColumn
{
	COLUMN_KEY,
	COLUMN_CRITERION,
	COLUMN_SUBJECT,
	COLUMN_OLD_STATUS,
	COLUMN_NEW_STATUS,
	COLUMN_GONE_WITH,
	COLUMN_FIRST_SEEN,
	COLUMN_OLD_SINCE,
	COLUMN_COUNT
} ChangeColumn;

/* An array that is read from its first element to its last. */
typedef struct ArrayReader
{
	const char *next;
	const bits8 *present;		/* NULL: no element is null */
	int			count;
	int			width;			/* bytes of an element */
} ArrayReader;

static void
reader_init(ArrayReader *reader, ArrayType *array)
{
	Oid			type = ARR_ELEMTYPE(array);

	if (type != CHAROID && type != INT8OID && type != TIMESTAMPTZOID)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("history has no arrays of this type"),
				 errdetail("Its arrays are of bigint, \"char\" and timestamp with time zone.")));
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("an array of history has one dimension, not %d", ARR_NDIM(array))));
	reader->count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	reader->next = ARR_DATA_PTR(array);
	reader->present = ARR_NULLBITMAP(array);
	reader->width = type == CHAROID ? 1 : (int) sizeof(int64);
}

/* Reads the element at index; false if it is null or does not exist.  The caller reads each index once, in order. */
static bool
reader_next(ArrayReader *reader, int index, Datum *value)
{
	if (index >= reader->count ||
		(reader->present != NULL && (reader->present[index / 8] & (1 << (index % 8))) == 0))
		return false;
	if (reader->width == 1)
		*value = CharGetDatum(*reader->next);
	else
	{
		int64		number;

		memcpy(&number, reader->next, sizeof(number));
		*value = Int64GetDatum(number);
	}
	reader->next += reader->width;
	return true;
}

Datum
sql_packed(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	ArrayReader reader;
	Datum		first;

	reader_init(&reader, array);
	if (reader.count == 0)
		PG_RETURN_ARRAYTYPE_P(array);
	if (ARR_HASNULL(array))
	{
		for (int i = 0; i < reader.count; i++)
		{
			if (reader_next(&reader, i, &first))
				PG_RETURN_ARRAYTYPE_P(array);
		}
		PG_RETURN_NULL();
	}
	/* This comparison of the array with itself, one element further, compares each element with the one before it. */
	if (memcmp(reader.next, reader.next + reader.width, (size_t) reader.width * (reader.count - 1)) != 0)
		PG_RETURN_ARRAYTYPE_P(array);
	reader_next(&reader, 0, &first);
	PG_RETURN_ARRAYTYPE_P(construct_array(&first, 1, ARR_ELEMTYPE(array), reader.width,
										  reader.width == 1 || FLOAT8PASSBYVAL,
										  reader.width == 1 ? TYPALIGN_CHAR : TYPALIGN_DOUBLE));
}

Datum
sql_unpacked_changes(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	ArrayReader readers[COLUMN_COUNT] = {0};
	Datum		values[COLUMN_COUNT] = {0};
	bool		nulls[COLUMN_COUNT];

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (set->setDesc->natts != COLUMN_COUNT || PG_NARGS() != COLUMN_COUNT)
		elog(ERROR, "unpacked_changes is declared with %d columns", set->setDesc->natts);
	for (int i = 0; i < COLUMN_COUNT; i++)
	{
		if (!PG_ARGISNULL(i))
			reader_init(&readers[i], PG_GETARG_ARRAYTYPE_P(i));
	}
	for (int row = 0; row < readers[COLUMN_KEY].count; row++)
	{
		for (int i = 0; i < COLUMN_COUNT; i++)
		{
			/* If an array has a single element, later rows keep the value of the first row. */
			if (row == 0 || readers[i].count > 1)
				nulls[i] = !reader_next(&readers[i], row, &values[i]);
		}
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	return (Datum) 0;
}
