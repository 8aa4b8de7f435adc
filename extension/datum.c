/*-------------------------------------------------------------------------
 *
 * datum.c
 *	  Arguments and results of SQL functions for the document engine.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/regproc.h"
#include "utils/uuid.h"

JsonText
datum_text(Datum datum)
{
	text	   *value = DatumGetTextPP(datum);
	JsonText	result = {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};

	return result;
}

text *
text_value(const char *bytes, size_t len)
{
	if (len > MaxAllocSize - VARHDRSZ)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("document of %zu bytes is too large", len)));
	return cstring_to_text_with_len(bytes, (int) len);
}

text *
string_value(Arena *arena, JsonText string)
{
	StrBuf		buf;

	if (string.len == 0 || memchr(string.bytes, '\0', string.len) == NULL)
		return text_value(string.bytes, string.len);
	strbuf_init(&buf, arena);
	for (size_t i = 0; i < string.len; i++)
	{
		if (string.bytes[i] == '\0')
			strbuf_puts(&buf, "\xEF\xBF\xBD");
		else
			strbuf_putc(&buf, string.bytes[i]);
	}
	return text_value(buf.bytes, buf.len);
}

text *
text_value_of_json(Arena *arena, const JsonNode *node)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	json_write(&buf, node);
	return text_value(buf.bytes, buf.len);
}

Datum
text_array_value(const JsonText *texts, size_t count)
{
	Datum	   *elements = palloc(sizeof(Datum) * Max(count, 1));

	for (size_t i = 0; i < count; i++)
		elements[i] = PointerGetDatum(text_value(texts[i].bytes, texts[i].len));
	return PointerGetDatum(construct_array(elements, (int) count, TEXTOID, -1, false, TYPALIGN_INT));
}

Datum
uuid_datum(const char *uid)
{
	return DirectFunctionCall1(uuid_in, CStringGetDatum(uid));
}

size_t
argument_bytes(FunctionCallInfo fcinfo,...)
{
	size_t		bytes = 0;
	va_list		numbers;
	int			number;

	va_start(numbers, fcinfo);
	while ((number = va_arg(numbers, int)) >= 0)
		if (!PG_ARGISNULL(number))
			bytes += toast_raw_datum_size(PG_GETARG_DATUM(number)) - VARHDRSZ;
	va_end(numbers);
	return bytes;
}

void
require_arguments(FunctionCallInfo fcinfo, int first, int last)
{
	for (int i = first; i <= last; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("argument %d of %s must not be null", i + 1, format_procedure(fcinfo->flinfo->fn_oid))));
}

void
require_all_arguments(FunctionCallInfo fcinfo)
{
	require_arguments(fcinfo, 0, PG_NARGS() - 1);
}

JsonNode *
parse_document(Arena *arena, JsonText text)
{
	JsonError	error;
	JsonNode   *node = json_parse(arena, text.bytes, text.len, NULL, NULL, &error);

	if (node == NULL || node->kind != JSON_KIND_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("document is not a JSON object"),
				 node != NULL ? errdetail("It is of type %s.", json_kind_name(node->kind))
				 : errdetail("%s at byte %zu.", error.message, error.offset + 1)));
	return node;
}

static JsonNode *
jsonb_scalar(Arena *arena, const JsonbValue * value)
{
	JsonError	error;
	const char *number;

	switch (value->type)
	{
		case jbvString:
			return json_new_string(arena, value->val.string.val, (size_t) value->val.string.len);
		case jbvBool:
			return json_new_bool(arena, value->val.boolean);
		case jbvNumeric:
			number = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
			return json_parse(arena, number, strlen(number), NULL, NULL, &error);
		default:
			return json_new_null(arena);
	}
}

JsonNode *
jsonb_node(Arena *arena, JsonbContainer * container)
{
	JsonbIterator *next = JsonbIteratorInit(container);
	JsonNode   *node = NULL;
	JsonText	key = {"", 0};
	JsonbIteratorToken token;
	JsonbValue	value;

	check_stack_depth();
	while ((token = JsonbIteratorNext(&next, &value, true)) != WJB_DONE)
	{
		JsonNode   *member;

		if (token == WJB_BEGIN_ARRAY)
			node = json_new_array(arena);
		else if (token == WJB_BEGIN_OBJECT)
			node = json_new_object(arena);
		else if (token == WJB_KEY)
			key = (JsonText) {value.val.string.val, (size_t) value.val.string.len};
		if (token != WJB_VALUE && token != WJB_ELEM)
			continue;
		member = value.type == jbvBinary ? jsonb_node(arena, value.val.binary.data) : jsonb_scalar(arena, &value);
		if (token == WJB_VALUE)
			json_set_text(arena, node, key, member);
		else
			json_append(arena, node, member);
	}
	return node;
}

void
read_request(Arena *arena, Datum datum, ApiRequest *request)
{
	if (!request_read(arena, jsonb_node(arena, &DatumGetJsonbP(datum)->root), request))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("request is not an API request"),
				 errdetail("A request is a JSON object with verb, group, version and resource.")));
}

TupleDesc
result_row(FunctionCallInfo fcinfo)
{
	TupleDesc	row = fcinfo->flinfo->fn_extra;

	if (row == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		row = BlessTupleDesc(CreateTupleDescCopy(row));
		fcinfo->flinfo->fn_extra = row;
		MemoryContextSwitchTo(caller);
	}
	return row;
}

void
raise_invalid(Arena *arena, const char *kind, const char *group, const char *name, const FieldErrorList *errors)
{
	StrBuf		status;
	JsonText	text;
	JsonNode   *message;

	strbuf_init(&status, arena);
	status_invalid(&status, kind, group, name, errors);
	text.bytes = status.bytes;
	text.len = status.len;
	message = json_get(parse_document(arena, text), "message");
	ereport(ERROR,
			(errcode(ERRCODE_REPORT_INVALID),
			 errmsg_internal("%.*s", (int) message->u.string.len, message->u.string.bytes)));
	pg_unreachable();
}
