/*-------------------------------------------------------------------------
 *
 * write_apply.c
 *	  Server-side apply.
 *
 * A patch of type application/apply-patch+yaml; a body in YAML is converted to
 * JSON before.  If the object does not exist, it is created.  In both cases the
 * merged object is handled like any other update or create.
 *
 * Reference: k8s-conformance section 13.5.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/writes/write_private.h"

/* Answers an error for which upstream has no specific Status. */
static bool
refuse_failed(Writing *writing, const char *message)
{
	status_failure(&writing->reply, 500, "", message, NULL);
	return write_refuse(writing, 500);
}

/* A string member of the applied configuration; "" when it is absent. */
static const char *
config_text(Writing *writing, const char *key)
{
	const char *text = json_get_cstring(writing->arena, writing->admitted->patch, key);

	return text != NULL ? text : "";
}

bool
write_admit_apply(Writing *writing)
{
	Arena	   *arena = writing->arena;
	JsonError	error = {.message = writing->request->decode_error};

	/* An empty body is YAML's null. */
	if (writing->body_len == 0)
		writing->admitted->patch = json_new_null(arena);
	else if (error.message[0] == '\0')
		writing->admitted->patch = json_parse(arena, writing->body, writing->body_len, NULL, NULL, &error);
	return writing->admitted->patch != NULL ||
		write_bad_request(writing, arena_printf(arena, "error decoding YAML: %s", error.message));
}

/* Checks the type of the applied configuration; answers 400 for another type (SSA-01). */
static bool
check_config(Writing *writing)
{
	Arena	   *arena = writing->arena;
	const JsonNode *config = writing->admitted->patch;
	const char *version = config_text(writing, "apiVersion");
	const char *slash = strchr(version, '/');

	if (config->kind != JSON_KIND_OBJECT && config->kind != JSON_KIND_NULL)
		return write_bad_request(writing,
								 arena_printf(arena, "error decoding patch: error unmarshaling JSON: while decoding "
											  "JSON: "
											  "json: cannot unmarshal %s into Go value of type map[string]interface {}",
											  json_go_kind_name(config->kind)));
	if (strcmp(version, writing->definition->api_version) == 0 &&
		strcmp(config_text(writing, "kind"), writing->definition->kind) == 0)
		return true;

	/* With a malformed apiVersion, the message shows an empty type. */
	if (slash != NULL && strchr(slash + 1, '/') != NULL)
		return write_bad_request(writing, "invalid object type: /, Kind=");
	return write_bad_request(writing,
							 arena_printf(arena, "invalid object type: %.*s/%s, Kind=%s",
										  slash != NULL ? (int) (slash - version) : 0, version,
										  slash != NULL ? slash + 1 : version, config_text(writing, "kind")));
}

/* Merges the applied configuration into the object; NULL when the apply was refused. */
static JsonNode *
merge_config(Writing *writing, const JsonNode *live)
{
	FieldWrite	fields = write_fields(writing);
	bool		force = request_query_bool(writing->arena, writing->request, "force");
	bool		strict = writing->admitted->options.validation == FIELD_VALIDATION_STRICT;
	FieldApply	apply = {0};
	StatusDetails details = {0};

	switch (field_owner_apply(&fields, live, writing->admitted->patch, force, &apply))
	{
		case FIELD_APPLY_OK:
			return apply.document;
		case FIELD_APPLY_MALFORMED:
			write_bad_request(writing, apply.error);
			break;
		case FIELD_APPLY_UNDECLARED:
			if (strict)
				write_bad_request(writing, apply.error);
			else
				refuse_failed(writing, apply.error);
			break;
		case FIELD_APPLY_CONFLICT:
			details.causes = apply.causes;
			details.cause_count = apply.cause_count;
			status_failure(&writing->reply, 409, "Conflict", apply.error, &details);
			write_refuse(writing, 409);
			break;
		case FIELD_APPLY_FAILED:
			refuse_failed(writing, apply.error);
			break;
	}
	return NULL;
}

/* SSA-09: handles keys that the body sets twice, which the proxy has found. */
static bool
settle_duplicates(Writing *writing)
{
	const JsonNode *duplicates = writing->request->duplicates;
	FieldValidation validation = writing->admitted->options.validation;
	StrBuf		buf;

	if (validation == FIELD_VALIDATION_IGNORE || duplicates == NULL || duplicates->u.array.count == 0)
		return true;
	strbuf_init(&buf, writing->arena);
	strbuf_puts(&buf, "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:");
	for (size_t i = 0; i < duplicates->u.array.count; i++)
	{
		JsonText	text = duplicates->u.array.items[i]->u.string;

		strbuf_puts(&buf, "\n  ");
		strbuf_append(&buf, text.bytes, text.len);
		if (validation == FIELD_VALIDATION_WARN)
			write_warn(writing, arena_strndup(writing->arena, text.bytes, text.len));
	}
	return validation == FIELD_VALIDATION_WARN || write_bad_request(writing, buf.bytes);
}

/* Members of metadata that the server sets and an apply cannot; the last two only for an apply that creates. */
static const char *const server_members[] = {
	"creationTimestamp", "generation", "selfLink", "deletionGracePeriodSeconds", "deletionTimestamp"
};

