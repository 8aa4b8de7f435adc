/*-------------------------------------------------------------------------
 *
 * dialogue.c
 *	  The writes of a batch, decided by the proxy (variant sql).
 *
 * Each write goes through the stages of ItemStage.  The dialogue makes one
 * call of the database after the other until every write has its answer.  The
 * engine's part (decide) uses only memory of the dialogue, so that a thread
 * may run it for an expensive write.
 *
 *-------------------------------------------------------------------------
 */
#include "api/dialogue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/allocate.h"
#include "base/config.h"
#include "base/offload.h"
#include "decide/write.h"

/* Upstream also tries 8 generated names. */
#define NAME_TRIES 8

/* When the documents have more bytes than this, a thread decides, so that other clients do not wait for the loop. */
#define DECIDE_AT_ONCE ((size_t) 256 * 1024)

/* After this many changes of the object by other writers, the write is sent alone. */
#define LOST_TRIES 16

typedef enum ItemStage
{
	ITEM_ADMIT,					/* a create: the engine admits it first */
	ITEM_LOAD,					/* needs the stored object */
	ITEM_DECIDE,				/* the stored object is loaded */
	ITEM_COMMIT,				/* has something to store */
	ITEM_ANSWER,				/* stores nothing */
	ITEM_DONE					/* has its answer */
} ItemStage;

typedef struct Item
{
	ItemStage	stage;
	AskedWrite	asked;
	Registry   *registry;
	bool		inserts;		/* an admitted create: another generated name may be tried */
	const char *namespace_name;
	const char *name;			/* from the path; "" for a create */
	const char *namespace_uid;
	bool		of_collection;	/* a deletecollection's: the path has no name, the object may be missing */
	int			names;			/* generated names tried */
	int			lost;			/* how often another writer changed the object first */
	bool		exists;			/* stored is valid */
	StoredObject stored;		/* its texts are in the result of the last call */
	DecidedWrite decided;
} Item;

typedef struct Dialogue
{
	OffloadJob	job;			/* must be the first member */
	Arena		arena;
	const RegistryType *type;	/* of the first item */
	bool		alone;
	size_t		bytes;			/* size of the documents in the requests */
	size_t		count;
	Item		items[DIALOGUE_WRITES];
	PgResult   *result;			/* of the last call, with the stored objects */
	DialogueAnswered answered;
	DialogueDone done;
	void	   *state;
} Dialogue;

static void dialogue_go_on(Dialogue *dialogue);

/* ---------- the engine's part ---------- */

/* Whether the name of a create was taken and another one may be tried. */
static bool
name_is_taken(const Item *item)
{
	return item->inserts && item->decided.action == DECIDED_ANSWER && item->decided.outcome.code == 409 &&
		item->decided.outcome.retry_after > 0 && item->names < NAME_TRIES;
}

static void
item_admit(Item *item)
{
	write_ask_admission(&item->decided, &item->asked);
	item->exists = false;
	item->inserts = item->decided.action == DECIDED_INSERT;
	item->names++;
	item->stage = item->inserts ? ITEM_COMMIT : item->decided.action == DECIDED_ANSWER ? ITEM_ANSWER : ITEM_LOAD;
	if (item->inserts)
		write_ask_results(&item->decided, &item->asked, NULL);
}

static void
item_decide(Item *item)
{
	const StoredObject *stored = item->exists ? &item->stored : NULL;

	write_ask_decision(&item->decided, &item->asked, stored);
	if (name_is_taken(item))
		item_admit(item);
	else if (item->decided.action == DECIDED_ANSWER)
		item->stage = ITEM_ANSWER;
	else
	{
		write_ask_results(&item->decided, &item->asked, stored);
		item->stage = ITEM_COMMIT;
	}
}

static void
decide(OffloadJob *job)
{
	Dialogue   *dialogue = (Dialogue *) job;

	for (size_t i = 0; i < dialogue->count; i++)
	{
		if (dialogue->items[i].stage == ITEM_ADMIT)
			item_admit(&dialogue->items[i]);
		else if (dialogue->items[i].stage == ITEM_DECIDE)
			item_decide(&dialogue->items[i]);
	}
}

/* ---------- answers ---------- */

static void
item_answer(Dialogue *dialogue, Item *item, const DialogueAnswer *answer)
{
	item->stage = ITEM_DONE;
	dialogue->answered(dialogue->state, (size_t) (item - dialogue->items), answer);
}

