/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  The readings of the registry: served types, with their documents.
 *
 * A reading is made by two calls.  It gets the generation that was known
 * before the calls, so that a change during the calls leads to another
 * reading.
 *
 * A watch keeps the types of its reading, for its metrics.  Only answers keep
 * the documents, which are large.
 *
 *-------------------------------------------------------------------------
 */
#include "api/registry.h"

#include <stdlib.h>
#include <string.h>

#include "api/document_set.h"
#include "base/allocate.h"
#include "base/config.h"
#include "base/log.h"
#include "db/pg.h"
#include "http/route.h"

#define READ_TIMEOUT_MS 30000
#define ASK_TIMEOUT_MS 5000		/* time limit of the question for the generation; then the last reading is used */
#define COLUMN_DEFINITION 8		/* of api_registry(): id of the definition, the definition, id of the type */
#define COLUMN_MAPPING 11		/* id of the mapping, the mapping, whether to fill in summaries, id of the cluster */

struct Registry
{
	unsigned	references;
	Arena		arena;
	RegistryType *types;
	size_t		type_count;
};

static Registry *current;
static Documents *current_documents;
static int64_t known_generation = -1;	/* generation of current */
static int64_t wanted_generation;
static Registry *reading;		/* the reading in progress; NULL when there is none */
static int64_t reading_generation;
static PgVariant known_variant; /* variant of the database that current is from */
static PgVariant reading_variant;
static bool without_documents;
static void (*run_first_read) (void);

static RegistryWaiting *waiting;	/* those who wait for the answer to the question in flight */
static RegistryWaiting *arriving;	/* those who came after that question was sent; they need the next one */
static bool asking;
static bool awaiting_reading;	/* the answer was a newer generation, which is being read */
static int64_t asked_generation;	/* the generation in the answer */

static void read_types_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error);
static void read_documents_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error);
static void reading_done(Documents *documents);
static void question_reading_ended(void);

/* ---------- reading ---------- */

void
registry_generation(int64_t generation)
{
	wanted_generation = generation;
	/* A restored dump may have the generation of a database of the other variant. */
	if (reading != NULL || (current != NULL && generation == known_generation && pg_variant() == known_variant))
		return;
	reading_variant = pg_variant();
	reading = allocate(sizeof(Registry));
	reading->references = 1;
	arena_init(&reading->arena);
	reading_generation = generation;
	pg_send(pg_call_new(PG_REGISTRY), true, READ_TIMEOUT_MS, read_types_done, NULL);
}

void
registry_distrust(void)
{
	known_generation = -1;
}

static void
reading_failed(const char *what)
{
	log_line(LOG_WARNING, "the registry could not be read: %s", what);
	registry_release(reading);
	reading = NULL;
	question_reading_ended();
}

/* Returns a copy of a text column, in the arena. */
static const char *
keep(Arena *arena, const PgResult *result, size_t row, int column)
{
	JsonText	text = pg_text(result, row, column);

	return arena_strndup(arena, text.bytes, text.len);
}

/*
 * Reads the definition and mapping of a type (variant sql).  NULL, with a line in the log, when one of them is damaged:
 * then requests of this type fail, and the other types are served.
 */
static const Served *
read_served(Arena *arena, const PgResult *result, size_t row, const RegistryType *type)
{
	Served	   *served = arena_alloc0(arena, sizeof(Served));
	const char *why = NULL;

	served->definition_id = pg_int8(result, row, COLUMN_DEFINITION);
	served->definition = definition_read(arena, pg_text(result, row, COLUMN_DEFINITION + 1), &why);
	served->type_id = pg_int4(result, row, COLUMN_DEFINITION + 2);
	served->namespaced = type->namespaced;
	if (!pg_is_null(result, row, COLUMN_MAPPING))
	{
		served->mapping_id = pg_int8(result, row, COLUMN_MAPPING);
		served->mapping = mapping_read(arena, pg_text(result, row, COLUMN_MAPPING + 1), &why);
	}
	served->fill_summary = pg_bool(result, row, COLUMN_MAPPING + 2);
	served->cluster_id = pg_int4(result, row, COLUMN_MAPPING + 3);
	if (why == NULL)
		return served;
	log_line(LOG_ERROR, "%s.%s of version %s cannot be served: %s. Register its CustomResourceDefinition again",
			 type->resource, type->group, type->version, why);
	return NULL;
}

/* Makes the documents of the types that were read (variant sql). */
static Documents *
make_documents(void)
{
	const Definition **definitions = allocate((reading->type_count + 1) * sizeof(Definition *));
	Documents  *documents;
	size_t		count = 0;

	for (size_t i = 0; i < reading->type_count; i++)
		if (reading->types[i].served != NULL)
			definitions[count++] = reading->types[i].served->definition;
	documents = documents_of(definitions, count);
	free(definitions);
	return documents;
}

static void
read_types_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	if (outcome != PG_OK)
	{
		reading_failed(error != NULL ? error->message : "no answer");
		return;
	}
	reading->type_count = pg_rows(result);
	reading->types = arena_alloc0(&reading->arena, (reading->type_count + 1) * sizeof(RegistryType));
	for (size_t row = 0; row < reading->type_count; row++)
	{
		RegistryType *type = &reading->types[row];

		type->lane = pg_int4(result, row, 0);
		type->group = keep(&reading->arena, result, row, 1);
		type->version = keep(&reading->arena, result, row, 2);
		type->resource = keep(&reading->arena, result, row, 3);
		type->kind = keep(&reading->arena, result, row, 4);
		type->namespaced = pg_bool(result, row, 5);
		type->status = pg_bool(result, row, 6);
		type->deprecation = pg_is_null(result, row, 7) ? NULL : keep(&reading->arena, result, row, 7);
		if (reading_variant == PG_VARIANT_SQL)
			type->served = read_served(&reading->arena, result, row, type);
	}
	pg_result_free(result);
	if (without_documents)
		reading_done(documents_new(NULL, 0));
	else if (reading_variant == PG_VARIANT_SQL)
		reading_done(make_documents());
	else
		pg_send(pg_call_new(PG_DOCUMENTS), true, READ_TIMEOUT_MS, read_documents_done, NULL);
}

