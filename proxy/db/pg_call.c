/*-------------------------------------------------------------------------
 *
 * pg_call.c
 *	  Calls of the extension's functions: statements, parameters, results.
 *
 * All values are in binary form, except the cluster's uuid, which the server
 * parses.  The lengths in results are checked, because the database may have
 * functions of another version.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_call.h"

#include <arpa/inet.h>
#include <endian.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/config.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "db/pg_settings.h"
#include "db/pg_stall.h"

#define OID_BYTEA 17
#define OID_INT8 20
#define OID_INT4 23
#define OID_TEXT 25

_Static_assert(PG_STATEMENT_COUNT <= METRICS_CALLS, "each statement has a series");

const PgStatementText pg_statements[PG_STATEMENT_COUNT] = {
	/*
	 * Sent alone and not prepared: a pooler of transactions might run further statements in sessions of other clients.
	 */
	[PG_WHO] = {"who", "SELECT pg_catalog.pg_backend_pid()", 1, true, false, true},
	[PG_SETTINGS] = {"settings", PG_SET_ROWS(PG_EXPECTED_SETTINGS "," PG_PROXY_SETTINGS), 1, true, false, true},
	[PG_HELLO] = {"hello",
		"SELECT h.generation, h.store, pg_catalog.current_setting('transaction_read_only')::boolean,"
		" h.oldest_protocol, h.newest_protocol,"
		" kube_reports_internal.script_version(),"
		/* The answer of an earlier version has no column variant. */
		" pg_catalog.to_jsonb(h)->>'variant'"
	" FROM kube_reports_internal.api_hello($1::uuid, $2::text, $3::int4) h", 7, true, false, false},
	[PG_REGISTRY] = {"registry", "SELECT * FROM kube_reports_internal.api_registry($1::uuid)", 15, false, false, false},
	[PG_DOCUMENTS] = {"documents", "SELECT * FROM kube_reports_internal.api_documents($1::uuid)", 4,
	false, false, false},
	[PG_GET] = {"get", "SELECT * FROM kube_reports_internal.api_get($1::uuid, $2::text::jsonb)", 5, true, false, true},
	[PG_LIST] = {"list", "SELECT * FROM kube_reports_internal.api_list($1::uuid, $2::text::jsonb, $3::text)", 10,
	true, false, false},
	[PG_WRITE] = {"write",
		"CALL kube_reports_internal.api_write($1::uuid, $2::text[]::jsonb[], $3::bytea[], $4::int4 = 1, NULL, NULL, "
		"NULL, NULL, NULL, NULL)",
	6, true, true, false},
	[PG_LOAD] = {"load",
		"SELECT * FROM kube_reports_internal.api_load($1::uuid, $2::text, $3::text, $4::text, $5::text[], $6::text[], "
		"$7::int4 = 1)",
	4, false, true, false},
	[PG_COMMIT] = {"commit",
		"CALL kube_reports_internal.api_commit($1::uuid, $2::text, $3::text, $4::text, $5::int4 = 1, $6::int8, "
		"$7::int4 = 1, $8::int8[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], "
		"$15::int8[], $16::text[], $17::text[], $18::text[], $19::text[], NULL, NULL, NULL, NULL, NULL, NULL)",
	6, true, true, false},
	[PG_LOAD_COLLECTION] = {"load_collection",
		"SELECT * FROM kube_reports_internal.api_load_collection($1::uuid, $2::text, $3::text, $4::text, $5::text, "
		"$6::text[], $7::text, $8::text, $9::text, $10::text, $11::int8, $12::int8)",
	7, false, true, false},
	[PG_DELETE_COLLECTION] = {"delete_collection",
		"CALL kube_reports_internal.api_delete_collection($1::uuid, $2::text::jsonb, $3::bytea, $4::text,"
	" NULL, NULL, NULL, NULL, NULL, NULL)", 6, true, true, false},
	[PG_EXPORT] = {"export", "SELECT * FROM kube_reports_internal.api_export($1::uuid, $2::text, $3::text)", 6,
	true, false, false},
	[PG_WATCH] = {"watch", "SELECT * FROM kube_reports_internal.api_watch($1::uuid, $2::text::jsonb)", 16,
	true, false, true},
	[PG_CHANGES] = {"changes",
		"SELECT * FROM kube_reports_internal.api_changes($1::uuid, $2::int4, $3::int8, $4::text[], $5::int4)",
	9, false, false, true},
	[PG_READ_OBJECT] = {"read_object",
		"SELECT * FROM kube_reports_internal.api_read_object($1::uuid, $2::text, $3::text, $4::text, $5::text, "
		"$6::text, "
	"$7::int8)", 8, true, false, true},
	[PG_READ_LIST] = {"read_list",
		"SELECT * FROM kube_reports_internal.api_list($1::uuid, NULL, $19::text, $2::text, $3::text, $4::text, "
		"$5::text, $6::int4 = 1, $7::text, $8::text[], $9::text, $10::text, $11::int8, $12::int8, $13::int8, "
	"$14::int4 = 1, $15::int4 = 1, $16::text, $17::text, $18::int8)", 12, true, false, false},
	[PG_READ_WATCH] = {"read_watch",
		"SELECT * FROM kube_reports_internal.api_read_watch($1::uuid, $2::text, $3::text, $4::text, $5::text, "
		"$6::int8, "
	"$7::int4 = 1)", 8, true, false, true},
	[PG_READ_CHANGES] = {"read_changes",
		"SELECT * FROM kube_reports_internal.api_read_changes($1::uuid, $2::int4, $3::int8, $4::int4 = 1, $5::int4)",
	11, false, false, true},
	[PG_BOOKMARK] = {"bookmark",
	"SELECT kube_reports_internal.api_bookmark($1::uuid, $2::int4, $3::int8, $4::text)", 1, true, false, true},
	[PG_POLL] = {"poll", "SELECT * FROM kube_reports_internal.api_poll($1::uuid, $2::int4[])", 2, true, false, true},
	/* The steps of upkeep.c, which are the only users of the pool for writes in its process. */
	[PG_COUNTS] = {"counts", "SELECT * FROM kube_reports_internal.api_counts($1::uuid)", 3, false, true, false},
	[PG_RESULT_COUNTS] =
	{"result_counts", "SELECT * FROM kube_reports_internal.api_result_counts($1::uuid, $2::int4)", 8,
	false, false, false},
	[PG_WEBHOOK_NEXT] =
	{"webhook_next", "SELECT * FROM kube_reports_internal.api_webhook_next($1::uuid, $2::text[])", 12,
	false, false, false},
	[PG_WEBHOOK_DONE] = {"webhook_done",
		"SELECT kube_reports_internal.api_webhook_done($1::uuid, $2::text, $3::text, $4::int8, $5::int8, $6::int4, "
		"$7::text, $8::int4 = 1)",
	1, true, false, false},
	[PG_WEBHOOKS] = {"webhooks", "SELECT * FROM kube_reports_internal.api_webhooks($1::uuid)", 4, false, false, false},
	[PG_PENDING] = {"pending", "SELECT * FROM kube_reports_internal.api_pending($1::uuid)", 3, false, false, false},
	[PG_MAINTAIN] = {"maintain", "SELECT kube_reports_internal.api_maintain($1::uuid)", 1, true, true, false},
	[PG_CATCH_UP] = {"catch_up", "SELECT kube_reports_internal.api_catch_up($1::uuid)", 1, true, true, false},
	[PG_AGGREGATE] = {"aggregate", "CALL kube_reports_internal.api_aggregate($1::uuid, "
		"kube_reports_internal.api_may_merge($1::uuid, $2::int8), NULL, NULL, NULL)",
	3, true, true, false},
	[PG_ENGINE_STEP] = {"engine_step",
		"CALL kube_reports_internal.api_engine_step($1::uuid, $2::text, $3::int8, $4::text[], $5::text[], NULL, NULL, "
		"NULL, NULL)",
	4, true, true, false},
	[PG_ACTIVE_POLICIES] = {"active_policies", "SELECT kube_reports_internal.api_tell_policies($1::uuid, $2::text)",
	1, true, false, false},
	[PG_NAMESPACES] = {"namespaces", "SELECT * FROM kube_reports_internal.api_namespaces($1::uuid, $2::text)", 3,
	false, false, false},
	[PG_NAMESPACE] = {"namespace",
		"SELECT * FROM kube_reports_internal.api_namespace($1::uuid, $2::text, $3::text, $4::text, $5::int4 = 1)", 2,
	true, false, false},
	[PG_SWEEP] = {"sweep",
		"CALL kube_reports_internal.api_sweep($1::uuid, $2::text, $3::text, $4::text, "
		"pg_catalog.to_timestamp($5::int8), NULL)",
	1, true, true, false},
	[PG_FORWARD_SENDER] = {"forward_sender",
	"SELECT kube_reports_internal.api_forward_sender($1::uuid, $2::text, $3::text)", 1, true, false, true},
	[PG_FORWARD] = {"forward",
		"CALL kube_reports_internal.api_forward($1::uuid, $2::text, $3::text, $4::text, $5::bytea, NULL, NULL, NULL, "
		"NULL, NULL)",
	5, true, true, false},
};

