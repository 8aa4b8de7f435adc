/*-------------------------------------------------------------------------
 *
 * write.c
 *	  Writes to one object: entry points, options, answers.
 *
 * An outcome is always complete: it is pending, or has a Status, or has an
 * object.  The verbs are in write_create.c, write_update.c, write_patch.c and
 * write_delete.c; write_document.c handles documents.
 *
 * Reference: k8s-conformance sections 6 to 8, 12 to 14.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/writes/write_private.h"

#include <stdio.h>
#include <string.h>

#include "engine/api/managed_fields.h"
#include "engine/base/ascii.h"
#include "engine/base/utf8.h"

/* Limits of the warnings of one answer: number, total runes, and runes of each when the total is larger (WARN-01). */
#define WARNINGS_MAX 1000
#define WARNING_RUNES_TOTAL 4096
#define WARNING_RUNES_EACH 256

/* The content types of bodies; the first is the default.  The proxy converts YAML to JSON. */
static const struct
{
	const char *type;
	bool		options;		/* for DeleteOptions only */
}			body_types[] = {
	{"application/json", false},
	{"application/yaml", false},
	{PROTOBUF_TYPE, true},
};

#define BODY_TYPES (sizeof(body_types) / sizeof(body_types[0]))

/*
 * Answers
 */

void
write_answer_status(Writing *writing, WriteAction action, int code)
{
	WriteOutcome *outcome = writing->outcome;

	outcome->action = action;
	outcome->code = code;
	outcome->metadata = NULL;
	outcome->body = NULL;
	outcome->versioned = false;
	outcome->status = writing->reply.bytes;
	outcome->status_len = writing->reply.len;
}

bool
write_refuse(Writing *writing, int code)
{
	write_answer_status(writing, WRITE_ANSWER, code);
	return false;
}

bool
write_bad_request(Writing *writing, const char *message)
{
	status_bad_request(&writing->reply, message);
	return write_refuse(writing, 400);
}

bool
write_not_found(Writing *writing)
{
	status_not_found(&writing->reply, writing->definition->group, writing->definition->plural,
					 writing->request->name);
	return write_refuse(writing, 404);
}

void
write_warn(Writing *writing, const char *text)
{
	WriteOutcome *outcome = writing->outcome;

	StrBuf		header;

	if (outcome->warnings == NULL)
		outcome->warnings = json_new_array(writing->arena);
	if (outcome->warnings->u.array.count >= WARNINGS_MAX)
		return;

	/* As upstream, no NUL reaches the header. */
	strbuf_init(&header, writing->arena);
	for (const char *nul = strstr(text, JSON_NUL); nul != NULL; nul = strstr(text, JSON_NUL))
	{
		strbuf_append(&header, text, (size_t) (nul - text));
		text = nul + strlen(JSON_NUL);
	}
	if (header.len > 0)
	{
		strbuf_puts(&header, text);
		text = header.bytes;
	}
	for (size_t i = 0; i < outcome->warnings->u.array.count; i++)
		if (json_string_is(outcome->warnings->u.array.items[i], text))
			return;
	json_append(writing->arena, outcome->warnings, json_new_cstring(writing->arena, text));
}

/* The length in bytes of the first runes of a text; *runes is their number, limited by most. */
static size_t
rune_prefix(JsonText text, size_t most, size_t *runes)
{
	size_t		at = 0;

	for (*runes = 0; at < text.len && *runes < most; (*runes)++)
	{
		uint32_t	rune;
		size_t		width = utf8_decode(text.bytes + at, text.len - at, &rune);

		at += width > 0 ? width : 1;
	}
	return at;
}

/* When the warnings are too long for headers, cuts each of them and drops the last ones. */
static void
limit_warnings(JsonNode *warnings)
{
	size_t		total = 0;
	size_t		runes;

	if (warnings == NULL)
		return;
	for (size_t i = 0; i < warnings->u.array.count; i++)
	{
		rune_prefix(warnings->u.array.items[i]->u.string, SIZE_MAX, &runes);
		total += runes;
	}
	if (total <= WARNING_RUNES_TOTAL)
		return;
	total = 0;
	for (size_t i = 0; i < warnings->u.array.count; i++)
	{
		JsonText   *text = &warnings->u.array.items[i]->u.string;

		if (total >= WARNING_RUNES_TOTAL)
		{
			warnings->u.array.count = i;
			break;
		}
		text->len = rune_prefix(*text, WARNING_RUNES_EACH, &runes);
		total += runes;
	}
}

