/*-------------------------------------------------------------------------
 *
 * write_update.c
 *	  Updates (PUT), and the end that patches share with them.
 *
 * Updates, patches and applies end in write_update_object(): the new object is
 * checked, completed and compared with the stored object by the same rules.  A
 * write that changes nothing is answered with the stored version.
 *
 * Reference: k8s-conformance sections 12, 13.1 to 13.4.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/writes/write_private.h"

bool
write_conflict(Writing *writing, const char *why)
{
	status_conflict(&writing->reply, writing->definition->group, writing->definition->plural,
					writing->request->name, why);
	return write_refuse(writing, 409);
}

/* Answers 409 for another version than that of the stored object, 422 for no version, 500 for a malformed one. */
static bool
check_resource_version(Writing *writing, const JsonNode *document)
{
	Arena	   *arena = writing->arena;
	const char *text = metadata_text(arena, document, "resourceVersion");
	const char *error;
	int64_t		version = 0;
	FieldErrorList errors;

	if (text[0] != '\0' && !parse_go_version(arena, text, &version, &error))
	{
		status_failure(&writing->reply, 500, "", error, NULL);
		return write_refuse(writing, 500);
	}
	if (version == 0)
	{
		field_errors_init(&errors, arena);
		field_error_at(&errors, FIELD_INVALID, "metadata.resourceVersion", json_new_integer(arena, 0),
					   "must be specified for an update");
		status_invalid(&writing->reply, writing->definition->plural, writing->definition->group,
					   writing->request->name, &errors);
		return write_refuse(writing, 422);
	}
	if (version != writing->stored->version)
		return write_conflict(writing, "the object has been modified; please apply your changes to the latest version "
							  "and try again");
	return true;
}

/* Copies a member that the old metadata has: always, or only when the new metadata lacks it. */
static void
take_old(Arena *arena, JsonNode *metadata, const OldObject *old, const char *key, bool always)
{
	JsonNode   *value = json_get(old->metadata, key);

	if (value != NULL && (always || json_get(metadata, key) == NULL))
		json_set(arena, metadata, key, value);
}

/* Copies a member from another object, or removes it when the other object lacks it or is NULL. */
void
write_take_member(Arena *arena, JsonNode *object, const JsonNode *from, const char *key)
{
	JsonNode   *value = json_get(from, key);

	if (value != NULL)
		json_set(arena, object, key, value);
	else
		json_remove(object, key);
}

/* Completes an update of the main resource: sets the members that the server controls. */
static void
complete_main(Writing *writing, JsonNode *document, const OldObject *old)
{
	Arena	   *arena = writing->arena;
	JsonNode   *metadata = json_get(document, "metadata");
	int64_t		generation = metadata_generation(old->metadata);

	if (writing->definition->status_subresource)
		write_take_member(arena, document, old->document, "status");
	if (generation == 0)
		generation = 1;
	json_set(arena, metadata, "generation",
			 json_same(document_body(arena, document), document_body(arena, old->document)) ?
			 json_new_integer(arena, generation) : next_generation(arena, generation));
	take_old(arena, metadata, old, "uid", false);
	take_old(arena, metadata, old, "creationTimestamp", true);
	take_old(arena, metadata, old, "deletionTimestamp", true);
	take_old(arena, metadata, old, "deletionGracePeriodSeconds", false);
}

/* Completes an update of the status: the old object with the new status and managed fields (UPD-08). */
static JsonNode *
complete_status(Writing *writing, const JsonNode *document, const OldObject *old)
{
	JsonNode   *completed = json_clone(writing->arena, old->document);

	write_take_member(writing->arena, completed, document, "status");
	write_take_member(writing->arena, json_get(completed, "metadata"), json_get(document, "metadata"), "managedFields");
	return completed;
}

/* UPD-05: whether a terminating object has no finalizers any more. */
static bool
is_released(const JsonNode *document, const OldObject *old)
{
	const JsonNode *grace = json_get(old->metadata, "deletionGracePeriodSeconds");

	return json_get(json_get(document, "metadata"), "finalizers") == NULL &&
		json_get(old->metadata, "deletionTimestamp") != NULL && (grace == NULL || grace->u.integer == 0);
}

static bool
is_text(Arena *arena, const JsonNode *node, JsonText stored)
{
	StrBuf		text;

	strbuf_init(&text, arena);
	json_write(&text, node);
	return text.len == stored.len && memcmp(text.bytes, stored.bytes, text.len) == 0;
}

/*
 * UPD-04: whether the texts to store are the same as the stored texts.  If only times of managed fields changed, the
 * stored times stay.  Upstream stores an applied object as the client wrote it and converts it when it is read.  So an
 * apply that admission reworded is a change, each time it is repeated.
 */