const size_t pg_answer_bytes[PG_STATEMENT_COUNT] = {
	[PG_GET] = 256 * 1024,
	[PG_LIST] = PG_PIECE_BYTES,
	[PG_EXPORT] = PG_PIECE_BYTES,
	[PG_CHANGES] = 512 * 1024,
	[PG_READ_OBJECT] = 256 * 1024,
	[PG_READ_LIST] = PG_PIECE_BYTES,
	[PG_READ_CHANGES] = 512 * 1024,
};

/* ---------- times ---------- */

static PgTimes last_times;

void
pg_call_sent(PgCall *call)
{
	call->sent_at = loop_microseconds();
}

static void
note_times(const PgCall *call)
{
	uint64_t	now = loop_microseconds();
	uint64_t	sent_at = call->sent_at != 0 ? call->sent_at : now;

	last_times.waited = (double) (sent_at - call->made_at) / 1e6;
	last_times.taken = (double) (now - sent_at) / 1e6;
	if (call->sent_at != 0)
		metrics_database_call(call->statement, pg_statements[call->statement].name, last_times.waited,
							  last_times.taken);
}

PgTimes
pg_times(void)
{
	return last_times;
}

/* ---------- parameters ---------- */

/* Extends the call's buffer and returns the address of the new bytes. */
static char *
call_extend(PgCall *call, size_t size)
{
	size_t		at = call->size;

	if (call->size + size > call->capacity)
	{
		call->capacity = (call->size + size) * 2 + 64;
		call->buffer = realloc(call->buffer, call->capacity);
		if (call->buffer == NULL)
			abort();
	}
	call->size += size;
	return call->buffer + at;
}