void
write_answer_object(Writing *writing, WriteAction action, int code, const JsonNode *document, bool versioned)
{
	WriteOutcome *outcome = writing->outcome;

	outcome->action = action;
	outcome->code = code;
	outcome->metadata = json_get(document, "metadata");
	json_remove(outcome->metadata, "resourceVersion");
	outcome->body = document_body(writing->arena, document);
	outcome->uid = json_get_cstring(writing->arena, outcome->metadata, "uid");
	outcome->versioned = versioned;
	outcome->status = NULL;
	outcome->status_len = 0;
}

/*
 * The parts of a request
 */

bool
write_has_content_type(const Writing *writing, const char *wanted)
{
	const char *type = writing->request->content_type;
	size_t		len = strcspn(type, ";");

	while (len > 0 && (*type == ' ' || *type == '\t'))
	{
		type++;
		len--;
	}
	while (len > 0 && (type[len - 1] == ' ' || type[len - 1] == '\t'))
		len--;
	return strlen(wanted) == len && ascii_same(type, wanted, len);
}

bool
write_check_content_type(Writing *writing, bool options)
{
	StrBuf		message;

	if (writing->request->content_type[0] == '\0')
		return true;
	strbuf_init(&message, writing->arena);
	strbuf_puts(&message, "the body of the request was in an unknown format - accepted media types include: ");
	for (size_t i = 0; i < BODY_TYPES; i++)
	{
		if (body_types[i].options && !options)
			continue;
		if (write_has_content_type(writing, body_types[i].type))
			return true;
		strbuf_printf(&message, "%s%s", i > 0 ? ", " : "", body_types[i].type);
	}
	status_failure(&writing->reply, 415, "UnsupportedMediaType", message.bytes, NULL);
	return write_refuse(writing, 415);
}

bool
write_check_size(Writing *writing)
{
	if (writing->body_len <= writing->context->max_body)
		return true;
	status_failure(&writing->reply, 413, "RequestEntityTooLarge",
				   arena_printf(writing->arena, "Request entity too large: limit is %zu", writing->context->max_body),
				   NULL);
	return write_refuse(writing, 413);
}

/* values is an array of strings or NULL. */
void
write_check_dry_run(const JsonNode *values, WriteOptions *options, FieldErrorList *errors)
{
	if (values == NULL)
		return;
	for (size_t i = 0; i < values->u.array.count; i++)
	{
		if (json_string_is(values->u.array.items[i], "All"))
			continue;
		field_error_at(errors, FIELD_NOT_SUPPORTED, "dryRun", values, "supported values: \"All\"");
		break;
	}
	options->dry_run = values->u.array.count > 0;
}

