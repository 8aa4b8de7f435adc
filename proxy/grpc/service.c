/*-------------------------------------------------------------------------
 *
 * service.c
 *	  The methods that senders call, and the health of the server.
 *
 * A credential is looked up when the head of a call has arrived, so that an
 * unknown sender costs a brief read of the database and no memory.  The
 * statement that stores a message looks the credential up again: a revoked
 * credential ends a stream at its next message.
 *
 *-------------------------------------------------------------------------
 */
#include "grpc/service.h"

#include <string.h>
#include <strings.h>

#include "base/allocate.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/termination.h"
#include "codec/digest.h"
#include "engine/base/hash.h"
#include "grpc/document.h"
#include "trust/request_header.h"
#include "wire.pb-c.h"

#define LOG_INTERVAL 5000		/* shortest time between two log lines about refusals, in milliseconds */
#define HEALTH_BYTES 1024		/* largest size of a message that needs no credential */
#define MOST_PAIRS 100			/* largest number of pairs of metadata; the head has no more fields */

typedef struct Work Work;

/* A kind of messages that methods store. */
typedef struct MessageKind
{
	const char *name;			/* the parameter of api_forward() */
	const char *(*field) (Arena *arena, const char *pointer);	/* names a field by a JSON pointer */
	JsonText	(*answer) (const Work *work, JsonText reply);
} MessageKind;

/* The state of an open call, in the arena of its stream. */
struct Work
{
	Call	   *call;
	const char *kind;			/* kind of the credential: token or certificate */
	const char *credential;		/* the SHA-256 of the token, or the common name */
	uint64_t	turn;			/* of the sender, whatever its credential */
	const MessageKind *message;
	PgCall	   *statement;		/* statement in progress; NULL: none */
	Arena	   *arena;			/* memory of the message */
	DocumentBatch batch;
};

bool
service_ready(const char **why)
{
	if (!termination_begun())
		return pg_connected(why);
	*why = "process is shutting down";
	return false;
}

/* ---------- the credential ---------- */

static const char *
token_hash(Arena *arena, const char *token)
{
	char	   *hash = arena_alloc(arena, DIGEST_HEX_SIZE);

	sha256_hex(token, strlen(token), hash);
	return hash;
}

/* Reads the credential of a call.  As at POST /v1/forward, a token is preferred to a certificate. */
static const char *
read_credential(Work *work, Stream *stream)
{
	Arena	   *arena = stream_arena(stream);
	const char *authorization = stream_header(stream, "authorization");
	const char *why = "its call has no credentials";
	bool		spaced;

	if (authorization != NULL)
	{
		const char *token = bearer_token(arena, authorization, &spaced);

		if (token == NULL)
			return "its metadata authorization has no bearer token";
		work->kind = "token";
		work->credential = token_hash(arena, token);
		return NULL;
	}
	work->kind = "certificate";
	if (client_certificate_sender(stream_peer(stream), arena, &work->credential, &why) == CERTIFICATE_TRUSTED)
		return NULL;
	return why;
}

static void
refuse_stranger(Call *call, const char *why)
{
	static uint64_t logged_at;
	uint64_t	now = loop_now();

	if (logged_at == 0 || now - logged_at >= LOG_INTERVAL)
	{
		logged_at = now;
		log_line(LOG_WARNING, "a sender was refused: %s", why);
	}
	stream_distrust(call_stream(call));
	call_fail(call, STATUS_UNAUTHENTICATED, "the credential is missing, unknown or has expired");
}

static void
looked_up(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Work	   *work = state;
	Call	   *call = work->call;
	bool		known;

	work->statement = NULL;
	if (outcome != PG_OK)
	{
		CallStatus	status = status_of_outcome(stream_arena(call_stream(call)), outcome, error);

		call_end(call, &status);
		return;
	}
	known = !pg_is_null(result, 0, 0);
	if (known)
	{
		JsonText	name = pg_text(result, 0, 0);

		work->turn = hash_bytes(HASH_SEED, name.bytes, name.len);
		call_name_user(call, arena_printf(stream_arena(call_stream(call)), "sender:%s", name.bytes));
	}
	pg_result_free(result);
	if (!known)
	{
		refuse_stranger(call, "its credential is unknown or has expired");
		return;
	}
	stream_trust(call_stream(call));
	call_admit(call);
}