static bool
is_stored(const Writing *writing, const OldObject *old)
{
	Arena	   *arena = writing->arena;
	WriteOutcome *outcome = writing->outcome;
	JsonNode   *fields = json_get(outcome->metadata, "managedFields");
	JsonNode   *old_fields = json_get(old->metadata, "managedFields");
	bool		same_owners = fields != NULL && field_owners_equal_but_times(fields, old_fields);

	if (writing->reworded)
		return false;
	if (same_owners)
		json_set(arena, outcome->metadata, "managedFields", old_fields);
	if (is_text(arena, outcome->metadata, writing->stored->metadata) &&
		is_text(arena, outcome->body, writing->stored->body))
		return true;
	if (same_owners)
		json_set(arena, outcome->metadata, "managedFields", fields);
	return false;
}

/* The owner and the target of the write, for managed fields. */
FieldWrite
write_fields(const Writing *writing)
{
	return (FieldWrite) {
		.arena = writing->arena, .type = field_type_of_object(writing->definition->schema),
		.api_version = writing->definition->api_version, .owner = writing->admitted->options.owner,
		.subresource = writing->request->subresource,
		.status_subresource = writing->definition->status_subresource, .now = writing->context->now
	};
}

/* Checks, completes and answers an update of the old object.  The managed fields of document are already set. */
void
write_update_object(Writing *writing, JsonNode *document, const OldObject *old)
{
	WriteOutcome *outcome = writing->outcome;

	if (!check_resource_version(writing, document))
		return;
	if (writing->request->subresource[0] != '\0')
		document = complete_status(writing, document, old);
	else
	{
		if (writing->context->fill_summary)
			summary_fill(writing->arena, document);
		complete_main(writing, document, old);
	}
	if (!write_validate(writing, document, old))
		return;
	write_warn_finalizers(writing, document, old);

	write_answer_object(writing, WRITE_UPDATE, 200, document, true);
	if (is_released(document, old))
		outcome->action = WRITE_DELETE;
	else if (is_stored(writing, old))
		outcome->action = WRITE_ANSWER;
	if (writing->admitted->options.dry_run)
		outcome->action = WRITE_ANSWER;
}

/* An update that is no apply: the writer becomes the owner of the changed fields. */
void
write_update_owned(Writing *writing, JsonNode *document, const OldObject *old)
{
	FieldWrite	fields = write_fields(writing);

	field_owner_update(&fields, document, old->document);
	write_update_object(writing, document, old);
}

/* A copy of the stored object as a client sees it; the caller may change it. */
JsonNode *
write_versioned_copy(Writing *writing, const OldObject *old)
{
	JsonNode   *document = json_clone(writing->arena, old->document);
	const char *version = arena_printf(writing->arena, "%lld", (long long) writing->stored->version);

	json_set(writing->arena, json_get(document, "metadata"), "resourceVersion",
			 json_new_cstring(writing->arena, version));
	return document;
}

/*
 * PUT
 */

void
write_admit_update(Writing *writing)
{
	WriteOutcome *outcome = writing->outcome;
	JsonNode   *document;
	int			code;

	if (!request_negotiate(writing->arena, writing->request, false, false, &outcome->transform, &code, &writing->reply))
	{
		write_refuse(writing, code);
		return;
	}
	if (!write_check_size(writing) || !write_take_options(writing, "UpdateOptions") ||
		!write_check_content_type(writing, false) ||
		(document = write_decode_body(writing)) == NULL ||
		!write_check_version(writing, document) || !write_agree_namespace(writing, document) ||
		!write_agree_name(writing, document) || !write_set_key(writing))
		return;
	write_dedup_owners(writing, document, false);
	writing->admitted->document = document;
	outcome->action = WRITE_PENDING;
}

/* The uid in a body is a precondition: answers 409 if the stored object has another uid. */
static bool
check_uid(Writing *writing, const JsonNode *document, const char *stored_uid)
{
	const char *uid = metadata_text(writing->arena, document, "uid");
	const char *namespace_name = writing->outcome->namespace_name;

	if (uid[0] == '\0' || strcmp(uid, stored_uid) == 0)
		return true;
	return write_conflict(writing,
						  arena_printf(writing->arena, "StorageError: invalid object, Code: 4, Key: "
									   "/registry/%s/%s/%s%s%s, ResourceVersion: 0, AdditionalErrorMsg: "
									   "Precondition failed: UID in precondition: %s, UID in object meta: %s",
									   writing->definition->group, writing->definition->plural, namespace_name,
									   namespace_name[0] != '\0' ? "/" : "", writing->request->name, uid, stored_uid));
}

void
write_decide_update(Writing *writing)
{
	JsonNode   *document = json_clone(writing->arena, writing->admitted->document);
	OldObject	old;

	if (writing->stored == NULL)
	{
		write_not_found(writing);
		return;
	}
	if (write_parse_stored(writing, true, &old) &&
		check_uid(writing, document, metadata_text(writing->arena, old.document, "uid")))
		write_update_owned(writing, document, &old);
}
