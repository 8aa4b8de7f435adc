/*-------------------------------------------------------------------------
 *
 * write_update.c
 *	  Update (PUT) and patches.
 *
 * Both end in write_update_object(): an updated or patched object is checked,
 * completed and compared with the stored object by the same rules.  A write
 * that changes nothing is answered with the stored version.
 *
 * Reference: k8s-conformance sections 12, 13.1 to 13.4.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/writes/write_private.h"

static void complain_about_operations(Arena *arena, const JsonNode *patch, JsonNode *complaints);

static const PatchType patch_types[] = {
	{"application/json-patch+json", json_patch_apply, complain_about_operations, "json patch "},
	{"application/merge-patch+json", merge_patch_apply, NULL, ""},
	{"application/apply-patch+yaml", NULL, NULL, ""},
};

#define PATCH_TYPES (sizeof(patch_types) / sizeof(patch_types[0]))

bool
write_conflict(Writing *writing, const char *why)
{
	status_conflict(&writing->reply, writing->definition->group, writing->definition->plural,
					writing->request->name, why);
	return write_refuse(writing, 409);
}

/* The version in the document must be the stored one. */
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
 * stored times stay.  Upstream stores an applied object as it was written and converts it on reading, so repeating a
 * reworded apply is a change each time.
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
static void
update_owned(Writing *writing, JsonNode *document, const OldObject *old)
{
	FieldWrite	fields = write_fields(writing);

	field_owner_update(&fields, document, old->document);
	write_update_object(writing, document, old);
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

/* The uid in a body is a precondition. */
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
		update_owned(writing, document, &old);
}

/*
 * Patches
 */

/* Reports members that operations do not have. */
static void
complain_about_operations(Arena *arena, const JsonNode *patch, JsonNode *complaints)
{
	static const char *const known[] = {"op", "path", "from", "value"};

	if (patch->kind != JSON_KIND_ARRAY)
		return;
	for (size_t i = 0; i < patch->u.array.count; i++)
	{
		const JsonNode *operation = patch->u.array.items[i];

		if (operation->kind != JSON_KIND_OBJECT)
			continue;
		for (size_t m = 0; m < operation->u.object.count; m++)
		{
			JsonText	key = operation->u.object.members[m].key;
			bool		is_known = false;
			StrBuf		path;
			StrBuf		buf;

			for (size_t k = 0; k < sizeof(known) / sizeof(known[0]) && !is_known; k++)
				is_known = json_text_is(key, known[k]);
			if (is_known)
				continue;
			if (complaints->u.array.count >= COMPLAINTS_MAX)
				return;
			strbuf_init(&path, arena);
			strbuf_printf(&path, "[%zu].", i);
			strbuf_append(&path, key.bytes, key.len);
			strbuf_init(&buf, arena);
			strbuf_puts(&buf, "json patch unknown field ");
			quote_text(&buf, path.bytes, path.len);
			json_append(arena, complaints, json_new_string(arena, buf.bytes, buf.len));
		}
	}
}

typedef struct DuplicateState
{
	Arena	   *arena;
	JsonNode   *complaints;
	const char *prefix;
} DuplicateState;

static void
complain_duplicate(void *state, const char *path)
{
	DuplicateState *duplicates = state;
	StrBuf		buf;

	if (duplicates->complaints->u.array.count >= COMPLAINTS_MAX)
		return;
	strbuf_init(&buf, duplicates->arena);
	strbuf_printf(&buf, "%sduplicate field ", duplicates->prefix);
	quote_text(&buf, path, strlen(path));
	json_append(duplicates->arena, duplicates->complaints, json_new_string(duplicates->arena, buf.bytes, buf.len));
}

/* Finds the row for the Content-Type, ignoring its parameters; 415 when there is none. */
static bool
take_patch_type(Writing *writing)
{
	const char *type = writing->request->content_type;
	size_t		len = strcspn(type, ";");
	StrBuf		message;

	while (len > 0 && (type[len - 1] == ' ' || type[len - 1] == '\t'))
		len--;
	for (size_t i = 0; i < PATCH_TYPES; i++)
	{
		if (strlen(patch_types[i].content_type) != len || strncmp(type, patch_types[i].content_type, len) != 0)
			continue;
		writing->admitted->patch_type = &patch_types[i];
		return true;
	}
	strbuf_init(&message, writing->arena);
	strbuf_puts(&message, "the body of the request was in an unknown format - accepted media types include: ");
	for (size_t i = 0; i < PATCH_TYPES; i++)
		strbuf_printf(&message, "%s%s", i > 0 ? ", " : "", patch_types[i].content_type);
	status_failure(&writing->reply, 415, "UnsupportedMediaType", message.bytes, NULL);
	return write_refuse(writing, 415);
}

