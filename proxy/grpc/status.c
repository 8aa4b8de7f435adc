/*-------------------------------------------------------------------------
 *
 * status.c
 *	  The status with which a call ends: gRPC codes, and which error of the database becomes which code.
 *
 *-------------------------------------------------------------------------
 */
#include "grpc/status.h"

#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "engine/base/base64.h"
#include "wire.pb-c.h"

/* Limits of the texts in trailers.  Clients accept heads of 8 KB; base64 needs 4 bytes for 3. */
#define MESSAGE_BYTES 1000
#define DETAIL_BYTES 3000
#define LOG_INTERVAL 5000		/* shortest time between two log lines about errors of the database, in milliseconds */

typedef struct SqlStatus
{
	const char *sqlstate;		/* five characters, or a class of two */
	StatusCode	code;
	int			retry_ms;
	const char *message;
} SqlStatus;

/* The first entry that matches is used. */
static const SqlStatus sql_statuses[] = {
	{"40", STATUS_ABORTED, STATUS_RETRY_MS, "the database could not complete the operation, please try again"},
	{"54000", STATUS_RESOURCE_EXHAUSTED, 0, "it takes more memory or work than its size allows"},
	{"55000", STATUS_UNAVAILABLE, STATUS_RETRY_MS, "a dump is being restored, please try again"},
	{"55P03", STATUS_ABORTED, STATUS_RETRY_MS, "the operation waited too long for another one, please try again"},
	{"57014", STATUS_DEADLINE_EXCEEDED, 0, "the message was not stored in time"},
	{"53", STATUS_UNAVAILABLE, STATUS_RETRY_MS, "the database is out of resources, please try again"},
	{"57", STATUS_UNAVAILABLE, STATUS_RETRY_MS, "the database is restarting, please try again"},
	{"3F000", STATUS_UNAVAILABLE, STATUS_RETRY_MS, "the database does not have the extension kube_reports"},
	{"42501", STATUS_UNAVAILABLE, STATUS_RETRY_MS, "the database does not let the receiver store"},
	{"08", STATUS_UNAVAILABLE, STATUS_RETRY_MS, "the connection to the database was lost, please try again"},
	{"25006", STATUS_UNAVAILABLE, STATUS_RETRY_MS, "the database is read-only, please try again"},
	{"25P03", STATUS_UNAVAILABLE, STATUS_RETRY_MS, "the connection to the database was lost, please try again"},
	{"", STATUS_INTERNAL, 0, "an error of the receiver; its log has more"},
};

static const CallStatus outcome_statuses[] = {
	[PG_LOST] = {STATUS_UNAVAILABLE, "the connection to the database was lost, please try again", NULL, 0,
	STATUS_RETRY_MS},
	[PG_EXPIRED] = {STATUS_DEADLINE_EXCEEDED, "the message was not stored in time", NULL, 0, 0},
	[PG_AWAY] = {STATUS_UNAVAILABLE, "the database cannot be reached, please try again", NULL, 0, STATUS_RETRY_MS},
	[PG_BUSY] = {STATUS_RESOURCE_EXHAUSTED, "too many calls wait for the database, please try again", NULL, 0,
	STATUS_RETRY_MS},
};

/* Codes of api_forward(). */
static const struct
{
	int			reply;
	StatusCode	code;
}			reply_codes[] = {
	{400, STATUS_INVALID_ARGUMENT},
	{401, STATUS_UNAUTHENTICATED},
	{403, STATUS_PERMISSION_DENIED},
	{409, STATUS_FAILED_PRECONDITION},
	{413, STATUS_RESOURCE_EXHAUSTED},
};

const char *
status_name(StatusCode code)
{
	static const char *const names[STATUS_CODES] = {
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
		"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	};

	return names[code];
}

static void
log_error(const PgError *error)
{
	static uint64_t logged_at;
	uint64_t	now = loop_now();

	if (logged_at != 0 && now - logged_at < LOG_INTERVAL)
		return;
	logged_at = now;
	log_line(LOG_ERROR, "the database refused a statement: %s (SQLSTATE %s)%s%s", error->message, error->sqlstate,
			 error->hint != NULL ? "; " : "", error->hint != NULL ? error->hint : "");
}

CallStatus
status_of_outcome(Arena *arena, PgOutcome outcome, const PgError *error)
{
	const SqlStatus *status = sql_statuses;

	if (outcome != PG_FAILED || error == NULL)
		return outcome_statuses[outcome == PG_FAILED ? PG_LOST : outcome];
	while (strncmp(error->sqlstate, status->sqlstate, strlen(status->sqlstate)) != 0)
		status++;
	log_error(error);
	return (CallStatus) {status->code, status->message, NULL, 0, status->retry_ms};
}

static const char *
text_of(Arena *arena, const JsonNode *object, const char *key)
{
	const char *text = json_get_cstring(arena, object, key);

	return text != NULL ? text : "";
}

CallStatus
status_of_reply(Arena *arena, int code, JsonText reply, const char *(*name_field) (Arena *arena, const char *pointer))
{
	CallStatus	status = {.code = STATUS_INTERNAL};
	JsonError	error;
	JsonNode   *document = json_parse(arena, reply.bytes, reply.len, NULL, NULL, &error);
	JsonNode   *causes = json_path(document, "details", "causes", NULL);
	StatusField *fields;

	status.message = text_of(arena, document, "message");
	for (size_t i = 0; i < sizeof(reply_codes) / sizeof(reply_codes[0]); i++)
		if (reply_codes[i].reply == code)
			status.code = reply_codes[i].code;
	if (causes == NULL || causes->kind != JSON_KIND_ARRAY)
	{
		/* Of the conflicts, only a batch with another content than the stored one is ALREADY_EXISTS. */
		if (code == 409 && strstr(status.message, "was another one") != NULL)
			status.code = STATUS_ALREADY_EXISTS;
		return status;
	}
	fields = arena_alloc(arena, sizeof(StatusField) * (causes->u.array.count + 1));
	for (size_t i = 0; i < causes->u.array.count; i++)
	{
		const JsonNode *cause = causes->u.array.items[i];

		fields[i].path = name_field(arena, text_of(arena, cause, "field"));
		fields[i].description = text_of(arena, cause, "message");
	}
	status.fields = fields;
	status.field_count = causes->u.array.count;
	if (status.code == STATUS_INVALID_ARGUMENT && status.field_count > 0)
		status.message = arena_printf(arena, "%s %s%s", fields[0].path, fields[0].description,
									  status.field_count > 1 ? "; further fields are wrong, see the details" : "");
	return status;
}

/* ---------- trailers ---------- */

/* Encodes a text for grpc-message: every byte that is not printable ASCII becomes %XX. */
static JsonText
encode_message(Arena *arena, const char *message)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	for (const char *at = message; *at != '\0' && buf.len < MESSAGE_BYTES; at++)
	{
		if (*at >= 0x20 && *at < 0x7f && *at != '%')
			strbuf_putc(&buf, *at);
		else
			strbuf_printf(&buf, "%%%02X", (unsigned char) *at);
	}
	return (JsonText) {buf.bytes, buf.len};
}