#define SERVER_MEMBERS (sizeof(server_members) / sizeof(server_members[0]))
#define SERVER_MEMBERS_OF_UPDATES 3

/* Members that do not count for is_reworded(), because an update completes or ignores them. */
static const char *const completed_members[] = {"name", "namespace", "resourceVersion", "uid"};

#define COMPLETED_MEMBERS (sizeof(completed_members) / sizeof(completed_members[0]))

/* Whether admission changed the merged metadata. */
static bool
is_reworded(Arena *arena, const JsonNode *merged, const JsonNode *shaped)
{
	JsonNode   *left = json_clone(arena, merged);
	JsonNode   *right = json_clone(arena, shaped);

	for (size_t i = 0; i < COMPLETED_MEMBERS; i++)
	{
		json_remove(left, completed_members[i]);
		json_remove(right, completed_members[i]);
	}
	return !json_same(left, right);
}

/*
 * Admits the merged document; live_metadata is NULL if the object does not exist yet.  The members that the server sets
 * are ignored in the apply (CRE-03).  The types of the other members are already checked; a value that still cannot be
 * read is invalid.
 */
static bool
shape_merged(Writing *writing, JsonNode *document, const JsonNode *live_metadata)
{
	Arena	   *arena = writing->arena;
	const Definition *definition = writing->definition;
	JsonNode   *metadata = json_get(document, "metadata");
	size_t		count = live_metadata != NULL ? SERVER_MEMBERS_OF_UPDATES : SERVER_MEMBERS;
	DocumentAdmission admission = {.applied = true};
	DocumentRefusal refusal;
	FieldErrorList errors;
	JsonNode   *merged;

	for (size_t i = 0; i < count; i++)
		write_take_member(arena, metadata, live_metadata, server_members[i]);
	merged = json_clone(arena, metadata);
	if (!document_admit(arena, definition, document, &admission, &refusal))
	{
		field_errors_init(&errors, arena);
		field_error_at(&errors, FIELD_INVALID, "metadata", merged, refusal.message);
		status_invalid(&writing->reply, definition->kind, definition->group, writing->request->name, &errors);
		return write_refuse(writing, 422);
	}
	writing->reworded = is_reworded(arena, merged, metadata);
	return true;
}

/*
 * Refuses a malformed version.  A well-formed one is ignored, because the object does not exist.
 */
static bool
check_version_text(Writing *writing, const JsonNode *document)
{
	const char *text = metadata_text(writing->arena, document, "resourceVersion");
	const char *error;
	int64_t		version;

	return text[0] == '\0' || parse_go_version(writing->arena, text, &version, &error) || refuse_failed(writing, error);
}

/* Creates an object that does not exist yet; the user must also be allowed to create (AUTHZ-13). */
static void
apply_to_nothing(Writing *writing)
{
	Arena	   *arena = writing->arena;
	const Definition *definition = writing->definition;
	const ApiRequest *request = writing->request;
	WriteOutcome *outcome = writing->outcome;
	StatusDetails details = {.name = request->name, .group = definition->group, .kind = definition->plural};
	bool		dry_run = writing->admitted->options.dry_run;
	JsonNode   *live = json_new_object(arena);
	JsonNode   *document;
	const char *uid;

	json_set(arena, live, "apiVersion", json_new_cstring(arena, definition->api_version));
	json_set(arena, live, "kind", json_new_cstring(arena, definition->kind));
	document = merge_config(writing, live);
	if (document == NULL || !shape_merged(writing, document, NULL) || !settle_duplicates(writing))
		return;
	uid = metadata_text(arena, document, "uid");
	if (uid[0] != '\0')
	{
		write_conflict(writing, arena_printf(arena,
											 "uid mismatch: the provided object specified uid %s, and no existing "
											 "object was found", uid));
		return;
	}
	if (!write_agree_namespace(writing, document) || !write_agree_name(writing, document))
		return;
	write_dedup_owners(writing, document, true);
	if (!check_version_text(writing, document))
		return;
	write_set_system_fields(writing, document);
	if (!write_check_create(writing, document))
		return;
	if (!request->may_create)
	{
		status_failure(&writing->reply, 403, "Forbidden", request->create_denial, &details);
		write_refuse(writing, 403);
		return;
	}
	write_answer_object(writing, dry_run ? WRITE_ANSWER : WRITE_INSERT, 201, document, !dry_run);
	outcome->name = metadata_text(arena, document, "name");
}

void
write_decide_apply(Writing *writing)
{
	JsonNode   *document;
	OldObject	old;

	if (writing->stored == NULL && writing->request->subresource[0] != '\0')
	{
		write_not_found(writing);
		return;
	}
	if (!check_config(writing))
		return;
	if (writing->stored == NULL)
	{
		apply_to_nothing(writing);
		return;
	}
	if (!write_parse_stored(writing, true, &old))
		return;
	document = merge_config(writing, write_versioned_copy(writing, &old));
	if (document == NULL || !shape_merged(writing, document, old.metadata) || !settle_duplicates(writing) ||
		!write_agree_namespace(writing, document) || !write_agree_name(writing, document))
		return;
	write_dedup_owners(writing, document, true);
	write_update_object(writing, document, &old);
}