static bool
read_patch(Writing *writing)
{
	Arena	   *arena = writing->arena;
	AdmittedWrite *admitted = writing->admitted;
	JsonNode   *complaints = json_new_array(arena);
	DuplicateState duplicates = {
		.arena = arena, .complaints = complaints, .prefix = admitted->patch_type->complaint_prefix
	};
	JsonError	error;

	admitted->patch = json_parse(arena, writing->body, writing->body_len, complain_duplicate, &duplicates, &error);
	if (admitted->patch == NULL)
		return write_bad_request(writing, "invalid JSON patch");
	if (admitted->patch_type->complain != NULL)
		admitted->patch_type->complain(arena, admitted->patch, complaints);
	admitted->complaints = complaints;
	return true;
}

void
write_admit_patch(Writing *writing)
{
	WriteOutcome *outcome = writing->outcome;
	int			code;

	if (!take_patch_type(writing))
		return;
	if (!request_negotiate(writing->arena, writing->request, false, false, &outcome->transform, &code, &writing->reply))
	{
		write_refuse(writing, code);
		return;
	}
	if (!write_check_size(writing) || !write_take_options(writing, "PatchOptions"))
		return;
	if ((writing->admitted->patch_type->apply != NULL ? read_patch(writing) : write_admit_apply(writing)) &&
		write_set_key(writing))
		outcome->action = WRITE_PENDING;
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

/* A patched copy of the stored object; NULL when the patch was refused. */
static JsonNode *
apply_patch(Writing *writing, const OldObject *old)
{
	Arena	   *arena = writing->arena;
	static const StatusDetails no_details = {0};
	JsonNode   *document = write_versioned_copy(writing, old);
	const char *error;

	switch (writing->admitted->patch_type->apply(arena, &document, writing->admitted->patch,
												 writing->admitted->options.validation != FIELD_VALIDATION_IGNORE,
												 &error))
	{
		case PATCH_OK:
			return document;
		case PATCH_MALFORMED:
			write_bad_request(writing, error);
			break;
		case PATCH_TOO_MANY:
			status_failure(&writing->reply, 413, "RequestEntityTooLarge",
						   arena_printf(arena, "Request entity too large: %s", error), NULL);
			write_refuse(writing, 413);
			break;
		case PATCH_FAILED:
			status_failure(&writing->reply, 422, "Invalid",
						   "the server rejected our request due to an error in our request", &no_details);
			write_refuse(writing, 422);
			break;
	}
	return NULL;
}

/* MP-02: refuses a patched object that cannot be read.  The message shows it, so the patch is applied once more. */
static void
refuse_patched(Writing *writing, const OldObject *old, const char *why)
{
	JsonNode   *document = apply_patch(writing, old);
	FieldErrorList errors;
	StrBuf		text;

	strbuf_init(&text, writing->arena);
	json_write(&text, document);
	field_errors_init(&errors, writing->arena);
	field_error_at(&errors, FIELD_INVALID, "patch", json_new_string(writing->arena, text.bytes, text.len), why);
	status_invalid(&writing->reply, "", "", "", &errors);
	write_refuse(writing, 422);
}

/* Handles complaints about the patch and the patched object; false when they refuse the write. */
static bool
settle_complaints(Writing *writing, const OldObject *old, const JsonNode *complaints)
{
	const JsonNode *lists[] = {writing->admitted->complaints, complaints};
	FieldValidation validation = writing->admitted->options.validation;
	size_t		count = 0;
	StrBuf		buf;

	if (validation == FIELD_VALIDATION_IGNORE)
		return true;
	strbuf_init(&buf, writing->arena);
	strbuf_puts(&buf, "strict decoding error: ");
	for (size_t l = 0; l < 2; l++)
	{
		for (size_t i = 0; i < lists[l]->u.array.count; i++)
		{
			JsonText	text = lists[l]->u.array.items[i]->u.string;

			if (validation == FIELD_VALIDATION_WARN)
				write_warn(writing, text.bytes);
			if (count++ > 0)
				strbuf_puts(&buf, ", ");
			strbuf_append(&buf, text.bytes, text.len);
		}
	}
	if (count == 0 || validation == FIELD_VALIDATION_WARN)
		return true;
	refuse_patched(writing, old, buf.bytes);
	return false;
}

void
write_decide_patch(Writing *writing)
{
	JsonNode   *complaints = json_new_array(writing->arena);
	DuplicateState duplicates = {.arena = writing->arena, .complaints = complaints, .prefix = ""};
	JsonNode   *document;
	const char *error;
	bool		kind_known;
	OldObject	old;

	if (writing->admitted->patch_type->apply == NULL)
	{
		write_decide_apply(writing);
		return;
	}
	if (writing->stored == NULL)
	{
		write_not_found(writing);
		return;
	}
	if (!write_parse_stored(writing, true, &old) || (document = apply_patch(writing, &old)) == NULL)
		return;
	if (writing->admitted->patch_type->apply == json_patch_apply && writing->admitted->complaints->u.array.count > 0)
		json_tell_repeated(writing->arena, document, complain_duplicate, &duplicates);
	if (!write_shape_document(writing, document, complaints, &kind_known, &error))
	{
		refuse_patched(writing, &old, error);
		return;
	}
	if (!settle_complaints(writing, &old, complaints) ||
		!write_agree_namespace(writing, document) || !write_agree_name(writing, document))
		return;
	write_dedup_owners(writing, document, true);
	update_owned(writing, document, &old);
}
