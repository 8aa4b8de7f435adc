/*-------------------------------------------------------------------------
 *
 * write_patch.c
 *	  Patches: the types of patches, and those that change the stored object.
 *
 * A patched object is handled like an update (write_update.c).  Server-side
 * apply, which merges fields of owners, is in write_apply.c.
 *
 * Reference: k8s-conformance sections 13.1 to 13.4.
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
	write_update_owned(writing, document, &old);
}
