/*-------------------------------------------------------------------------
 *
 * write_create.c
 *	  Create.
 *
 * write_admit_create() decides everything except whether the object already
 * exists.
 *
 * Reference: k8s-conformance section 8.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/writes/write_private.h"

/* Sets members that the client cannot choose (selfLink was removed before). */
void
write_set_system_fields(Writing *writing, JsonNode *document)
{
	Arena	   *arena = writing->arena;
	JsonNode   *metadata = json_get(document, "metadata");

	json_remove(metadata, "deletionTimestamp");
	json_remove(metadata, "deletionGracePeriodSeconds");
	json_set(arena, metadata, "uid", json_new_cstring(arena, arena_strdup(arena, writing->context->uid)));
	json_set(arena, metadata, "creationTimestamp",
			 json_new_cstring(arena, format_time(arena, writing->context->now)));
	json_set(arena, metadata, "generation", json_new_integer(arena, 1));
}

static void
generate_name(Writing *writing, JsonNode *document)
{
	JsonNode   *metadata = json_get(document, "metadata");
	const char *prefix = metadata_text(writing->arena, document, "generateName");

	if (json_get(metadata, "name") == NULL && prefix[0] != '\0')
		json_set(writing->arena, metadata, "name",
				 json_new_cstring(writing->arena,
								  metadata_generate_name(writing->arena, prefix, writing->context->random)));
}

/* The name for the check of the namespace, when no name is generated yet. */
static const char *
name_so_far(Writing *writing, const JsonNode *document)
{
	const char *name = metadata_text(writing->arena, document, "name");

	if (name[0] == '\0')
		name = metadata_text(writing->arena, document, "generateName");
	return name[0] != '\0' ? name : "Unknown";
}

/* CRE-04; a version that is no number is ignored, and so is every version in a dry run. */
static bool
refuse_version(Writing *writing, const JsonNode *document)
{
	const char *text = metadata_text(writing->arena, document, "resourceVersion");
	const char *error;
	int64_t		version;

	if (writing->admitted->options.dry_run || text[0] == '\0' ||
		!parse_go_version(writing->arena, text, &version, &error) || version == 0)
		return true;
	status_failure(&writing->reply, 500, "", "resourceVersion should not be set on objects to be created", NULL);
	return write_refuse(writing, 500);
}

/* The last checks of a new object that has its name and owners; false when it was refused. */
bool
write_check_create(Writing *writing, JsonNode *document)
{
	if (writing->definition->status_subresource)
		json_remove(document, "status");
	if (writing->context->fill_summary)
		summary_fill(writing->arena, document);
	if (!write_validate(writing, document, NULL))
		return false;
	write_warn_finalizers(writing, document, NULL);
	return true;
}

void
write_admit_create(Writing *writing)
{
	WriteOutcome *outcome = writing->outcome;
	JsonNode   *document;
	FieldWrite	fields;
	int			code;

	if (!request_negotiate(writing->arena, writing->request, false, false, &outcome->transform, &code, &writing->reply))
	{
		write_refuse(writing, code);
		return;
	}
	if (!write_check_content_type(writing, false) || !write_check_size(writing) ||
		!write_take_options(writing, "CreateOptions") ||
		(document = write_decode_body(writing)) == NULL ||
		!write_check_version(writing, document) || !write_agree_namespace(writing, document) ||
		!write_check_namespace(writing, name_so_far(writing, document)))
		return;

	write_dedup_owners(writing, document, false);
	write_set_system_fields(writing, document);
	fields = write_fields(writing);
	field_owner_update(&fields, document, NULL);
	generate_name(writing, document);
	if (!write_check_create(writing, document) || !refuse_version(writing, document))
		return;

	write_answer_object(writing, WRITE_PENDING, 201, document, !writing->admitted->options.dry_run);
	outcome->namespace_name = metadata_text(writing->arena, document, "namespace");
	outcome->name = metadata_text(writing->arena, document, "name");
}

void
write_decide_create(Writing *writing)
{
	Arena	   *arena = writing->arena;
	const Definition *definition = writing->definition;
	WriteOutcome *outcome = writing->outcome;
	StatusDetails details = {.name = outcome->name, .group = definition->group, .kind = definition->plural};
	bool		generated = json_get(outcome->metadata, "generateName") != NULL;
	OldObject	old;
	StrBuf		message;

	if (writing->stored == NULL)
	{
		outcome->action = writing->admitted->options.dry_run ? WRITE_ANSWER : WRITE_INSERT;
		return;
	}
	if (!write_parse_stored(writing, false, &old))
		return;
	strbuf_init(&message, arena);
	if (json_get(old.metadata, "deletionTimestamp") != NULL)
		strbuf_puts(&message, "object is being deleted: ");
	strbuf_printf(&message, "%s.%s %s already exists", definition->plural, definition->group,
				  quoted(arena, outcome->name));
	if (generated)
	{
		strbuf_puts(&message, ", the server was not able to generate a unique name for the object");
		details.retry_after_seconds = 1;
		outcome->retry_after = 1;
	}
	status_failure(&writing->reply, 409, "AlreadyExists", message.bytes, &details);
	outcome->uid = NULL;
	write_refuse(writing, 409);
}