static void
check_field_validation(Arena *arena, const char *name, WriteOptions *options, FieldErrorList *errors)
{
	if (strcmp(name, "Strict") == 0)
		options->validation = FIELD_VALIDATION_STRICT;
	else if (strcmp(name, "Ignore") == 0)
		options->validation = FIELD_VALIDATION_IGNORE;
	else if (name[0] == '\0' || strcmp(name, "Warn") == 0)
		options->validation = FIELD_VALIDATION_WARN;
	else
		field_error_at(errors, FIELD_NOT_SUPPORTED, "fieldValidation", json_new_cstring(arena, name),
					   "supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"");
}

/* PAT-05: only an apply may have force, and an apply must have fieldManager. */
static void
check_patch_options(Writing *writing, FieldErrorList *errors)
{
	const PatchType *patch_type = writing->admitted->patch_type;

	if (patch_type == NULL)
		return;
	if (patch_type->apply == NULL && writing->admitted->options.owner[0] == '\0')
		field_error_at(errors, FIELD_REQUIRED, "fieldManager", NULL, "is required for apply patch");
	if (patch_type->apply != NULL && request_query(writing->arena, writing->request, "force") != NULL)
		field_error_at(errors, FIELD_FORBIDDEN, "force", NULL, "may not be specified for non-apply patch");
}

/* CRE-07: without a fieldManager, the name of the client's program in User-Agent is the name of the owner. */
static const char *
owner_of_agent(Arena *arena, const char *agent)
{
	size_t		len = strcspn(agent, "/");
	size_t		width;
	StrBuf		name;

	strbuf_init(&name, arena);
	for (size_t at = 0; at < len; at += width)
	{
		const char *bytes = agent + at;
		uint32_t	rune;

		width = utf8_decode(bytes, len - at, &rune);
		if (width == 0 || !rune_is_print(rune))
		{
			/* Go reads a bad byte as U+FFFD, which is printable. */
			if (width > 0)
				continue;
			width = 1;
			bytes = "\xEF\xBF\xBD";
		}
		if (name.len + (width == 1 && bytes != agent + at ? 3 : width) > FIELD_OWNER_NAME_MAX)
			break;
		strbuf_append(&name, bytes, bytes != agent + at ? 3 : width);
	}
	return name.len > 0 ? name.bytes : "";
}

/* Reads the options of creates, updates and patches. */
bool
write_take_options(Writing *writing, const char *kind)
{
	Arena	   *arena = writing->arena;
	WriteOptions *options = &writing->admitted->options;
	const char *owner = request_query(arena, writing->request, "fieldManager");
	const char *validation = request_query(arena, writing->request, "fieldValidation");
	FieldErrorList errors;

	field_errors_init(&errors, arena);
	options->owner = owner != NULL ? owner : "";
	check_patch_options(writing, &errors);
	managed_fields_check_owner("fieldManager", (JsonText) {options->owner, strlen(options->owner)}, &errors);
	write_check_dry_run(json_get(writing->request->query, "dryRun"), options, &errors);
	check_field_validation(arena, validation != NULL ? validation : "", options, &errors);
	if (options->owner[0] == '\0')
		options->owner = owner_of_agent(arena, writing->request->user_agent);
	if (errors.count == 0)
		return true;
	status_invalid(&writing->reply, kind, "meta.k8s.io", "", &errors);
	return write_refuse(writing, 422);
}

/* Sets the key of the object from the URL (REQ-07). */
bool
write_set_key(Writing *writing)
{
	const char *name = writing->request->name;
	const char *why = NULL;
	StrBuf		message;

	writing->outcome->namespace_name = writing->definition->namespaced ? writing->request->namespace_name : "";
	writing->outcome->name = name;
	if (name[0] == '\0')
		return write_bad_request(writing, "Name parameter required.");
	if (writing->definition->namespaced && writing->request->namespace_name[0] == '\0')
		return write_bad_request(writing, "Namespace parameter required.");
	if (strcmp(name, ".") == 0)
		why = "may not be '.'";
	else if (strcmp(name, "..") == 0)
		why = "may not be '..'";
	else if (strchr(name, '/') != NULL)
		why = strchr(name, '%') != NULL ? "may not contain '/';may not contain '%'" : "may not contain '/'";
	else if (strchr(name, '%') != NULL)
		why = "may not contain '%'";
	if (why == NULL)
		return true;
	strbuf_init(&message, writing->arena);
	strbuf_puts(&message, "Name parameter invalid: ");
	quote_text(&message, name, strlen(name));
	strbuf_printf(&message, ": %s", why);
	return write_bad_request(writing, message.bytes);
}

/* ADM-01: refuses to create an object in a missing or terminating namespace.  name is the name of the object. */
bool
write_check_namespace(Writing *writing, const char *name)
{
	Arena	   *arena = writing->arena;
	const Definition *definition = writing->definition;
	const char *namespace_name = writing->request->namespace_name;
	StatusDetails details = {.name = name, .group = definition->group, .kind = definition->plural, .cause_count = 1};
	StatusCause cause = {.reason = "NamespaceTerminating", .field = "metadata.namespace"};

	if (strcmp(writing->request->namespace_state, "missing") == 0)
	{
		status_not_found(&writing->reply, "", "namespaces", namespace_name);
		return write_refuse(writing, 404);
	}
	if (strcmp(writing->request->namespace_state, "terminating") != 0)
		return true;
	cause.message = arena_printf(arena, "namespace %s is being terminated", namespace_name);
	details.causes = &cause;
	status_failure(&writing->reply, 403, "Forbidden",
				   arena_printf(arena, "%s.%s %s is forbidden: unable to create new content in namespace %s because "
								"it is being "
								"terminated", definition->plural, definition->group, quoted(arena, name),
								namespace_name), &details);
	return write_refuse(writing, 403);
}

/*
 * Entry points
 */

typedef struct VerbSteps
{
	const char *verb;
	void		(*admit) (Writing *writing);
	void		(*decide) (Writing *writing);
	bool		on_status;		/* may be used on the status subresource */
} VerbSteps;

static const VerbSteps verbs[] = {
	{"create", write_admit_create, write_decide_create, false},
	{"update", write_admit_update, write_decide_update, true},
	{"patch", write_admit_patch, write_decide_patch, true},
	{"delete", write_admit_delete, write_decide_delete, false},
	{"deletecollection", write_admit_delete, write_decide_delete, false},
};

static const VerbSteps *
find_verb(const ApiRequest *request)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(request->verb, verbs[i].verb) == 0)
			return &verbs[i];
	return NULL;
}

