/*-------------------------------------------------------------------------
 *
 * sql_history.c
 *	  SQL functions for rows of history.
 *
 * A row of report_change has the ids of all results that changed in one
 * array: their keys, their criteria and their subjects.  If all criteria or
 * all subjects would be equal, a column has the criterion or subject instead.
 * Statuses are letters of a text, and times are arrays; one letter or one
 * element stands for all results, and a null for nulls.  unpacked_changes()
 * turns such a row into one row for each result.  It reads all columns at
 * once: with a call of a function such as unnest() for each of them, history
 * would take several times as long to read.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(sql_common);
PG_FUNCTION_INFO_V1(sql_joined_ids);
PG_FUNCTION_INFO_V1(sql_letters);
PG_FUNCTION_INFO_V1(sql_packed);
PG_FUNCTION_INFO_V1(sql_unpacked_changes);

/* The letter of a null. */
#define NO_LETTER '-'

/* Columns of unpacked_changes(), as types/functions_c.sql declares them; its arguments have the same order. */
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

/* An array, a part of an array, or a text of letters, which is read from its first element to its last. */
typedef struct ArrayReader
{
	const char *next;
	const bits8 *present;		/* NULL: no element is null, except letters */
	int			count;
	int			width;			/* bytes of an element; 1: a letter */
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
	{
		*value = CharGetDatum(*reader->next++);
		return reader->next[-1] != NO_LETTER;
	}
	else
	{
		int64		number;

		memcpy(&number, reader->next, sizeof(number));
		*value = Int64GetDatum(number);
		reader->next += sizeof(number);
		return true;
	}
}

static void
letters_init(ArrayReader *reader, text * letters)
{
	*reader = (ArrayReader) {.next = VARDATA_ANY(letters), .count = VARSIZE_ANY_EXHDR(letters), .width = 1};
}

/* Whether there are elements, and all are equal and not null. */
static bool
all_equal(const ArrayReader *reader)
{
	/* This comparison of the array with itself, one element further, compares each element with the one before it. */
	return reader->count > 0 && reader->present == NULL &&
		memcmp(reader->next, reader->next + reader->width, (size_t) reader->width * (reader->count - 1)) == 0;
}

/* A reader of ids, none of which is null. */
static void
ids_init(ArrayReader *reader, ArrayType *array)
{
	reader_init(reader, array);
	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("ids of history may not be null")));
	reader->present = NULL;
}

Datum
sql_common(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	ArrayReader reader;
	Datum		first;

	reader_init(&reader, PG_GETARG_ARRAYTYPE_P(0));
	if (!all_equal(&reader))
		PG_RETURN_NULL();
	reader_next(&reader, 0, &first);
	return first;
}

Datum
sql_joined_ids(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	ArrayReader parts[3];		/* keys, criteria, subjects */
	int			count = 0;
	Datum	   *ids;
	int			joined = 0;

	for (int i = 0; i < 3; i++)
	{
		ids_init(&parts[i], PG_GETARG_ARRAYTYPE_P(i));
		if (parts[i].count != parts[0].count)
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("the results of a change have %d keys, but %d criteria or subjects", parts[0].count,
							parts[i].count)));
		if (i > 0 && all_equal(&parts[i]))
			parts[i].count = 0;
		count += parts[i].count;
	}
	ids = palloc(sizeof(Datum) * count);
	for (int i = 0; i < 3; i++)
	{
		for (int element = 0; reader_next(&parts[i], element, &ids[joined]); element++)
			joined++;
	}
	PG_RETURN_ARRAYTYPE_P(construct_array(ids, count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

Datum
sql_letters(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	ArrayReader reader;
	char	   *letters;
	int			others = 0;
	int			nulls = 0;

	reader_init(&reader, PG_GETARG_ARRAYTYPE_P(0));
	letters = palloc(reader.count + 1);
	for (int i = 0; i < reader.count; i++)
	{
		Datum		letter;

		letters[i] = reader_next(&reader, i, &letter) ? DatumGetChar(letter) : NO_LETTER;
		if (letters[i] <= ' ' || letters[i] > '~')
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("history has no letter with the code %d", (unsigned char) letters[i])));
		nulls += letters[i] == NO_LETTER;
		others += letters[i] != letters[0];
	}
	if (nulls == reader.count)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text_with_len(letters, others == 0 ? 1 : reader.count));
}

Datum
sql_packed(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	ArrayReader reader;
	Datum		first;

	reader_init(&reader, array);
	if (ARR_HASNULL(array))
	{
		for (int i = 0; i < reader.count; i++)
		{
			if (reader_next(&reader, i, &first))
				PG_RETURN_ARRAYTYPE_P(array);
		}
		PG_RETURN_NULL();
	}
	if (!all_equal(&reader))
		PG_RETURN_ARRAYTYPE_P(array);
	reader_next(&reader, 0, &first);
	PG_RETURN_ARRAYTYPE_P(construct_array(&first, 1, TIMESTAMPTZOID, sizeof(int64), FLOAT8PASSBYVAL,
										  TYPALIGN_DOUBLE));
}

Datum
sql_unpacked_changes(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	ArrayReader ids;
	ArrayReader readers[COLUMN_COUNT] = {0};
	int64		common[COLUMN_COUNT];
	Datum		values[COLUMN_COUNT] = {0};
	bool		nulls[COLUMN_COUNT];

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (set->setDesc->natts != COLUMN_COUNT || PG_NARGS() != COLUMN_COUNT)
		elog(ERROR, "unpacked_changes is declared with %d columns", set->setDesc->natts);
	if (PG_ARGISNULL(COLUMN_KEY))
		return (Datum) 0;
	ids_init(&ids, PG_GETARG_ARRAYTYPE_P(COLUMN_KEY));
	ids.count /= 1 + PG_ARGISNULL(COLUMN_CRITERION) + PG_ARGISNULL(COLUMN_SUBJECT);
	for (int i = 0; i < COLUMN_COUNT; i++)
	{
		if (i == COLUMN_KEY || (PG_ARGISNULL(i) && (i == COLUMN_CRITERION || i == COLUMN_SUBJECT)))
		{
			/* The next part of the ids. */
			readers[i] = ids;
			ids.next += (size_t) ids.count * ids.width;
		}
		else if (PG_ARGISNULL(i))
			continue;
		else if (i == COLUMN_CRITERION || i == COLUMN_SUBJECT)
		{
			common[i] = PG_GETARG_INT64(i);
			readers[i] = (ArrayReader) {.next = (const char *) &common[i], .count = 1, .width = sizeof(int64)};
		}
		else if (i == COLUMN_OLD_STATUS || i == COLUMN_NEW_STATUS || i == COLUMN_GONE_WITH)
			letters_init(&readers[i], PG_GETARG_TEXT_PP(i));
		else
			reader_init(&readers[i], PG_GETARG_ARRAYTYPE_P(i));
	}
	for (int row = 0; row < readers[COLUMN_KEY].count; row++)
	{
		for (int i = 0; i < COLUMN_COUNT; i++)
		{
			/* If there is a single element, later rows keep the value of the first row. */
			if (row == 0 || readers[i].count > 1)
				nulls[i] = !reader_next(&readers[i], row, &values[i]);
		}
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	return (Datum) 0;
}