static Wire__Any *
pack_detail(Arena *arena, const char *type, const ProtobufCMessage *message)
{
	Wire__Any  *detail = arena_alloc(arena, sizeof(*detail));

	wire__any__init(detail);
	detail->type_url = arena_printf(arena, "type.googleapis.com/%s", type);
	detail->value.data = arena_alloc(arena, protobuf_c_message_get_packed_size(message) + 1);
	detail->value.len = protobuf_c_message_pack(message, detail->value.data);
	return detail;
}

static Wire__Any *
pack_fields(Arena *arena, const CallStatus *status)
{
	Wire__BadRequest request = WIRE__BAD_REQUEST__INIT;
	size_t		bytes = 0;

	request.field_violations = arena_alloc(arena, sizeof(Wire__FieldViolation *) * status->field_count);
	for (size_t i = 0; i < status->field_count; i++)
	{
		Wire__FieldViolation *field = arena_alloc(arena, sizeof(*field));

		wire__field_violation__init(field);
		field->field = (char *) status->fields[i].path;
		field->description = (char *) status->fields[i].description;
		bytes += strlen(field->field) + strlen(field->description) + 8;
		if (bytes > DETAIL_BYTES)
			break;
		request.field_violations[request.n_field_violations++] = field;
	}
	return pack_detail(arena, "google.rpc.BadRequest", &request.base);
}

static Wire__Any *
pack_retry(Arena *arena, const CallStatus *status)
{
	Wire__Duration delay = WIRE__DURATION__INIT;
	Wire__RetryInfo retry = WIRE__RETRY_INFO__INIT;

	delay.seconds = status->retry_ms / 1000;
	delay.nanos = status->retry_ms % 1000 * 1000000;
	retry.retry_delay = &delay;
	return pack_detail(arena, "google.rpc.RetryInfo", &retry.base);
}

/* Returns the status as a google.rpc.Status in base64; NULL when the status has no details. */
static const char *
encode_details(Arena *arena, const CallStatus *status)
{
	Wire__Status document = WIRE__STATUS__INIT;
	Wire__Any  *details[2];
	JsonText	bytes;

	document.details = details;
	if (status->field_count > 0)
		details[document.n_details++] = pack_fields(arena, status);
	if (status->retry_ms > 0)
		details[document.n_details++] = pack_retry(arena, status);
	if (document.n_details == 0)
		return NULL;
	document.code = (int32_t) status->code;
	/* A long text is only in grpc-message, where it is cut. */
	document.message = strlen(status->message) <= MESSAGE_BYTES ? (char *) status->message : (char *) "";
	bytes.len = wire__status__get_packed_size(&document);
	bytes.bytes = arena_alloc(arena, bytes.len);
	wire__status__pack(&document, (uint8_t *) bytes.bytes);
	return base64_encode(arena, bytes);
}

static JsonText
text(const char *string)
{
	return (JsonText) {string, strlen(string)};
}

size_t
status_trailers(Arena *arena, const CallStatus *status, StreamHeader *trailers)
{
	const char *details = status->code != STATUS_OK ? encode_details(arena, status) : NULL;
	size_t		count = 0;

	trailers[count++] = (StreamHeader) {"grpc-status", text(arena_printf(arena, "%d", (int) status->code))};
	if (status->code != STATUS_OK)
		trailers[count++] = (StreamHeader) {"grpc-message", encode_message(arena, status->message)};
	if (details != NULL)
		trailers[count++] = (StreamHeader) {"grpc-status-details-bin", text(details)};
	if (status->retry_ms > 0)
	{
		const char *ms = arena_printf(arena, "%d", status->retry_ms);

		trailers[count++] = (StreamHeader) {"grpc-retry-pushback-ms", text(ms)};
	}
	return count;
}