static void
call_begin_parameter(PgCall *call, int format)
{
	if (call->parameter_count == PG_PARAMETERS)
		abort();
	call->formats[call->parameter_count] = format;
	call->offsets[call->parameter_count] = call->size;
}

static void
call_end_parameter(PgCall *call)
{
	call->lengths[call->parameter_count] = (int) (call->size - call->offsets[call->parameter_count]);
	call->parameter_count++;
}

static void
put_int4(PgCall *call, int32_t value)
{
	uint32_t	big = htonl((uint32_t) value);

	memcpy(call_extend(call, 4), &big, 4);
}

static void
put_bytes(PgCall *call, const char *bytes, size_t len)
{
	char	   *at = call_extend(call, len);

	if (len > 0)
		memcpy(at, bytes, len);
}

static void
put_array_header(PgCall *call, int32_t element_type, size_t count)
{
	put_int4(call, count > 0 ? 1 : 0);
	put_int4(call, 0);
	put_int4(call, element_type);
	if (count > 0)
	{
		put_int4(call, (int32_t) count);
		put_int4(call, 1);
	}
}

PgCall *
pg_call_new(PgStatement statement)
{
	PgCall	   *call = allocate(sizeof(PgCall));

	call->statement = statement;
	call->made_at = loop_microseconds();
	if (statement != PG_WHO && statement != PG_SETTINGS)
	{
		/* The only parameter in text form, NUL-terminated: the server parses the uuid. */
		call_begin_parameter(call, 0);
		put_bytes(call, config.cluster_id, strlen(config.cluster_id) + 1);
		call_end_parameter(call);
	}
	return call;
}

