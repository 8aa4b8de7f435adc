/*-------------------------------------------------------------------------
 *
 * write.c
 *	  A write of one object, decided by the proxy.
 *
 *-------------------------------------------------------------------------
 */
#include "decide/write.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "engine/answers/render.h"
#include "decide/result_rows.h"


/* Results of larger documents are computed after the write: costly_bytes() in sql/store/write.sql. */
#define COSTLY_BYTES ((size_t) 256 * 1024)

/* A question under the budget of its documents. */
typedef struct Asking
{
	DecidedWrite *write;
	const AskedWrite *asked;
	const StoredObject *stored;
	WriteContext context;
	bool		decide;
} Asking;

/* Returns the name of a stored object, from its metadata. */
static const char *
stored_name(Arena *arena, const StoredObject *stored)
{
	JsonError	error;

	return json_get_cstring(arena, json_parse(arena, stored->metadata.bytes, stored->metadata.len, NULL, NULL, &error),
							"name");
}

/* Returns the action of an outcome: an admitted create becomes an insert, except for a dry run. */
static DecidedAction
action_of(Arena *arena, const ApiRequest *request, const WriteOutcome *outcome)
{
	switch (outcome->action)
	{
		case WRITE_ANSWER:
			return DECIDED_ANSWER;
		case WRITE_INSERT:
			return DECIDED_INSERT;
		case WRITE_UPDATE:
			return DECIDED_UPDATE;
		case WRITE_DELETE:
			return DECIDED_DELETE;
		case WRITE_PENDING:
			break;
	}
	return outcome->metadata != NULL && strcmp(request->verb, "create") == 0 &&
		request_query(arena, request, "dryRun") == NULL ? DECIDED_INSERT : DECIDED_PENDING;
}

static void
perform(void *state)
{
	Asking	   *asking = state;
	DecidedWrite *write = asking->write;
	const AskedWrite *asked = asking->asked;
	Arena	   *arena = &write->arena;
	WriteOutcome *outcome = &write->outcome;

	write_admit(arena, asked->served->definition, asked->request, asked->document.bytes, asked->document.len,
				&asking->context, outcome);
	if (asking->decide)
	{
		/* The name that the first admission generated is already taken; take it from the stored object. */
		if (asking->stored != NULL && strcmp(asked->request->verb, "create") == 0)
			outcome->name = stored_name(arena, asking->stored);
		if (outcome->action == WRITE_PENDING)
		{
			WriteOutcome admitted = *outcome;

			write_decide(arena, asked->served->definition, asked->request, asked->document.bytes, asked->document.len,
						 &asking->context, &admitted, asking->stored, outcome);
		}
	}
	write->action = action_of(arena, asked->request, outcome);
	write->metadata = json_text_of(arena, outcome->metadata);
	write->body = json_text_of(arena, outcome->body);
}

/* Sets the answer to a document that exceeds its budget. */
static void
refuse(DecidedWrite *write, ArenaLimit limit, size_t input)
{
	StrBuf		status;
	const char *message = limit == ARENA_MEMORY ?
	arena_printf(&write->arena, "Request entity too large: document takes too much memory: For its size it may "
				 "take %llu bytes of memory.",
				 (unsigned long long) (ARENA_BYTES_FLOOR + input * ARENA_BYTES_PER_BYTE)) :
	arena_printf(&write->arena, "Request entity too large: document takes too much work: For its size it may take "
				 "%llu steps.", (unsigned long long) (ARENA_STEPS_FLOOR + input * ARENA_STEPS_PER_BYTE));

	strbuf_init(&status, &write->arena);
	status_failure(&status, 413, "RequestEntityTooLarge", message, NULL);
	write->outcome = (WriteOutcome) {.action = WRITE_ANSWER, .code = 413, .status = status.bytes,
	.status_len = status.len};
	write->action = DECIDED_ANSWER;
	write->metadata = write->body = (JsonText) {NULL, 0};
}

static void
ask_engine(DecidedWrite *write, const AskedWrite *asked, const StoredObject *stored, bool decide)
{
	Asking		asking = {.write = write, .asked = asked, .stored = stored, .decide = decide};
	size_t		input = asked->document.len;
	uint8_t		random[WRITE_RANDOM_BYTES];
	ArenaLimit	limit;

	if (stored != NULL)
		input += stored->metadata.len + stored->body.len;
	arena_free(&write->arena);
	*write = (DecidedWrite) {.on_object = stored != NULL, .base = stored != NULL ? stored->version : 0};
	arena_init(&write->arena);
	if (getrandom(random, sizeof(random), 0) != (ssize_t) sizeof(random))
		abort();
	write_context_init(&asking.context, random, (int64_t) time(NULL), asked->served->fill_summary);
	limit = arena_run(&write->arena, input, perform, &asking);
	if (limit != ARENA_WITHIN)
		refuse(write, limit, input);
}

void
write_ask_admission(DecidedWrite *write, const AskedWrite *asked)
{
	ask_engine(write, asked, NULL, false);
}

void
write_ask_decision(DecidedWrite *write, const AskedWrite *asked, const StoredObject *stored)
{
	ask_engine(write, asked, stored, true);
}

void
write_ask_results(DecidedWrite *write, const AskedWrite *asked, const StoredObject *stored)
{
	const Served *served = asked->served;
	bool		gone = write->action == DECIDED_DELETE;
	ResultStates states = {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}};
	ResultRows	rows = {{NULL, 0}, {NULL, 0}};
	const char *why;

	if (served->mapping == NULL)
		return;
	if (stored != NULL)
	{
		states.old_metadata = stored->metadata;
		states.old_body = stored->body;
	}
	if (!gone)
	{
		states.metadata = write->metadata;
		states.body = write->body;
	}
	if (states.old_body.len + states.body.len > COSTLY_BYTES)
	{
		if (!gone)
			result_evaluated_at(&write->arena, served->mapping, states.metadata, states.body, &rows.evaluated_at, &why);
	}
	else if (!result_rows(&write->arena, served->mapping, served->cluster_id, &states, &rows, &why))
		rows.rows = (JsonText) {NULL, 0};
	write->rows = rows.rows;
	write->evaluated_at = rows.evaluated_at;
}

/*
 * When an update removes the last finalizer and so deletes the object, the answer shows the object's last version.  The
 * Status of a deletion has the version of the deletion (DEL-11).
 */
JsonText
write_answer(DecidedWrite *write, const AskedWrite *asked, int64_t version, int64_t now)
{
	const WriteOutcome *outcome = &write->outcome;
	StrBuf		buf;

	if (outcome->status != NULL)
		return (JsonText) {outcome->status, outcome->status_len};
	if (version == 0 || (write->action == DECIDED_DELETE && outcome->transform.kind != TRANSFORM_DELETED))
		version = write->base;
	strbuf_init(&buf, &write->arena);
	render_object(&buf, asked->served->definition, &outcome->transform, false, write->metadata, write->body,
				  outcome->versioned ? version : 0, now);
	strbuf_putc(&buf, '\n');
	return (JsonText) {buf.bytes, buf.len};
}

void
write_free(DecidedWrite *write)
{
	arena_free(&write->arena);
}