static void
item_refuse(Dialogue *dialogue, Item *item, int code)
{
	item_answer(dialogue, item, &(DialogueAnswer) {.code = code});
}

/* Answers with the outcome of the decision.  version: the version that the write got; 0 when it stored nothing. */
static void
item_say(Dialogue *dialogue, Item *item, int64_t version)
{
	const WriteOutcome *outcome = &item->decided.outcome;

	item_answer(dialogue, item, &(DialogueAnswer) {
		.code = outcome->code,
		.version = version,
		.retry_after = outcome->retry_after,
		.warnings = outcome->warnings,
		.body = write_answer(&item->decided, &item->asked, version, (int64_t) time(NULL))
	});
}

static void
say_not_served(Dialogue *dialogue, JsonText status)
{
	for (size_t i = 0; i < dialogue->count; i++)
	{
		if (dialogue->items[i].stage != ITEM_DONE)
			item_answer(dialogue, &dialogue->items[i], &(DialogueAnswer) {.code = 404, .body = status});
	}
}

static void
dialogue_end(Dialogue *dialogue, PgOutcome outcome, const PgError *error)
{
	dialogue->done(dialogue->state, outcome, error);
	for (size_t i = 0; i < dialogue->count; i++)
	{
		write_free(&dialogue->items[i].decided);
		registry_release(dialogue->items[i].registry);
	}
	pg_result_free(dialogue->result);
	arena_free(&dialogue->arena);
	free(dialogue);
}

/* Keeps the result of a call in the dialogue; false when the call has failed, which ends the dialogue. */
static bool
take_result(Dialogue *dialogue, PgOutcome outcome, PgResult *result, const PgError *error)
{
	pg_result_free(dialogue->result);
	dialogue->result = result;
	if (outcome == PG_OK)
		return true;
	dialogue_end(dialogue, outcome, error);
	return false;
}

/* ---------- load ---------- */

static void
loaded(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Dialogue   *dialogue = state;
	Item	   *waiting[DIALOGUE_WRITES];
	size_t		count = 0;

	if (!take_result(dialogue, outcome, result, error))
		return;
	for (size_t i = 0; i < dialogue->count; i++)
	{
		Item	   *item = &dialogue->items[i];

		if (item->stage != ITEM_LOAD)
			continue;
		waiting[count++] = item;
		item->stage = ITEM_DECIDE;
		item->exists = false;
	}
	for (size_t row = 0; row < pg_rows(result); row++)
	{
		int			position = pg_int4(result, row, 0);
		Item	   *item;

		if (position < 1 || (size_t) position > count)
		{
			say_not_served(dialogue, pg_text(result, row, 3));
			break;
		}
		item = waiting[position - 1];
		item->exists = true;
		item->stored = (StoredObject) {
			.metadata = pg_text(result, row, 2), .body = pg_text(result, row, 3), .version = pg_int8(result, row, 1)
		};
		if (pg_is_null(result, row, 2))
			item_refuse(dialogue, item, DIALOGUE_COSTS);
	}
	dialogue_go_on(dialogue);
}

static PgCall *
call_new(const Dialogue *dialogue, PgStatement statement)
{
	PgCall	   *call = pg_call_new(statement);

	pg_add_text(call, dialogue->type->group);
	pg_add_text(call, dialogue->type->version);
	pg_add_text(call, dialogue->type->resource);
	return call;
}

static JsonText
text_of_string(const char *string)
{
	return string != NULL ? (JsonText) {string, strlen(string)} : (JsonText) {NULL, 0};
}

static void
send_load(Dialogue *dialogue)
{
	PgCall	   *call = call_new(dialogue, PG_LOAD);
	JsonText	namespaces[DIALOGUE_WRITES];
	JsonText	names[DIALOGUE_WRITES];
	size_t		count = 0;

	for (size_t i = 0; i < dialogue->count; i++)
	{
		const Item *item = &dialogue->items[i];
		bool		admitted = item->names > 0; /* a dry run of a create: its document may have the name */

		if (item->stage != ITEM_LOAD)
			continue;
		namespaces[count] = text_of_string(admitted ? item->decided.outcome.namespace_name : item->namespace_name);
		names[count++] = text_of_string(admitted ? item->decided.outcome.name : item->name);
	}
	pg_add_text_array(call, namespaces, count);
	pg_add_text_array(call, names, count);
	pg_add_int4(call, dialogue->alone);
	pg_send(call, false, (uint64_t) config.request_timeout * 1000, loaded, dialogue);
}