void
pg_add_null(PgCall *call)
{
	call_begin_parameter(call, 1);
	call->lengths[call->parameter_count++] = -1;
}

void
pg_add_bytes(PgCall *call, const char *bytes, size_t len)
{
	call_begin_parameter(call, 1);
	put_bytes(call, bytes, len);
	call_end_parameter(call);
}

void
pg_add_text(PgCall *call, const char *text)
{
	pg_add_bytes(call, text, strlen(text));
}

void
pg_add_int4(PgCall *call, int32_t value)
{
	call_begin_parameter(call, 1);
	put_int4(call, value);
	call_end_parameter(call);
}

void
pg_add_int8(PgCall *call, int64_t value)
{
	uint64_t	big = htobe64((uint64_t) value);

	pg_add_bytes(call, (const char *) &big, 8);
}

void
pg_add_int4_array(PgCall *call, const int32_t *values, size_t count)
{
	call_begin_parameter(call, 1);
	put_array_header(call, OID_INT4, count);
	for (size_t i = 0; i < count; i++)
	{
		put_int4(call, 4);
		put_int4(call, values[i]);
	}
	call_end_parameter(call);
}

void
pg_add_int8_array(PgCall *call, const int64_t *values, size_t count)
{
	call_begin_parameter(call, 1);
	put_array_header(call, OID_INT8, count);
	for (size_t i = 0; i < count; i++)
	{
		uint64_t	big = htobe64((uint64_t) values[i]);

		put_int4(call, 8);
		put_bytes(call, (const char *) &big, 8);
	}
	call_end_parameter(call);
}

void
pg_add_text_or_null_array(PgCall *call, const JsonText *values, size_t count)
{
	call_begin_parameter(call, 1);
	put_array_header(call, OID_TEXT, count);
	for (size_t i = 0; i < count; i++)
	{
		if (values[i].bytes == NULL)
		{
			put_int4(call, -1);
			continue;
		}
		put_int4(call, (int32_t) values[i].len);
		put_bytes(call, values[i].bytes, values[i].len);
	}
	call_end_parameter(call);
}

static void
add_bytes_array(PgCall *call, int32_t element_type, const JsonText *values, size_t count)
{
	call_begin_parameter(call, 1);
	put_array_header(call, element_type, count);
	for (size_t i = 0; i < count; i++)
	{
		put_int4(call, (int32_t) values[i].len);
		put_bytes(call, values[i].bytes, values[i].len);
	}
	call_end_parameter(call);
}

void
pg_add_text_array(PgCall *call, const JsonText *values, size_t count)
{
	add_bytes_array(call, OID_TEXT, values, count);
}

void
pg_add_bytea_array(PgCall *call, const JsonText *values, size_t count)
{
	add_bytes_array(call, OID_BYTEA, values, count);
}

void
pg_call_free(PgCall *call)
{
	answer_room_hold(&call->holding, 0);
	free(call->buffer);
	free(call);
}

