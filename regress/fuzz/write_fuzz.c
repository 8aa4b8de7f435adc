/*-------------------------------------------------------------------------
 *
 * write_fuzz.c
 *	  Fuzz target: writes to one object.
 *
 * The input is a request, a body, and the stored metadata and body (both
 * empty if nothing is stored), each but the last ended by a newline. An
 * outcome is always complete.  A created object can be written again, which
 * changes nothing, and can be deleted.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/api/metadata.h"
#include "engine/writes/write.h"

static const char schema_text[] =
"{\"type\":\"object\",\"properties\":{"
"\"spec\":{\"type\":\"object\",\"required\":[\"x\"],\"properties\":{\"x\":{\"type\":\"integer\",\"maximum\":10},"
"\"mode\":{\"type\":\"string\",\"default\":\"auto\",\"enum\":[\"auto\",\"manual\"]}}},"
"\"results\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"policy\":{\"type\":\"string\"}}}},"
"\"summary\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}},"
"\"any\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true},"
"\"status\":{\"type\":\"object\",\"properties\":{\"phase\":{\"type\":\"string\",\"maxLength\":5}}}}}";

static const WriteContext context = {
	.now = INT64_C(1767225600), .uid = "6f000000-0000-4000-8000-000000000000", .random = {1, 2, 3, 4, 5},
	.max_body = 1024 * 1024, .fill_summary = true
};

/* Compiles the definition once for all inputs. */
static const Definition *
definition(void)
{
	static Definition made = {
		.group = "openreports.io", .version = "v1alpha1", .api_version = "openreports.io/v1alpha1", .kind = "Report",
		.list_kind = "ReportList", .plural = "reports", .singular = "report", .namespaced = true,
		.status_subresource = true
	};
	static Arena arena;
	FieldErrorList errors;
	JsonError	error;

	if (made.schema == NULL)
	{
		arena_init(&arena);
		field_errors_init(&errors, &arena);
		made.schema = schema_compile(&arena, json_parse(&arena, schema_text, strlen(schema_text), NULL, NULL, &error),
									 "schema", &errors);
		check(made.schema != NULL);
	}
	return &made;
}

static bool
same_tree(const JsonNode *a, const JsonNode *b)
{
	if (!json_same(a, b) || a->kind != b->kind)
		return false;
	for (size_t i = 0; a->kind == JSON_KIND_ARRAY && i < a->u.array.count; i++)
		if (!same_tree(a->u.array.items[i], b->u.array.items[i]))
			return false;
	for (size_t i = 0; a->kind == JSON_KIND_OBJECT && i < a->u.object.count; i++)
		if (!same_tree(a->u.object.members[i].value, b->u.object.members[i].value))
			return false;
	return true;
}

/* Results are read from the tree of a document, later also from its text. */
static void
check_settled(Arena *arena, const JsonNode *node)
{
	JsonNode   *settled = json_clone(arena, node);
	JsonText	text = json_text_of(arena, node);
	JsonError	error;

	json_settle(arena, settled);
	check(same_tree(settled, json_parse(arena, text.bytes, text.len, NULL, NULL, &error)));
}

static void
check_outcome(Arena *arena, const WriteOutcome *outcome)
{
	JsonError	error;

	check(outcome->namespace_name != NULL && outcome->name != NULL);
	if (outcome->action == WRITE_PENDING)
		return;
	check((outcome->status == NULL) == (outcome->metadata != NULL));
	check((outcome->metadata == NULL) == (outcome->body == NULL));
	if (outcome->status != NULL)
	{
		const JsonNode *status = json_parse(arena, outcome->status, outcome->status_len, NULL, NULL, &error);

		check(json_string_is(json_get(status, "kind"), "Status"));
		check(outcome->status[outcome->status_len - 1] == '\n');
		check(outcome->code >= 400 ? json_get(status, "code")->u.integer == outcome->code : outcome->code == 200);
		check(outcome->action == WRITE_ANSWER || outcome->code < 400);
		return;
	}
	check(outcome->code == 200 || outcome->code == 201 || outcome->code == 202);
	check(outcome->metadata->kind == JSON_KIND_OBJECT && outcome->body->kind == JSON_KIND_OBJECT);
	check(json_get(outcome->metadata, "resourceVersion") == NULL);
	check(json_get(outcome->body, "metadata") == NULL && json_get(outcome->body, "kind") == NULL);
	check_settled(arena, outcome->metadata);
	check_settled(arena, outcome->body);
}

