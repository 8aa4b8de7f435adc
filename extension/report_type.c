/*-------------------------------------------------------------------------
 *
 * report_type.c
 *	  Type report: one JSON object as text.
 *
 * A report is stored and sent exactly as a text; the input function only
 * checks the text.  Output copies the text, while output of jsonb prints a
 * tree. Therefore lists and watches are built from this type.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "access/detoast.h"
#include "access/toast_internals.h"
#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "port/pg_bswap.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

PG_FUNCTION_INFO_V1(report_in);
PG_FUNCTION_INFO_V1(report_out);
PG_FUNCTION_INFO_V1(report_recv);
PG_FUNCTION_INFO_V1(report_send);
PG_FUNCTION_INFO_V1(report_from_text);
PG_FUNCTION_INFO_V1(report_to_jsonb);
PG_FUNCTION_INFO_V1(report_from_jsonb);
PG_FUNCTION_INFO_V1(string_at);
PG_FUNCTION_INFO_V1(value_at);
PG_FUNCTION_INFO_V1(document_size);
PG_FUNCTION_INFO_V1(stored_bytes);

/* The first byte of a packed document.  No JSON text begins with it. */
#define PACKED_LZ4 1

/* Raises an error with the position unless the text is one JSON object. */
static void
check_report(const char *bytes, size_t len)
{
	Arena		arena;
	JsonError	error;
	JsonNode   *node;

	arena_init_for(&arena, len);
	node = json_parse(&arena, bytes, len, NULL, NULL, &error);
	if (node == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s", "report"),
				 errdetail("%s, at byte %zu.", error.message, error.offset + 1)));
	if (node->kind != JSON_KIND_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s", "report"),
				 errdetail("A report is a JSON object, not %s, at byte 1.", json_kind_name(node->kind))));
	arena_free(&arena);
}

Datum
report_in(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	char	   *input = PG_GETARG_CSTRING(0);
	size_t		len;

	/* If the input function is not STRICT, a null arrives as a null pointer. */
	if (input == NULL)
		PG_RETURN_NULL();
	len = strlen(input);
	check_report(input, len);
	PG_RETURN_TEXT_P(text_value(input, len));
}

Datum
report_out(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	PG_RETURN_CSTRING(TextDatumGetCString(PG_GETARG_DATUM(0)));
}

Datum
report_recv(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	StringInfo	message = (StringInfo) PG_GETARG_POINTER(0);
	int			len;
	char	   *input;

	if (message == NULL)
		PG_RETURN_NULL();
	input = pq_getmsgtext(message, message->len - message->cursor, &len);
	check_report(input, len);
	PG_RETURN_TEXT_P(text_value(input, len));
}

Datum
report_send(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	/* One copy.  textsend() makes a second one, into a buffer that grows. */
	PG_RETURN_BYTEA_P(PG_GETARG_TEXT_P_COPY(0));
}

Datum
report_from_text(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	JsonText	input = datum_text(PG_GETARG_DATUM(0));

	check_report(input.bytes, input.len);
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

Datum
report_to_jsonb(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(TextDatumGetCString(PG_GETARG_DATUM(0)))));
}

Datum
report_from_jsonb(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Jsonb	   *value = PG_GETARG_JSONB_P(0);
	char	   *printed;

	if (!JB_ROOT_IS_OBJECT(value))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("a report is a JSON object")));
	printed = JsonbToCString(NULL, &value->root, VARSIZE(value));
	PG_RETURN_TEXT_P(cstring_to_text(printed));
}

/* The value at a path of members; NULL if absent. */
static const JsonNode *
node_at(Arena *arena, Datum document, ArrayType *path)
{
	const JsonNode *node = parse_document(arena, datum_text(document));
	Datum	   *keys;
	bool	   *nulls;
	int			count;

	deconstruct_array(path, TEXTOID, -1, false, TYPALIGN_INT, &keys, &nulls, &count);
	for (int i = 0; i < count; i++)
		node = nulls[i] ? NULL : json_get_text(node, datum_text(keys[i]));
	return node;
}

Datum
string_at(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Arena		arena;
	const JsonNode *node;
	text	   *string = NULL;

	arena_init_for(&arena, argument_bytes(fcinfo, 0, 1, -1));
	node = node_at(&arena, PG_GETARG_DATUM(0), PG_GETARG_ARRAYTYPE_P(1));
	if (node != NULL && node->kind == JSON_KIND_STRING)
		string = string_value(&arena, node->u.string);
	arena_free(&arena);
	if (string == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(string);
}

Datum
value_at(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Arena		arena;
	const JsonNode *node;
	text	   *value = NULL;

	arena_init_for(&arena, argument_bytes(fcinfo, 0, 1, -1));
	node = node_at(&arena, PG_GETARG_DATUM(0), PG_GETARG_ARRAYTYPE_P(1));
	if (node != NULL)
	{
		StrBuf		written;

		strbuf_init(&written, &arena);
		json_write(&written, node);
		value = text_value(written.bytes, written.len);
	}
	arena_free(&arena);
	if (value == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(value);
}

Datum
document_size(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	PG_RETURN_INT32((int32) (toast_raw_datum_size(PG_GETARG_DATUM(0)) - VARHDRSZ));
}

/*
 * Returns a document as it is stored, for the proxy.  A document that is compressed with lz4 stays compressed: the
 * server copies and sends about a quarter of the bytes, and the proxy decompresses them.  Its form is: the byte
 * PACKED_LZ4, the length of the text in four bytes in network order, the block of lz4.  Any other document is returned
 * as its text.
 */
Datum
stored_bytes(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	struct varlena *stored = (struct varlena *) PG_GETARG_POINTER(0);
	uint32		length;
	size_t		size;
	bytea	   *result;
	char	   *bytes;

	if (VARATT_IS_EXTERNAL(stored))
		stored = detoast_external_attr(stored);
	if (!VARATT_IS_COMPRESSED(stored) || TOAST_COMPRESS_METHOD(stored) != TOAST_LZ4_COMPRESSION_ID)
		PG_RETURN_POINTER(pg_detoast_datum_packed(stored));
	length = pg_hton32(TOAST_COMPRESS_EXTSIZE(stored));
	size = VARSIZE(stored) - VARHDRSZ_COMPRESSED;
	result = palloc(VARHDRSZ + 1 + sizeof(length) + size);
	SET_VARSIZE(result, VARHDRSZ + 1 + sizeof(length) + size);
	bytes = VARDATA(result);
	bytes[0] = PACKED_LZ4;
	memcpy(bytes + 1, &length, sizeof(length));
	memcpy(bytes + 1 + sizeof(length), (char *) stored + VARHDRSZ_COMPRESSED, size);
	PG_RETURN_BYTEA_P(result);
}