static JsonText
answer_batch(const Work *work, JsonText reply)
{
	return document_stored(work->arena, &work->batch, reply);
}

/* Returns an empty message: ResultResponse has no field. */
static JsonText
answer_result(const Work *work, JsonText reply)
{
	return (JsonText) {"", 0};
}

static JsonText
answer_evidence(const Work *work, JsonText reply)
{
	return document_evidence_stored(work->arena, reply);
}

static const MessageKind batch_kind = {"results", document_batch_field, answer_batch};
static const MessageKind result_kind = {"result", document_result_field, answer_result};
static const MessageKind evidence_kind = {"evidence", document_evidence_field, answer_evidence};

static void
begin(Call *call, const MessageKind *kind)
{
	Stream	   *stream = call_stream(call);
	Work	   *work = arena_alloc0(stream_arena(stream), sizeof(Work));
	const char *why = read_credential(work, stream);

	work->call = call;
	work->message = kind;
	call_set_work(call, work);
	if (why != NULL)
	{
		refuse_stranger(call, why);
		return;
	}
	work->statement = pg_call_new(PG_FORWARD_SENDER);
	pg_add_text(work->statement, work->kind);
	pg_add_text(work->statement, work->credential);
	pg_send(work->statement, false, call_time_left(call), looked_up, work);
}

static void
begin_batches(Call *call)
{
	begin(call, &batch_kind);
}

static void
begin_result(Call *call)
{
	begin(call, &result_kind);
}

static void
begin_evidence(Call *call)
{
	begin(call, &evidence_kind);
}

static void
cancel(Call *call)
{
	Work	   *work = call_work(call);

	if (work != NULL && work->statement != NULL)
		pg_cancel(work->statement);
	if (work != NULL)
		work->statement = NULL;
}

/* ---------- storing ---------- */

static void
refuse_document(Work *work, int code, JsonText reply)
{
	CallStatus	status = status_of_reply(work->arena, code, reply, work->message->field);

	if (status.code == STATUS_UNAUTHENTICATED)
		status.message = "the credential was revoked or has expired";
	call_end(work->call, &status);
}

static void
stored(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Work	   *work = state;
	JsonText	reply;
	int			code;

	work->statement = NULL;
	if (outcome != PG_OK)
	{
		CallStatus	status = status_of_outcome(work->arena, outcome, error);

		call_end(work->call, &status);
		return;
	}
	code = pg_int4(result, 0, 0);
	reply = pg_text(result, 0, 4);
	reply.bytes = arena_strndup(work->arena, reply.bytes, reply.len);
	pg_result_free(result);
	if (code != 200)
		refuse_document(work, code, reply);
	else
		call_answer(work->call, work->message->answer(work, reply));
}

static void
store(Work *work, JsonText document)
{
	PgCall	   *statement = pg_call_new(PG_FORWARD);

	pg_add_text(statement, work->message->name);
	pg_add_text(statement, work->kind);
	pg_add_text(statement, work->credential);
	pg_add_bytes(statement, document.bytes, document.len);
	pg_in_turn(statement, work->turn);
	work->statement = statement;
	pg_send(statement, false, call_time_left(work->call), stored, work);
}

static void
handle_batch(Call *call, Arena *arena, JsonText message)
{
	Work	   *work = call_work(call);
	Arena		scratch;		/* the statement has a copy of the document */
	JsonText	document;
	CallStatus	status;

	work->arena = arena;
	arena_init(&scratch);
	if (!document_of_batch(&scratch, message, &document, &work->batch, &status))
		call_end(call, &status);
	else
	{
		JsonText	assessment = work->batch.assessment;

		work->batch.assessment.bytes = arena_strndup(arena, assessment.bytes, assessment.len);
		store(work, document);
	}
	arena_free(&scratch);
}