void
pg_call_finish(PgCall *call, PgOutcome outcome, PGresult *result, const PgError *error)
{
	PgDone		done = call->done;
	void	   *state = call->state;

	if (outcome != PG_OK && done != NULL)
		metrics_count(COUNTER_DB_ERRORS, 1);
	note_times(call);
	if (done != NULL)
		pg_stall_note(call->statement, outcome, error);
	pg_call_free(call);
	if (done != NULL)
		done(state, outcome, (PgResult *) result, error);
	else if (result != NULL)
		PQclear(result);
}

static void
refused_run(void *state)
{
	PgCall	   *call = state;

	pg_call_finish(call, call->outcome, NULL, call->error);
}

void
pg_call_refuse(PgCall *call, PgOutcome outcome, const PgError *error)
{
	call->refused = true;
	call->outcome = outcome;
	call->error = error;
	loop_defer(refused_run, call);
}

/* ---------- results ---------- */

int
pg_columns(const PgResult *result)
{
	return PQnfields((const PGresult *) result);
}

size_t
pg_rows(const PgResult *result)
{
	return (size_t) PQntuples((const PGresult *) result);
}

bool
pg_is_null(const PgResult *result, size_t row, int column)
{
	return PQgetisnull((const PGresult *) result, (int) row, column) != 0;
}

JsonText
pg_text(const PgResult *result, size_t row, int column)
{
	JsonText	text;

	text.bytes = PQgetvalue((const PGresult *) result, (int) row, column);
	text.len = (size_t) PQgetlength((const PGresult *) result, (int) row, column);
	return text;
}

int32_t
pg_array_int4(JsonText value)
{
	uint32_t	big;

	if (value.bytes == NULL || value.len != 4)
		return 0;
	memcpy(&big, value.bytes, 4);
	return (int32_t) ntohl(big);
}

int64_t
pg_array_int8(JsonText value)
{
	uint64_t	big;

	if (value.bytes == NULL || value.len != 8)
		return 0;
	memcpy(&big, value.bytes, 8);
	return (int64_t) be64toh(big);
}

int32_t
pg_int4(const PgResult *result, size_t row, int column)
{
	return pg_array_int4(pg_text(result, row, column));
}

int64_t
pg_int8(const PgResult *result, size_t row, int column)
{
	return pg_array_int8(pg_text(result, row, column));
}

bool
pg_bool(const PgResult *result, size_t row, int column)
{
	JsonText	text = pg_text(result, row, column);

	return text.len == 1 && text.bytes[0] != 0;
}

size_t
pg_result_bytes(const PgResult *result)
{
	return PQresultMemorySize((const PGresult *) result);
}

void
pg_result_free(PgResult *result)
{
	PQclear((PGresult *) result);
}

/* Reads 4 bytes from the front; 0 when fewer bytes remain. */
static int32_t
array_take_int4(PgArray *array)
{
	JsonText	text = {array->next, 4};

	if (array->end - array->next < 4)
	{
		array->next = array->end;
		return 0;
	}
	array->next += 4;
	return pg_array_int4(text);
}

PgArray
pg_array(const PgResult *result, size_t row, int column)
{
	JsonText	text = pg_text(result, row, column);
	PgArray		array = {text.bytes, text.bytes + text.len, 0};
	int32_t		dimensions = array_take_int4(&array);

	array_take_int4(&array);	/* whether there are NULLs */
	array_take_int4(&array);	/* element type */
	if (dimensions == 1)
	{
		int32_t		count = array_take_int4(&array);

		array_take_int4(&array);	/* lower bound */
		array.left = count > 0 ? (size_t) count : 0;
	}
	return array;
}

bool
pg_array_next(PgArray *array, JsonText *value)
{
	int32_t		len;

	value->bytes = NULL;
	value->len = 0;
	if (array->left == 0 || array->end - array->next < 4)
		return false;
	array->left--;
	len = array_take_int4(array);
	if (len >= 0)
	{
		if (len > array->end - array->next)
			return false;
		value->bytes = array->next;
		value->len = (size_t) len;
		array->next += len;
	}
	return true;
}
