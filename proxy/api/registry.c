/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  The served types, and the discovery and OpenAPI documents.
 *
 * A reading is made by two calls.  It gets the generation that was known
 * before the calls, so that a change during the calls leads to another
 * reading.
 *
 * A watch keeps the types of its reading, for its metrics.  Only answers keep
 * the documents, which are large.
 *
 * Reference: k8s-conformance DISC-01 to DISC-18, OAPI-01 to OAPI-20, NEG-01.
 *
 *-------------------------------------------------------------------------
 */
#include "api/registry.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/exchange.h"
#include "base/allocate.h"
#include "base/config.h"
#include "base/log.h"
#include "api/reply.h"
#include "decide/documents.h"
#include "engine/api/accept.h"

#define READ_TIMEOUT_MS 30000
#define ASK_TIMEOUT_MS 5000		/* time limit of the question for the generation; then the last reading is used */
#define YEAR_SECONDS (365 * 24 * 3600)
#define YAML_TYPE "application/yaml"
#define COLUMN_DEFINITION 8		/* of api_registry(): id of the definition, the definition, id of the type */
#define COLUMN_MAPPING 11		/* id of the mapping, the mapping, whether to fill in summaries, id of the cluster */

/* The forms of a document. */
typedef enum DocumentForm
{
	FORM_COMPACT,				/* as it was read */
	FORM_INDENTED,
	FORM_YAML,
	FORMS
} DocumentForm;

typedef struct Document
{
	const char *path;
	const char *content_type;
	const char *etag;
	bool		discovery;		/* also offered as YAML and indented */
	size_t		row;			/* sorts documents of one path by their rows */
	JsonText	forms[FORMS];	/* the forms after the first are made on first use, in the arena */
	JsonText	compressed[FORMS];
} Document;

/* The documents of one reading. */
typedef struct Documents
{
	unsigned	references;
	Arena		arena;
	Document   *entries;		/* by path, then row */
	size_t		count;
	PgResult   *rows;			/* has the bodies; NULL: the arena has them */
} Documents;

struct Registry
{
	unsigned	references;
	Arena		arena;
	RegistryType *types;
	size_t		type_count;
};

/* A request that waits until the database has told the generation; in the arena of its exchange. */
typedef struct Waiting
{
	Exchange   *exchange;
	struct Waiting **link;		/* the pointer to this entry */
	struct Waiting *next;
} Waiting;

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

static Waiting *waiting;		/* requests that wait for the answer to the question in flight */
static Waiting *arriving;		/* requests that arrived after that question was sent; they need the next one */
static bool asking;
static bool awaiting_reading;	/* the answer was a newer generation, which is being read */
static int64_t asked_generation;	/* the generation in the answer */

static void read_types_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error);
static void read_documents_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error);
static Documents *documents_new(PgResult *rows, size_t count);
static Documents *documents_made(void);
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

static void
documents_release(void *state)
{
	Documents  *documents = state;

	if (documents == NULL || --documents->references > 0)
		return;
	pg_result_free(documents->rows);
	arena_free(&documents->arena);
	free(documents);
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
		reading_done(documents_made());
	else
		pg_send(pg_call_new(PG_DOCUMENTS), true, READ_TIMEOUT_MS, read_documents_done, NULL);
}