static void
handle_evidence(Call *call, Arena *arena, JsonText message)
{
	Work	   *work = call_work(call);
	Arena		scratch;
	JsonText	document;
	CallStatus	status;

	work->arena = arena;
	arena_init(&scratch);
	if (!document_of_evidence(&scratch, message, &document, &status))
		call_end(call, &status);
	else
		store(work, document);
	arena_free(&scratch);
}

/* Reads the metadata of a call that become labels of the cluster; returns their number. */
static size_t
read_metadata(const Stream *stream, DocumentPair *pairs)
{
	static const char *const labels[][2] = {
		{"clustername", "clusterName"}, {"cluster_name", "clusterName"}, {"cluster-name", "clusterName"},
		{"clustertype", "clusterType"}, {"cluster_type", "clusterType"}, {"cluster-type", "clusterType"},
	};
	static const char prefix[] = "extra-metadata-";
	size_t		count = 0;
	size_t		at = 0;
	const char *name;
	const char *value;

	while (count < MOST_PAIRS && stream_next_header(stream, &at, &name, &value))
	{
		const char *key = strncmp(name, prefix, sizeof(prefix) - 1) == 0 ? name + sizeof(prefix) - 1 : NULL;

		for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
			if (strcmp(name, labels[i][0]) == 0)
				key = labels[i][1];
		if (key != NULL)
		{
			pairs[count] = (DocumentPair) {.key = {key, strlen(key)}, .value = {value, strlen(value)}};
			count++;
		}
	}
	return count;
}

static void
handle_result(Call *call, Arena *arena, JsonText message)
{
	Work	   *work = call_work(call);
	DocumentPair pairs[MOST_PAIRS];
	size_t		count = read_metadata(call_stream(call), pairs);
	Arena		scratch;
	JsonText	document;
	CallStatus	status;

	work->arena = arena;
	arena_init(&scratch);
	if (!document_of_result(&scratch, message, pairs, count, &document, &status))
		call_end(call, &status);
	else
		store(work, document);
	arena_free(&scratch);
}

/* ---------- health ---------- */

static void
begin_health(Call *call)
{
	call_admit(call);
}

/* Whether a name means the server as a whole (""), or one of its services. */
static bool
is_service(const char *name)
{
	for (const CallMethod *method = service_methods; method->path != NULL; method++)
	{
		size_t		len = strlen(name);

		if (len == 0 || (strncmp(method->path + 1, name, len) == 0 && method->path[len + 1] == '/'))
			return true;
	}
	return false;
}

static void
handle_health(Call *call, Arena *arena, JsonText message)
{
	Wire__HealthCheckRequest *request = wire__health_check_request__unpack(NULL, message.len,
																		   (const uint8_t *) message.bytes);
	Wire__HealthCheckResponse response = WIRE__HEALTH_CHECK_RESPONSE__INIT;
	const char *why;
	char		bytes[16];
	bool		known = request != NULL && is_service(request->service);

	if (request == NULL)
		call_fail(call, STATUS_INVALID_ARGUMENT, "the bytes are not a message HealthCheckRequest");
	else if (!known)
		call_fail(call, STATUS_NOT_FOUND, "the service is unknown");
	else
	{
		response.status = service_ready(&why) ? WIRE__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING :
			WIRE__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
		call_answer(call, (JsonText) {bytes, wire__health_check_response__pack(&response, (uint8_t *) bytes)});
	}
	if (request != NULL)
		wire__health_check_request__free_unpacked(request, NULL);
}

const CallMethod service_methods[] = {
	{"/ComplianceService/SetResult", false, false, 0, begin_result, handle_result, cancel},
	{"/kube_reports.forward.v1.ForwardService/StoreBatch", false, false, 0, begin_batches, handle_batch, cancel},
	{"/kube_reports.forward.v1.ForwardService/StoreBatches", true, false, 0, begin_batches, handle_batch, cancel},
	{"/kube_reports.forward.v1.ForwardService/StoreEvidence", true, false, 0, begin_evidence, handle_evidence, cancel},
	{"/grpc.health.v1.Health/Check", false, true, HEALTH_BYTES, begin_health, handle_health, cancel},
	{.path = NULL},
};