/* ---------- commit ---------- */

/* Another writer changed the object first: decide again, on the state that is stored now. */
static void
item_lost(Dialogue *dialogue, Item *item, JsonText version, JsonText metadata, JsonText body)
{
	bool		there = version.bytes != NULL;

	if (item->of_collection && !there)
	{
		item_refuse(dialogue, item, 404);
		return;
	}
	/* The answer that a name is taken needs no document. */
	if ((dialogue->alone && !item->of_collection && !item->inserts) || item->lost++ >= LOST_TRIES ||
		(there && metadata.bytes == NULL))
	{
		item_refuse(dialogue, item, DIALOGUE_COSTS);
		return;
	}
	item->exists = there;
	item->stored = (StoredObject) {.metadata = metadata, .body = body, .version = pg_array_int8(version)};
	item->stage = ITEM_DECIDE;
}

static void
committed(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Dialogue   *dialogue = state;
	PgArray		arrays[5];
	JsonText	values[5];		/* code, version; for a lost write the stored version, metadata and body */

	if (!take_result(dialogue, outcome, result, error))
		return;
	if (!pg_is_null(result, 0, 5))
	{
		say_not_served(dialogue, pg_text(result, 0, 5));
		dialogue_end(dialogue, PG_OK, NULL);
		return;
	}
	for (int column = 0; column < 5; column++)
		arrays[column] = pg_array(result, 0, column);
	for (size_t i = 0; i < dialogue->count; i++)
	{
		Item	   *item = &dialogue->items[i];
		bool		there;
		int			code;

		if (item->stage != ITEM_COMMIT)
			continue;
		there = pg_array_next(&arrays[0], &values[0]);
		for (int column = 1; column < 5; column++)
			pg_array_next(&arrays[column], &values[column]);
		code = there ? pg_array_int4(values[0]) : DIALOGUE_BROKEN;
		if (code == 200)
			item_say(dialogue, item, pg_array_int8(values[1]));
		else if (code == -2)
			item_lost(dialogue, item, values[2], values[3], values[4]);
		else
			item_refuse(dialogue, item, code);
	}
	dialogue_go_on(dialogue);
}

static void
send_commit(Dialogue *dialogue)
{
	const Served *served = dialogue->items[0].asked.served;
	PgCall	   *call = call_new(dialogue, PG_COMMIT);
	int64_t		definitions[DIALOGUE_WRITES];
	int64_t		bases[DIALOGUE_WRITES];
	char		letters[DIALOGUE_WRITES];
	JsonText	texts[10][DIALOGUE_WRITES];
	size_t		count = 0;

	for (size_t i = 0; i < dialogue->count; i++)
	{
		const Item *item = &dialogue->items[i];
		const DecidedWrite *decided = &item->decided;
		const char *user = item->asked.request->username;
		bool		stores = decided->action != DECIDED_DELETE;

		if (item->stage != ITEM_COMMIT)
			continue;
		definitions[count] = item->asked.served->definition_id;
		bases[count] = decided->base;
		letters[count] = (char) decided->action;
		texts[0][count] = (JsonText) {&letters[count], 1};
		texts[1][count] = text_of_string(decided->outcome.namespace_name);
		texts[2][count] = text_of_string(decided->outcome.name);
		texts[3][count] = text_of_string(decided->outcome.uid);
		texts[4][count] = stores ? decided->metadata : (JsonText) {NULL, 0};
		texts[5][count] = stores ? decided->body : (JsonText) {NULL, 0};
		texts[6][count] = decided->evaluated_at;
		texts[7][count] = text_of_string(user[0] != '\0' ? user : NULL);
		texts[8][count] = text_of_string(decided->action == DECIDED_INSERT ? item->namespace_uid : NULL);
		texts[9][count] = decided->rows;
		count++;
	}
	pg_add_int4(call, dialogue->alone);
	pg_add_int8(call, served->mapping_id);
	pg_add_int4(call, served->fill_summary);
	pg_add_int8_array(call, definitions, count);
	for (int column = 0; column < 6; column++)
		pg_add_text_or_null_array(call, texts[column], count);
	pg_add_int8_array(call, bases, count);
	for (int column = 6; column < 10; column++)
		pg_add_text_or_null_array(call, texts[column], count);
	pg_send(call, false, (uint64_t) config.request_timeout * 1000, committed, dialogue);
}