void
write_context_init(WriteContext *context, const uint8_t *random, int64_t now, bool fill_summary)
{
	const uint8_t *r = random;

	context->now = now;
	context->max_body = WRITE_MAX_BODY;
	context->fill_summary = fill_summary;
	memcpy(context->random, random + 16, sizeof(context->random));
	/* RFC 4122: version 4 of variant 1. */
	snprintf(context->uid, sizeof(context->uid),
			 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			 r[0], r[1], r[2], r[3], r[4], r[5], (r[6] & 0x0f) | 0x40, r[7],
			 (r[8] & 0x3f) | 0x80, r[9], r[10], r[11], r[12], r[13], r[14], r[15]);
}

void
write_admit(Arena *arena, const Definition *definition, const ApiRequest *request,
			const char *body, size_t body_len, const WriteContext *context, WriteOutcome *outcome)
{
	const VerbSteps *steps = find_verb(request);
	Writing		writing = {
		.arena = arena, .definition = definition, .request = request, .context = context,
		.body = body, .body_len = body_len, .outcome = outcome
	};

	memset(outcome, 0, sizeof(*outcome));
	outcome->namespace_name = "";
	outcome->name = "";
	writing.admitted = arena_alloc0(arena, sizeof(AdmittedWrite));
	outcome->admitted = writing.admitted;
	strbuf_init(&writing.reply, arena);

	if (steps == NULL)
	{
		StatusDetails details = {.group = definition->group, .kind = definition->plural};

		status_failure(&writing.reply, 405, "MethodNotAllowed",
					   arena_printf(arena, "%s is not supported on resources of kind \"%s.%s\"",
									request->verb, definition->plural, definition->group), &details);
		write_refuse(&writing, 405);
	}
	else if (request->subresource[0] != '\0' &&
			 !(steps->on_status && definition->status_subresource && strcmp(request->subresource, "status") == 0))
		write_not_found(&writing);
	else
	{
		/* The first warning, because later ones may exceed the limits. */
		if (definition->rules_warning != NULL && steps->admit != write_admit_delete)
			write_warn(&writing, definition->rules_warning);
		steps->admit(&writing);
	}
	limit_warnings(outcome->warnings);
}

void
write_decide(Arena *arena, const Definition *definition, const ApiRequest *request,
			 const char *body, size_t body_len, const WriteContext *context,
			 const WriteOutcome *admitted, const StoredObject *stored, WriteOutcome *outcome)
{
	AdmittedWrite copy = *admitted->admitted;
	Writing		writing = {
		.arena = arena, .definition = definition, .request = request, .context = context,
		.body = body, .body_len = body_len, .admitted = &copy, .stored = stored, .outcome = outcome
	};

	*outcome = *admitted;
	outcome->admitted = NULL;
	if (admitted->warnings != NULL)
		outcome->warnings = json_clone(arena, admitted->warnings);
	strbuf_init(&writing.reply, arena);
	find_verb(request)->decide(&writing);
	/* This includes an apply that creates.  A create was checked before, when its document was not yet validated. */
	if (outcome->code == 201)
		write_check_namespace(&writing, outcome->name);
	limit_warnings(outcome->warnings);
}