/* Logs at the start which types are served and from which database. */
static void
announce(void)
{
	const char *source = pg_announcement();
	StrBuf		groups;

	if (source == NULL)
		return;
	strbuf_init(&groups, &reading->arena);
	/* Rows come in the order of their groups. */
	for (size_t i = 0; i < reading->type_count; i++)
		if (i == 0 || strcmp(reading->types[i].group, reading->types[i - 1].group) != 0)
			strbuf_printf(&groups, "%s%s", i > 0 ? ", " : "", reading->types[i].group);
	log_line(LOG_NOTICE, "cluster %s (%s) is served: %zu types of %s, from %s", config.cluster_id,
			 config.cluster_name[0] != '\0' ? config.cluster_name : "no name given", reading->type_count,
			 reading->type_count > 0 ? groups.bytes : "no group", source);
}

/* The reading is complete and replaces the last one. */
static void
reading_done(Documents *documents)
{
	bool		first = current == NULL;

	if (first)
		announce();
	log_line(LOG_INFO, "registry read: %zu types, %zu documents, generation %lld", reading->type_count,
			 documents->count, (long long) reading_generation);
	registry_release(current);
	documents_release(current_documents);
	current = reading;
	current_documents = documents;
	known_generation = reading_generation;
	known_variant = reading_variant;
	reading = NULL;
	if (first && run_first_read != NULL)
		run_first_read();
	if (wanted_generation != known_generation)
		registry_generation(wanted_generation);
	question_reading_ended();
}

static void
read_documents_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	if (outcome == PG_OK)
		reading_done(documents_read(result));
	else
		reading_failed(error != NULL ? error->message : "no answer");
}

void
registry_without_documents(void)
{
	without_documents = true;
}

Registry *
registry_acquire(void)
{
	if (current != NULL)
		current->references++;
	return current;
}

Registry *
registry_hold(Registry *registry)
{
	registry->references++;
	return registry;
}

void
registry_release(Registry *registry)
{
	if (registry == NULL || --registry->references > 0)
		return;
	arena_free(&registry->arena);
	free(registry);
}

bool
registry_known(void)
{
	return current != NULL;
}

void
registry_on_first_reading(void (*read) (void))
{
	run_first_read = read;
}

const RegistryType *
registry_types(const Registry *registry, size_t *count)
{
	*count = registry->type_count;
	return registry->types;
}

const RegistryType *
registry_find(const Registry *registry, const char *group, const char *version, const char *resource,
			  bool *version_known)
{
	*version_known = false;
	for (size_t i = 0; i < registry->type_count; i++)
	{
		const RegistryType *type = &registry->types[i];

		if (strcmp(type->version, version) != 0 || strcmp(type->group, group) != 0)
			continue;
		*version_known = true;
		if (strcmp(type->resource, resource) == 0)
			return type;
	}
	return NULL;
}

const Served *
registry_served(const Registry *registry, int lane, JsonText version)
{
	for (size_t i = 0; registry != NULL && i < registry->type_count; i++)
	{
		const RegistryType *type = &registry->types[i];

		if (type->lane == lane && json_text_is(version, type->version))
			return type->served;
	}
	return NULL;
}

Documents *
registry_documents(void)
{
	return current_documents;
}

bool
registry_serves(const Route *route)
{
	bool		version_known;
	size_t		count;

	if (current == NULL)
		return true;
	if (route->resource)
		return registry_find(current, route->group, route->version, route->resource_name, &version_known) != NULL;
	return documents_find(current_documents, route->path, &count) != NULL;
}

/* ---------- asking for a newer generation ---------- */

static void question_ask(void);

void
registry_stop_waiting(RegistryWaiting *ended)
{
	*ended->link = ended->next;
	if (ended->next != NULL)
		ended->next->link = ended->link;
}

static void
question_done(void)
{
	asking = awaiting_reading = false;
	while (waiting != NULL)
	{
		RegistryWaiting *first = waiting;

		registry_stop_waiting(first);
		first->answered(first->state);
	}
	if (arriving == NULL)
		return;
	waiting = arriving;
	waiting->link = &waiting;
	arriving = NULL;
	question_ask();
}

/*
 * A reading has succeeded or failed.  A reading that had begun before the question was answered may be too old; then
 * another reading follows.
 */
static void
question_reading_ended(void)
{
	if (awaiting_reading && (reading == NULL || known_generation >= asked_generation))
		question_done();
}

static void
question_answered(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	if (outcome != PG_OK)
	{
		question_done();
		return;
	}
	asked_generation = pg_int8(result, 0, 0);
	pg_result_free(result);
	awaiting_reading = true;
	registry_generation(asked_generation);
	question_reading_ended();
}

static void
question_ask(void)
{
	PgCall	   *call = pg_call_new(PG_POLL);

	asking = true;
	pg_add_int4_array(call, NULL, 0);
	pg_send(call, true, ASK_TIMEOUT_MS, question_answered, NULL);
}

void
registry_ask(RegistryWaiting *newcomer)
{
	RegistryWaiting **list = asking ? &arriving : &waiting;

	newcomer->link = list;
	newcomer->next = *list;
	if (*list != NULL)
		(*list)->link = &newcomer->next;
	*list = newcomer;
	if (!asking)
		question_ask();
}