/* ---------- the dialogue ---------- */

static bool
has_stage(const Dialogue *dialogue, ItemStage stage)
{
	for (size_t i = 0; i < dialogue->count; i++)
	{
		if (dialogue->items[i].stage == stage)
			return true;
	}
	return false;
}

/* The engine has decided (OffloadJob.done). */
static void
decided(OffloadJob *job, bool cancelled)
{
	Dialogue   *dialogue = (Dialogue *) job;

	for (size_t i = 0; i < dialogue->count; i++)
	{
		if (dialogue->items[i].stage == ITEM_ANSWER)
			item_say(dialogue, &dialogue->items[i], 0);
	}
	if (has_stage(dialogue, ITEM_LOAD))
		send_load(dialogue);
	else if (has_stage(dialogue, ITEM_COMMIT))
		send_commit(dialogue);
	else
		dialogue_end(dialogue, PG_OK, NULL);
}

static void
dialogue_go_on(Dialogue *dialogue)
{
	size_t		bytes = dialogue->bytes;

	if (dialogue->result != NULL)
		bytes += pg_result_bytes(dialogue->result);
	if (dialogue->alone || bytes > DECIDE_AT_ONCE)
	{
		offload_submit(&dialogue->job);
		return;
	}
	decide(&dialogue->job);
	decided(&dialogue->job, false);
}

static JsonText
copy_text(Arena *arena, JsonText text)
{
	return (JsonText) {arena_strndup(arena, text.bytes != NULL ? text.bytes : "", text.len), text.len};
}

/* Decodes a copy of a request, because a dialogue may outlive the exchange. */
static const ApiRequest *
copy_request(Arena *arena, JsonText text)
{
	JsonText	copy = copy_text(arena, text);
	ApiRequest *request = arena_alloc(arena, sizeof(ApiRequest));

	if (!request_parse(arena, copy.bytes, copy.len, request))
		abort();				/* impossible: the proxy itself has written the request */
	return request;
}

static void
item_init(Dialogue *dialogue, Item *item, const DialogueWrite *write)
{
	Arena	   *arena = &dialogue->arena;

	item->registry = registry_hold(write->registry);
	item->asked = (AskedWrite) {
		.served = write->type->served,
		.request = write->asked != NULL ? write->asked : copy_request(arena, write->request),
		.document = copy_text(arena, write->document)
	};
	item->namespace_name = arena_strdup(arena, write->namespace_name);
	item->name = arena_strdup(arena, write->name);
	item->namespace_uid = write->namespace_uid != NULL ? arena_strdup(arena, write->namespace_uid) : NULL;
	item->stage = write->create ? ITEM_ADMIT : ITEM_LOAD;
	if (write->stored != NULL)
	{
		item->of_collection = item->exists = true;
		item->stored = *write->stored;
		item->stage = ITEM_DECIDE;
	}
	arena_init(&item->decided.arena);
}

/* Whether a write was read with another state of the registry than the first one of its dialogue. */
static bool
is_stale(const Dialogue *dialogue, const Item *item)
{
	const Served *first = dialogue->items[0].asked.served;
	const Served *served = item->asked.served;

	return first == NULL || served == NULL || first->mapping_id != served->mapping_id ||
		first->fill_summary != served->fill_summary;
}

void
dialogue_start(const DialogueWrite *writes, size_t count, bool alone, DialogueAnswered answered, DialogueDone done,
			   void *state)
{
	Dialogue   *dialogue = allocate(sizeof(Dialogue));

	dialogue->job.run = decide;
	dialogue->job.done = decided;
	arena_init(&dialogue->arena);
	dialogue->type = writes[0].type;
	dialogue->alone = alone;
	dialogue->answered = answered;
	dialogue->done = done;
	dialogue->state = state;
	dialogue->count = count;
	for (size_t i = 0; i < count; i++)
	{
		dialogue->bytes += writes[i].document.len;
		item_init(dialogue, &dialogue->items[i], &writes[i]);
		if (is_stale(dialogue, &dialogue->items[i]))
			item_refuse(dialogue, &dialogue->items[i], DIALOGUE_STALE);
	}
	dialogue_go_on(dialogue);
}
