/*-------------------------------------------------------------------------
 *
 * sql_aggregation.c
 *	  SQL functions for aggregation: the single results of reports in the
 *	  policy working group's format, their summary, their owner, and the rules
 *	  of policies.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "funcapi.h"
#include "engine/results/kyverno_policy.h"
#include "miscadmin.h"
#include "engine/results/summary.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(sql_policy_rules);
PG_FUNCTION_INFO_V1(sql_first_owner);
PG_FUNCTION_INFO_V1(sql_count_summary);
PG_FUNCTION_INFO_V1(sql_list_results);

/* Columns of list_results(), as types/functions_c.sql declares them. */
typedef enum ListColumn
{
	COLUMN_POSITION,
	COLUMN_SOURCE,
	COLUMN_POLICY,
	COLUMN_RULE,
	COLUMN_STATUS,
	COLUMN_SECONDS,
	COLUMN_CONTENT,
	COLUMN_COUNT
} ListColumn;

Datum
sql_count_summary(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Arena		arena;
	const JsonNode *place;
	const JsonNode *found;
	TupleDesc	row = result_row(fcinfo);
	HeapTuple	tuple;
	Datum		values[2] = {0};
	bool		nulls[2] = {false};

	arena_init_for(&arena, argument_bytes(fcinfo, 0, -1));
	place = summary_place(parse_document(&arena, datum_text(PG_GETARG_DATUM(0))));
	found = json_get(place, "summary");
	values[0] = PointerGetDatum(text_value_of_json(&arena, summary_count(&arena, json_get(place, "results"))));
	nulls[1] = found == NULL || found->kind != JSON_KIND_OBJECT;
	if (!nulls[1])
		values[1] = PointerGetDatum(text_value_of_json(&arena, found));
	tuple = heap_form_tuple(row, values, nulls);
	arena_free(&arena);
	PG_RETURN_DATUM(HeapTupleGetDatum(tuple));
}

/* The text of a string member; an empty text if the member is absent or not a string. */
static Datum
member_datum(Arena *arena, const JsonNode *result, const char *key)
{
	const JsonNode *node = json_get(result, key);

	return PointerGetDatum(node != NULL && node->kind == JSON_KIND_STRING ? string_value(arena, node->u.string) :
						   text_value("", 0));
}

Datum
sql_policy_rules(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Arena		arena;
	const JsonNode *rules;
	JsonText   *names;
	Datum		result;

	arena_init_for(&arena, argument_bytes(fcinfo, 0, -1));
	rules = kyverno_policy_rules(&arena, parse_document(&arena, datum_text(PG_GETARG_DATUM(0))));
	names = arena_alloc(&arena, sizeof(JsonText) * (rules->u.array.count + 1));
	for (size_t i = 0; i < rules->u.array.count; i++)
		names[i] = rules->u.array.items[i]->u.string;
	result = text_array_value(names, rules->u.array.count);
	arena_free(&arena);
	PG_RETURN_DATUM(result);
}

Datum
sql_first_owner(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	static const char *const keys[] = {"apiVersion", "kind", "name", "uid"};
	Arena		arena;
	const JsonNode *owners;
	JsonNode   *owner;
	TupleDesc	row = result_row(fcinfo);
	HeapTuple	tuple;
	Datum		values[3];
	bool		nulls[3] = {false};

	arena_init_for(&arena, argument_bytes(fcinfo, 0, -1));
	owners = json_get(parse_document(&arena, datum_text(PG_GETARG_DATUM(0))), "ownerReferences");
	if (owners == NULL || owners->kind != JSON_KIND_ARRAY || owners->u.array.count == 0)
	{
		arena_free(&arena);
		PG_RETURN_NULL();
	}
	owner = json_new_object(&arena);
	for (size_t i = 0; i < lengthof(keys); i++)
	{
		JsonNode   *value = json_get(owners->u.array.items[0], keys[i]);

		json_set(&arena, owner, keys[i], value != NULL ? value : json_new_cstring(&arena, ""));
	}
	values[0] = Int32GetDatum((int32) owners->u.array.count);
	values[1] = member_datum(&arena, owner, "uid");
	values[2] = PointerGetDatum(text_value_of_json(&arena, owner));
	tuple = heap_form_tuple(row, values, nulls);
	arena_free(&arena);
	PG_RETURN_DATUM(HeapTupleGetDatum(tuple));
}

Datum
sql_list_results(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	Arena		arena;
	const JsonNode *results;
	JsonNode   *resources = NULL;

	InitMaterializedSRF(fcinfo, 0);
	if (set->setDesc->natts != COLUMN_COUNT)
		elog(ERROR, "list_results is declared with %d columns", set->setDesc->natts);
	if (PG_ARGISNULL(0))
		return (Datum) 0;
	arena_init_for(&arena, argument_bytes(fcinfo, 0, 1, -1));
	results = json_get(summary_place(parse_document(&arena, datum_text(PG_GETARG_DATUM(0)))), "results");
	if (!PG_ARGISNULL(1))
	{
		resources = json_new_array(&arena);
		json_append(&arena, resources, parse_document(&arena, datum_text(PG_GETARG_DATUM(1))));
	}
	for (size_t i = 0; results != NULL && results->kind == JSON_KIND_ARRAY && i < results->u.array.count; i++)
	{
		JsonNode   *result = results->u.array.items[i];
		const JsonNode *seconds = json_path(result, "timestamp", "seconds", NULL);
		Datum		values[COLUMN_COUNT];
		bool		nulls[COLUMN_COUNT] = {false};

		if (result->kind != JSON_KIND_OBJECT)
			continue;
		if (resources != NULL)
			json_set(&arena, result, "resources", resources);
		values[COLUMN_POSITION] = Int32GetDatum((int32) i);
		values[COLUMN_SOURCE] = member_datum(&arena, result, "source");
		values[COLUMN_POLICY] = member_datum(&arena, result, "policy");
		values[COLUMN_RULE] = member_datum(&arena, result, "rule");
		values[COLUMN_STATUS] = member_datum(&arena, result, "result");
		values[COLUMN_SECONDS] = Int64GetDatum(seconds != NULL &&
											   seconds->kind == JSON_KIND_INTEGER ? seconds->u.integer : 0);
		values[COLUMN_CONTENT] = PointerGetDatum(text_value_of_json(&arena, result));
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
		CHECK_FOR_INTERRUPTS();
	}
	arena_free(&arena);
	return (Datum) 0;
}
