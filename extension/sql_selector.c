/*-------------------------------------------------------------------------
 *
 * sql_selector.c
 *	  SQL functions over labels and selectors.
 *
 * label_terms() fills a stored generated column, which has a GIN index.  If
 * its result for a document changes, the table must be rewritten.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "catalog/pg_type.h"
#include "engine/api/selector.h"
#include "engine/base/json_skip.h"
#include "utils/array.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(label_terms);
PG_FUNCTION_INFO_V1(matches_labels);
PG_FUNCTION_INFO_V1(matches_fields);
PG_FUNCTION_INFO_V1(selector_terms_of);

/* A selector, compiled once per query: the text is the same for every row of a list. */
typedef struct CompiledSelector
{
	char	   *source;
	size_t		source_len;
	Arena		arena;
	Selector   *labels;
	FieldSelector *fields;
} CompiledSelector;

static CompiledSelector *compiled_selector(FunctionCallInfo fcinfo, JsonText source, bool fields);
static bool lookup_term(void *state, JsonText key, JsonText *value);

Datum
label_terms(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Arena		arena;
	JsonNode   *labels;
	JsonText   *terms = NULL;
	size_t		count = 0;
	Datum		result;

	arena_init_for(&arena, argument_bytes(fcinfo, 0, -1));
	labels = json_parse_member(&arena, datum_text(PG_GETARG_DATUM(0)), "labels");
	if (labels != NULL && labels->kind == JSON_KIND_OBJECT)
	{
		terms = arena_alloc(&arena, sizeof(JsonText) * (labels->u.object.count + 1));
		for (size_t i = 0; i < labels->u.object.count; i++)
		{
			JsonMember *label = &labels->u.object.members[i];
			char	   *term;

			/* A text cannot hold a NUL; neither can a valid label. */
			if (label->value->kind != JSON_KIND_STRING || memchr(label->key.bytes, '\0', label->key.len) != NULL ||
				memchr(label->value->u.string.bytes, '\0', label->value->u.string.len) != NULL)
				continue;
			terms[count].len = label->key.len + 1 + label->value->u.string.len;
			terms[count].bytes = term = arena_alloc(&arena, terms[count].len);
			memcpy(term, label->key.bytes, label->key.len);
			term[label->key.len] = '=';
			memcpy(term + label->key.len + 1, label->value->u.string.bytes, label->value->u.string.len);
			count++;
		}
	}
	result = text_array_value(terms, count);
	arena_free(&arena);
	PG_RETURN_DATUM(result);
}

Datum
matches_labels(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	CompiledSelector *selector = compiled_selector(fcinfo, datum_text(PG_GETARG_DATUM(1)), false);

	arena_begin_work(argument_bytes(fcinfo, 0, 1, -1));
	PG_RETURN_BOOL(selector_matches(selector->labels, lookup_term, PG_GETARG_ARRAYTYPE_P(0)));
}

Datum
matches_fields(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	CompiledSelector *selector = compiled_selector(fcinfo, datum_text(PG_GETARG_DATUM(2)), true);

	arena_begin_work(argument_bytes(fcinfo, 0, 1, 2, -1));
	PG_RETURN_BOOL(field_selector_matches(selector->fields, datum_text(PG_GETARG_DATUM(0)),
										  datum_text(PG_GETARG_DATUM(1))));
}

Datum
selector_terms_of(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	CompiledSelector *selector = compiled_selector(fcinfo, datum_text(PG_GETARG_DATUM(0)), false);
	Arena		arena;
	JsonText   *terms;
	size_t		count;
	Datum		result;

	arena_init_for(&arena, argument_bytes(fcinfo, 0, -1));
	count = selector_terms(&arena, selector->labels, &terms);
	result = text_array_value(terms, count);
	arena_free(&arena);
	PG_RETURN_DATUM(result);
}

static CompiledSelector *
compiled_selector(FunctionCallInfo fcinfo, JsonText source, bool fields)
{
	CompiledSelector *compiled = fcinfo->flinfo->fn_extra;
	const char *error = NULL;
	MemoryContext caller;

	if (compiled != NULL && compiled->source_len == source.len &&
		memcmp(compiled->source, source.bytes, source.len) == 0)
		return compiled;

	caller = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	if (compiled != NULL)
		arena_free(&compiled->arena);
	else
		compiled = palloc0(sizeof(CompiledSelector));
	fcinfo->flinfo->fn_extra = NULL;
	arena_init_for(&compiled->arena, source.len);
	compiled->source = arena_strndup(&compiled->arena, source.bytes, source.len);
	compiled->source_len = source.len;
	if (fields)
		compiled->fields = field_selector_parse(&compiled->arena, compiled->source, source.len, &error);
	else
		compiled->labels = selector_parse(&compiled->arena, compiled->source, source.len, &error);
	if (compiled->fields == NULL && compiled->labels == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid %s selector", fields ? "field" : "label"),
				 errdetail("%s.", error)));
	fcinfo->flinfo->fn_extra = compiled;
	MemoryContextSwitchTo(caller);
	return compiled;
}

/* SelectorLookup over an array of key=value; a key has no '=' in it. */
static bool
lookup_term(void *state, JsonText key, JsonText *value)
{
	ArrayType  *terms = state;
	char	   *next = ARR_DATA_PTR(terms);
	int			count = ArrayGetNItems(ARR_NDIM(terms), ARR_DIMS(terms));

	if (ARR_HASNULL(terms) || ARR_ELEMTYPE(terms) != TEXTOID)
		return false;
	for (int i = 0; i < count; i++)
	{
		char	   *bytes = VARDATA_ANY(next);
		size_t		len = VARSIZE_ANY_EXHDR(next);

		if (len > key.len && bytes[key.len] == '=' && memcmp(bytes, key.bytes, key.len) == 0)
		{
			value->bytes = bytes + key.len + 1;
			value->len = len - key.len - 1;
			return true;
		}
		next = att_addlength_pointer(next, -1, next);
		next = (char *) att_align_nominal(next, TYPALIGN_INT);
	}
	return false;
}