static void
run(Arena *arena, const ApiRequest *request, JsonText body, const StoredObject *stored, WriteOutcome *outcome)
{
	WriteOutcome admitted;

	write_admit(arena, definition(), request, body.bytes, body.len, &context, &admitted);
	check_outcome(arena, &admitted);
	*outcome = admitted;
	if (admitted.action != WRITE_PENDING)
		return;
	write_decide(arena, definition(), request, body.bytes, body.len, &context, &admitted, stored, outcome);
	check_outcome(arena, outcome);
	check(outcome->action != WRITE_PENDING);
}

static JsonText
print(Arena *arena, const JsonNode *node)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	json_write(&buf, node);
	return (JsonText) {buf.bytes, buf.len};
}

/* Writes a created object again as it is read, and deletes it. */
static void
check_stored(Arena *arena, const ApiRequest *created, const WriteOutcome *insert)
{
	StoredObject stored = {
		.metadata = print(arena, insert->metadata), .body = print(arena, insert->body), .version = 7
	};
	ApiRequest	request = *created;
	JsonNode   *document = json_clone(arena, insert->body);
	JsonNode   *metadata = json_clone(arena, insert->metadata);
	bool		held = json_get(metadata, "finalizers") != NULL;
	JsonText	empty = {"", 0};
	WriteOutcome outcome;

	check(json_string_is(json_get(metadata, "uid"), context.uid));
	json_set(arena, metadata, "resourceVersion", json_new_cstring(arena, "7"));
	json_set(arena, document, "apiVersion", json_new_cstring(arena, definition()->api_version));
	json_set(arena, document, "kind", json_new_cstring(arena, definition()->kind));
	json_set(arena, document, "metadata", metadata);
	request.name = insert->name;
	request.namespace_name = insert->namespace_name;
	request.query = NULL;
	request.content_type = "";

	request.verb = "update";
	run(arena, &request, print(arena, document), &stored, &outcome);
	check(outcome.action == WRITE_ANSWER && outcome.code == 200);

	request.verb = "patch";
	request.content_type = "application/merge-patch+json";
	run(arena, &request, (JsonText) {"{}", 2}, &stored, &outcome);
	check(outcome.action == WRITE_ANSWER && outcome.code == 200);

	request.verb = "delete";
	request.content_type = "";
	run(arena, &request, empty, &stored, &outcome);
	check(outcome.code == 200 && outcome.action == (held ? WRITE_UPDATE : WRITE_DELETE));
}

/* DML by the owner: an accepted document has all the server's fields. */
static void
check_document(Arena *arena, const StoredObject *given)
{
	JsonError	error;
	JsonNode   *metadata = json_parse(arena, given->metadata.bytes, given->metadata.len, NULL, NULL, &error);
	JsonNode   *body = json_parse(arena, given->body.bytes, given->body.len, NULL, NULL, &error);
	FieldErrorList errors;

	if (metadata == NULL || body == NULL)
		return;
	field_errors_init(&errors, arena);
	if (!write_document(arena, definition(), metadata, body, NULL, &context, &errors))
	{
		check(errors.count > 0);
		return;
	}
	check(json_get(metadata, "uid") != NULL && json_get(metadata, "creationTimestamp") != NULL);
	check(json_get(metadata, "generation") != NULL && json_get(metadata, "name") != NULL);
}

/* Returns the text up to the next newline. */
static JsonText
next_line(const char **at, const char *end)
{
	const char *newline = *at < end ? memchr(*at, '\n', (size_t) (end - *at)) : NULL;
	JsonText	line = {*at, (size_t) ((newline != NULL ? newline : end) - *at)};

	*at = newline != NULL ? newline + 1 : end;
	return line;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *at = (const char *) bytes;
	const char *end = at + size;
	JsonText	request_text = next_line(&at, end);
	JsonText	body = next_line(&at, end);
	StoredObject stored = {.version = 7};
	ApiRequest	request;
	WriteOutcome outcome;
	Arena		arena;

	stored.metadata = next_line(&at, end);
	stored.body = (JsonText) {at, (size_t) (end - at)};

	arena_init(&arena);
	if (request_parse(&arena, request_text.bytes, request_text.len, &request))
	{
		bool		collection = strcmp(request.verb, "deletecollection") == 0;

		if (stored.metadata.len > 0 || !collection)
		{
			run(&arena, &request, body, stored.metadata.len > 0 ? &stored : NULL, &outcome);
			if (outcome.action == WRITE_INSERT)
				check_stored(&arena, &request, &outcome);
		}
	}
	if (stored.metadata.len > 0)
		check_document(&arena, &stored);
	arena_free(&arena);
	return 0;
}