static int
compare_documents(const void *left, const void *right)
{
	const Document *a = left;
	const Document *b = right;
	int			order = strcmp(a->path, b->path);

	return order != 0 ? order : (a->row > b->row) - (a->row < b->row);
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

static Documents *
documents_new(PgResult *rows, size_t count)
{
	Documents  *documents = allocate(sizeof(Documents));

	documents->references = 1;
	arena_init(&documents->arena);
	documents->rows = rows;
	documents->count = count;
	documents->entries = arena_alloc0(&documents->arena, (count + 1) * sizeof(Document));
	return documents;
}

/* Fills in the members of a document that follow from its path, type, hash and body. */
static void
document_complete(Documents *documents, size_t row)
{
	Document   *document = &documents->entries[row];

	document->discovery = strncmp(document->path, "/api", 4) == 0;
	document->row = row;

	/* The header needs quotes; the stored value may lack them. */
	if (document->etag[0] != '\0' && document->etag[0] != '"')
		document->etag = arena_printf(&documents->arena, "\"%s\"", document->etag);
}

/* Makes the documents of the types that were read (variant sql). */
static Documents *
documents_made(void)
{
	const Definition **definitions = allocate((reading->type_count + 1) * sizeof(Definition *));
	Documents  *documents = documents_new(NULL, 0);
	ServedDocument *made;
	size_t		count = 0;

	for (size_t i = 0; i < reading->type_count; i++)
		if (reading->types[i].served != NULL)
			definitions[count++] = reading->types[i].served->definition;
	made = documents_make(&documents->arena, definitions, count, &documents->count);
	free(definitions);
	documents->entries = arena_alloc0(&documents->arena, (documents->count + 1) * sizeof(Document));
	for (size_t row = 0; row < documents->count; row++)
	{
		Document   *document = &documents->entries[row];

		document->path = made[row].path;
		document->content_type = made[row].content_type;
		document->etag = made[row].hash;
		document->forms[FORM_COMPACT] = (JsonText) {made[row].body, made[row].len};
		document_complete(documents, row);
	}
	return documents;
}

/* The reading is complete and replaces the last one. */
static void
reading_done(Documents *documents)
{
	bool		first = current == NULL;

	qsort(documents->entries, documents->count, sizeof(Document), compare_documents);

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
	Documents  *documents;

	if (outcome != PG_OK)
	{
		reading_failed(error != NULL ? error->message : "no answer");
		return;
	}
	documents = documents_new(result, pg_rows(result));
	for (size_t row = 0; row < documents->count; row++)
	{
		Document   *document = &documents->entries[row];

		document->path = keep(&documents->arena, result, row, 0);
		document->content_type = keep(&documents->arena, result, row, 1);
		document->etag = keep(&documents->arena, result, row, 2);
		document->forms[FORM_COMPACT] = pg_text(result, row, 3);
		document_complete(documents, row);
	}
	reading_done(documents);
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

/* Returns the documents of a path, the default one first; NULL when the path has none. */
static Document *
find_documents(const char *path, size_t *count)
{
	Document   *entries = current_documents->entries;
	size_t		low = 0;
	size_t		high = current_documents->count;

	*count = 0;
	while (low < high)
	{
		size_t		middle = (low + high) / 2;

		if (strcmp(entries[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	while (low + *count < current_documents->count && strcmp(entries[low + *count].path, path) == 0)
		(*count)++;
	return *count > 0 ? &entries[low] : NULL;
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
	return find_documents(route->path, &count) != NULL;
}

/* ---------- asking for a newer generation ---------- */

static void question_ask(void);

static void
waiting_end(Exchange *exchange)
{
	Waiting    *ended = exchange->work;

	*ended->link = ended->next;
	if (ended->next != NULL)
		ended->next->link = ended->link;
	exchange_release(exchange);
}

static void
question_done(void)
{
	asking = awaiting_reading = false;
	while (waiting != NULL)
	{
		Exchange   *exchange = waiting->exchange;

		waiting_end(exchange);
		exchange_next(exchange);
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
registry_refresh(Exchange *exchange)
{
	Waiting    *newcomer = arena_alloc0(&exchange->arena, sizeof(Waiting));
	Waiting   **list = asking ? &arriving : &waiting;

	newcomer->exchange = exchange;
	newcomer->link = list;
	newcomer->next = *list;
	if (*list != NULL)
		(*list)->link = &newcomer->next;
	*list = newcomer;
	exchange_hold(exchange, newcomer, waiting_end, NULL);
	if (!asking)
		question_ask();
}

/* ---------- negotiation ---------- */

/* A media type with the parameters by which the documents differ; an absent parameter is empty. */
typedef struct MediaClause
{
	JsonText	type;			/* without parameters */
	JsonText	g;
	JsonText	v;
	JsonText	as;
	double		quality;
} MediaClause;

static JsonText
unquoted(JsonText text)
{
	text = accept_trim(text);
	if (text.len >= 2 && text.bytes[0] == '"' && text.bytes[text.len - 1] == '"')
		return (JsonText) {text.bytes + 1, text.len - 2};
	return text;
}

/* Reads the next clause of an Accept header, or a single media type; false at the end. */
static bool
take_media_clause(JsonText *rest, MediaClause *media)
{
	AcceptClause clause;
	JsonText	name;
	JsonText	value;

	if (!accept_clause(rest, &clause))
		return false;
	*media = (MediaClause) {.type = clause.range, .quality = clause.quality};
	while (accept_parameter(&clause.parameters, &name, &value))
	{
		if (json_text_is(name, "g"))
			media->g = unquoted(value);
		else if (json_text_is(name, "v"))
			media->v = unquoted(value);
		else if (json_text_is(name, "as"))
			media->as = unquoted(value);
	}
	return true;
}

/*
 * Media types are compared without regard to case; the two spellings of the OpenAPI protobuf types (@ and .) are the
 * same.
 */
static bool
same_type(JsonText a, JsonText b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
	{
		char		x = a.bytes[i] == '@' ? '.' : a.bytes[i];
		char		y = b.bytes[i] == '@' ? '.' : b.bytes[i];

		if (x >= 'A' && x <= 'Z')
			x = (char) (x + 32);
		if (y >= 'A' && y <= 'Z')
			y = (char) (y + 32);
		if (x != y)
			return false;
	}
	return true;
}

/* Whether a document fits a clause; sets *yaml when the clause asks for YAML. */
static bool
clause_accepts(const MediaClause *clause, const Document *document, bool is_default, bool *yaml)
{
	JsonText	content_type = {document->content_type, strlen(document->content_type)};
	MediaClause offered = {.quality = 0};

	*yaml = false;
	if (!take_media_clause(&content_type, &offered))
		return false;
	if (json_text_is(clause->type, "*/*") || json_text_is(clause->type, "application/*"))
		return is_default && clause->as.len == 0;
	if (!same_type(clause->g, offered.g) || !same_type(clause->v, offered.v) || !same_type(clause->as, offered.as))
		return false;
	*yaml = document->discovery && same_type(clause->type, (JsonText) {YAML_TYPE, strlen(YAML_TYPE)});
	return *yaml || same_type(clause->type, offered.type);
}

/* Returns the document of a path that fits an Accept header best; *yaml: to be sent as YAML.  NULL when none fits. */
static Document *
fitting_document(Document *documents, size_t count, const char *accept, bool *yaml)
{
	JsonText	rest = {accept, accept != NULL ? strlen(accept) : 0};
	MediaClause clause;
	Document   *best = NULL;
	double		best_quality = 0;
	size_t		clauses = 0;

	*yaml = false;
	if (accept_trim(rest).len == 0)
		return documents;
	for (; clauses < ACCEPT_CLAUSES_MAX && take_media_clause(&rest, &clause); clauses++)
	{
		/* Among equal qualities the first clause wins. */
		for (size_t i = 0; i < count && clause.quality > best_quality; i++)
		{
			bool		as_yaml;

			if (!clause_accepts(&clause, &documents[i], i == 0, &as_yaml))
				continue;
			best = &documents[i];
			*yaml = as_yaml;
			best_quality = clause.quality;
		}
	}
	return best;
}

/* Whether the value of If-None-Match, a list of entity tags or *, matches the tag. */
static bool
etag_matches(const char *header, const char *etag)
{
	JsonText	rest = {header, header != NULL ? strlen(header) : 0};
	JsonText	wanted = unquoted((JsonText) {etag, strlen(etag)});

	while (rest.bytes != NULL)
	{
		JsonText	tag = unquoted(accept_cut(rest, ',', &rest));

		if (tag.len > 2 && memcmp(tag.bytes, "W/", 2) == 0)
			tag = unquoted((JsonText) {tag.bytes + 2, tag.len - 2});
		if (json_text_is(tag, "*") || json_text_compare(tag, wanted) == 0)
			return true;
	}
	return false;
}

/* ---------- answers ---------- */

void
registry_answer_unknown(Exchange *exchange)
{
	StatusDetails details = {.retry_after_seconds = 5};

	reply_status(exchange, 503, "ServiceUnavailable",
				 "the request has been made before all known HTTP paths have been installed, please try again",
				 &details);
}

/* Whether the query has a hash, from an entry of the index, that the document still has (OAPI-02). */
static bool
hash_matches(const Exchange *exchange, const Document *document)
{
	const JsonText *hash = route_parameter(exchange->route, "hash");

	return hash != NULL && hash->len > 0 && strncmp(document->path, "/openapi/v3/", 12) == 0 &&
		json_text_compare(*hash, unquoted((JsonText) {document->etag, strlen(document->etag)})) == 0;
}

/* Returns the body in the requested form, which is made once. */
static JsonText
document_form(Document *document, DocumentForm form, bool gzip)
{
	Arena	   *arena = &current_documents->arena;
	JsonText   *plain = &document->forms[form];
	JsonText   *compressed = &document->compressed[form];

	if (plain->bytes == NULL && form == FORM_YAML)
		*plain = encode_yaml(arena, document->forms[FORM_COMPACT]);
	else if (plain->bytes == NULL)
		*plain = reply_indented(arena, document->forms[FORM_COMPACT]);
	if (gzip && compressed->bytes == NULL)
		*compressed = encode_gzip(arena, *plain);
	return gzip ? *compressed : *plain;
}

static void
send_document(Exchange *exchange, Document *document, bool yaml)
{
	HttpHeader	headers[7] = {{"content-type", document->content_type}, {"vary", "Accept"}};
	size_t		count = 2;
	DocumentForm form;
	bool		gzip = document->forms[FORM_COMPACT].len >= GZIP_FROM &&
	encoding_accepts_gzip(http_header(exchange->http, "accept-encoding"));
	JsonText	body;

	/* The YAML type with the parameters of the JSON type. */
	if (yaml)
		headers[0].value = arena_printf(&exchange->arena, YAML_TYPE "%s",
										document->content_type + strcspn(document->content_type, ";"));

	if (document->etag[0] != '\0')
		headers[count++] = (HttpHeader) {"etag", document->etag};
	if (hash_matches(exchange, document))
	{
		time_t		then = time(NULL) + YEAR_SECONDS;
		struct tm	tm;
		char	   *expires = arena_alloc(&exchange->arena, 64);

		strftime(expires, 64, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&then, &tm));
		headers[count++] = (HttpHeader) {"cache-control", "public, immutable"};
		headers[count++] = (HttpHeader) {"expires", expires};
	}
	else if (strstr(document->content_type, "as=APIGroupDiscoveryList") != NULL)
		headers[count++] = (HttpHeader) {"cache-control", "public"};

	loop_timer_stop(&exchange->deadline);
	if (document->etag[0] != '\0' && etag_matches(http_header(exchange->http, "if-none-match"), document->etag))
	{
		exchange->code = 304;
		http_reply(exchange->http, 304, headers + 1, count - 1, "", 0);
		return;
	}
	if (gzip)
	{
		headers[1].value = "Accept, Accept-Encoding";
		headers[count++] = (HttpHeader) {"content-encoding", "gzip"};
	}
	exchange->code = 200;
	form = yaml ? FORM_YAML : document->discovery && reply_is_pretty(exchange, 200) ? FORM_INDENTED : FORM_COMPACT;
	body = document_form(document, form, gzip);
	current_documents->references++;
	http_reply_borrowed(exchange->http, 200, headers, count, body.bytes, body.len, documents_release,
						current_documents);
}

void
registry_answer(Exchange *exchange)
{
	Document   *documents;
	Document   *document;
	size_t		count;
	bool		yaml;

	if (current == NULL)
	{
		registry_answer_unknown(exchange);
		return;
	}
	documents = find_documents(exchange->route->path, &count);
	if (documents == NULL)
	{
		reply_plain(exchange, 404, "404 page not found\n", 0);
		return;
	}
	if (strcmp(exchange->route->method, "GET") != 0 && strcmp(exchange->route->method, "HEAD") != 0)
	{
		reply_method_not_allowed(exchange, NULL);
		return;
	}
	document = fitting_document(documents, count, http_header(exchange->http, "accept"), &yaml);
	if (document == NULL)
	{
		StrBuf		message;

		strbuf_init(&message, &exchange->arena);
		strbuf_puts(&message, "only the following media types are accepted: ");
		for (size_t i = 0; i < count; i++)
			strbuf_printf(&message, "%s%s", i > 0 ? ", " : "", documents[i].content_type);
		strbuf_puts(&message, documents->discovery ? ", " YAML_TYPE : "");
		reply_status(exchange, 406, "NotAcceptable", message.bytes, NULL);
		return;
	}
	send_document(exchange, document, yaml);
}
