/*-------------------------------------------------------------------------
 *
 * field_apply.c
 *	  Server-side apply: merges an owner's configuration into an object.
 *
 * kubectl is an exception: after client-side applies, an annotation of the
 * object contains the last configuration that kubectl applied.  For fields
 * that still have the values of the annotation, kubectl gets no conflict.
 *
 * Reference: k8s-conformance section 13.5; structured-merge-diff's
 * merge/update.go, apimachinery's managedfields.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/fields/field_owner_private.h"

#include <string.h>

#define FIRST_OWNER "before-first-apply"
#define KUBECTL_OWNER "kubectl"
#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

/* Bytes of all annotations together. */
#define ANNOTATIONS_MAX (256 * 1024)

typedef struct Applying
{
	const FieldWrite *write;
	const JsonNode *live;
	const JsonNode *config;
	FieldOwners owners;
	FieldOwner *owner;			/* an element of owners; invalid after an owner is added */
	const FieldSet *last;		/* the fields that the owner applied before */
	JsonNode   *merged;
	const FieldSet *changed;	/* from live to merged, of fields that this write may change */
	const FieldSet *removed;
	FieldApply *apply;
} Applying;

static FieldApplyResult
fail(Applying *applying, const char *what, const char *error)
{
	applying->apply->error = arena_printf(applying->write->arena, "%s: %s", what, error);
	return FIELD_APPLY_FAILED;
}

static JsonText
string_member(const JsonNode *object, const char *key)
{
	const JsonNode *node = json_get(object, key);

	return node != NULL && node->kind == JSON_KIND_STRING ? node->u.string : (JsonText) {"", 0};
}

/* Namespace, name and type of the applied configuration, as in upstream's messages. */
static const char *
describe_config(Applying *applying)
{
	const JsonNode *metadata = json_get(applying->config, "metadata");
	JsonText	texts[] = {
		string_member(metadata, "namespace"), string_member(metadata, "name"),
		string_member(applying->config, "apiVersion"), string_member(applying->config, "kind")
	};
	static const char *const between[] = {"/", "; ", ", Kind=", ""};
	StrBuf		buf;

	strbuf_init(&buf, applying->write->arena);
	for (size_t i = 0; i < 4; i++)
	{
		strbuf_append(&buf, texts[i].bytes, texts[i].len);
		strbuf_puts(&buf, between[i]);
	}
	return buf.bytes;
}

/*
 * Pruning: removes the fields that the owner applied before but not now, unless another owner owns them.
 */
static bool
prune(Applying *applying, const char **error)
{
	Arena	   *arena = applying->write->arena;
	FieldType	type = applying->write->type;
	FieldOwners *owners = &applying->owners;
	const FieldSet **sets = arena_alloc(arena, owners->count * sizeof(FieldSet *));
	const FieldSet *last;
	const FieldSet *all;
	const FieldSet *kept;
	const FieldSet *owned;
	JsonNode   *pruned;

	if (applying->last == NULL)
		return true;
	for (size_t i = 0; i < owners->count; i++)
		sets[i] = owners->list[i].fields;
	owned = field_ensure_named(arena, type, field_set_union_all(arena, sets, owners->count));
	last = field_ensure_named(arena, type, applying->last);
	if (!field_set_of_document(arena, type, applying->merged, &all, error))
		return false;
	all = field_ensure_named(arena, type, all);

	/* Remove all fields applied before and put back the owned ones; then remove only what this owner applied. */
	pruned = field_remove(arena, type, applying->merged, last);
	if (!field_set_of_document(arena, type, pruned, &kept, error))
		return false;
	kept = field_set_union(arena, field_ensure_named(arena, type, kept), owned);
	pruned = field_remove(arena, type, applying->merged, field_set_difference(arena, all, kept));
	if (!field_set_of_document(arena, type, pruned, &kept, error))
		return false;
	kept = field_ensure_named(arena, type, kept);
	applying->merged = field_remove(arena, type, applying->merged,
									field_set_intersection(arena, field_set_difference(arena, all, kept), last));
	return true;
}

/*
 * Conflicts
 */

/* The fields of another owner that the apply changes; NULL if other is the owner that applies. */
static const FieldSet *
conflicts_with(const Applying *applying, const FieldOwner *other)
{
	if (other == applying->owner)
		return NULL;
	return field_set_intersection(applying->write->arena, other->fields, applying->changed);
}

/* Collects the causes of a conflict. */
typedef struct CauseList
{
	Arena	   *arena;
	StatusCause *causes;
	size_t		count;
	size_t		capacity;
	size_t		bytes;
	const char *message;		/* of the causes for the current owner */
} CauseList;

static bool
add_cause(void *state, const char *path)
{
	CauseList  *list = state;

	/* The same limits as for field errors, so that the response is bounded for any documents. */
	if (list->count >= FIELD_ERRORS_MAX || list->bytes >= FIELD_ERRORS_MAX_BYTES)
		return false;
	list->causes = arena_grow(list->arena, list->causes, list->count, sizeof(StatusCause), &list->capacity);
	list->causes[list->count++] = (StatusCause) {
		.reason = "FieldManagerConflict", .message = list->message, .field = arena_strdup(list->arena, path)
	};
	list->bytes += strlen(path);
	return true;
}

/* Describes an owner as in upstream's conflict messages. */
static const char *
describe_owner(Arena *arena, const FieldOwner *owner)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	quote_text(&buf, owner->name.bytes, owner->name.len);
	if (owner->subresource.len > 0)
	{
		strbuf_puts(&buf, " with subresource ");
		quote_text(&buf, owner->subresource.bytes, owner->subresource.len);
	}
	if (!owner->applied)
	{
		strbuf_puts(&buf, " using ");
		strbuf_append(&buf, owner->api_version.bytes, owner->api_version.len);
	}
	return buf.bytes;
}

/* SSA-05: reports the conflicts, except those on allowed fields.  False without conflicts. */
static bool
tell_conflicts(Applying *applying, const FieldSet *allowed)
{
	Arena	   *arena = applying->write->arena;
	CauseList	list = {.arena = arena};
	StrBuf		message;
	StrBuf		buf;

	strbuf_init(&message, arena);
	for (size_t i = 0; i < applying->owners.count; i++)
	{
		const FieldOwner *other = &applying->owners.list[i];
		const FieldSet *conflicts = field_set_difference(arena, conflicts_with(applying, other), allowed);
		const char *name;
		size_t		first = list.count;

		if (conflicts == NULL)
			continue;
		name = describe_owner(arena, other);
		list.message = arena_printf(arena, "conflict with %s", name);
		field_set_visit(arena, conflicts, add_cause, &list);
		strbuf_printf(&message, "%sconflicts with %s:", message.len > 0 ? "\n" : "", name);
		for (size_t c = first; c < list.count; c++)
			strbuf_printf(&message, "\n- %s", list.causes[c].field);
	}
	if (list.count == 0)
		return false;
	strbuf_init(&buf, arena);
	if (list.count == 1)
		strbuf_printf(&buf, "Apply failed with 1 conflict: %s: %s", list.causes[0].message, list.causes[0].field);
	else
		strbuf_printf(&buf, "Apply failed with %zu conflicts: %s", list.count, message.bytes);
	applying->apply->error = buf.bytes;
	applying->apply->causes = list.causes;
	applying->apply->cause_count = list.count;
	return true;
}

/*
 * kubectl
 */

static JsonText
last_applied(const JsonNode *document)
{
	return string_member(json_path(document, "metadata", "annotations", NULL), LAST_APPLIED);
}

/* SSA-07: the fields that still have the values of kubectl's last client-side apply. */
static const FieldSet *
fields_of_client(Applying *applying)
{
	const FieldWrite *write = applying->write;
	Arena	   *arena = write->arena;
	JsonText	text = last_applied(applying->live);
	JsonError	json_error;
	JsonNode   *document = text.len > 0 ? json_parse(arena, text.bytes, text.len, NULL, NULL, &json_error) : NULL;
	FieldComparison comparison;
	const FieldSet *fields;
	const char *error;

	if (document == NULL || document->kind != JSON_KIND_OBJECT ||
		!json_string_is(json_get(document, "apiVersion"), write->api_version) ||
		field_check_document(arena, write->type, document) != NULL ||
		field_check_document(arena, write->type, applying->live) != NULL ||
		!field_set_of_document(arena, write->type, document, &fields, &error) ||
		!field_compare(arena, write->type, document, applying->live, &comparison, &error))
		return NULL;
	fields = field_set_difference(arena, fields, comparison.modified);
	fields = field_set_difference(arena, fields, comparison.added);
	return field_set_difference(arena, fields, comparison.removed);
}

/* Updates the annotation of the document if it has one; removes it when the annotations become too long. */
static void
refresh_last_applied(Applying *applying)
{
	Arena	   *arena = applying->write->arena;
	JsonNode   *annotations = json_path(applying->apply->document, "metadata", "annotations", NULL);
	JsonNode   *config;
	size_t		bytes = 0;
	StrBuf		text;

	if (last_applied(applying->apply->document).len == 0)
		return;
	config = json_clone(arena, applying->config);
	json_remove(json_path(config, "metadata", "annotations", NULL), LAST_APPLIED);
	strbuf_init(&text, arena);
	json_write_html(&text, config);
	strbuf_putc(&text, '\n');
	json_set(arena, annotations, LAST_APPLIED, json_new_string(arena, text.bytes, text.len));
	for (size_t i = 0; i < annotations->u.object.count; i++)
	{
		const JsonMember *member = &annotations->u.object.members[i];

		bytes += member->key.len + (member->value->kind == JSON_KIND_STRING ? member->value->u.string.len : 0);
	}
	if (bytes > ANNOTATIONS_MAX)
		json_remove(annotations, LAST_APPLIED);
}

/*
 * Apply
 */

/* Reads the owners of the live object.  Without owners, FIRST_OWNER becomes the owner of all its fields. */
static FieldApplyResult
read_owners(Applying *applying)
{
	const FieldWrite *write = applying->write;
	const JsonNode *stored = json_path(applying->live, "metadata", "managedFields", NULL);
	const char *error;

	if (!field_owners_read(write->arena, stored, &applying->owners, &error))
		return fail(applying, "failed to decode managed fields", error);
	if (applying->owners.count == 0 && json_path(applying->live, "metadata", "uid", NULL) != NULL &&
		!field_owners_update(write, &applying->owners, FIRST_OWNER, NULL, applying->live, &error))
		return fail(applying, "failed to create manager for existing fields", error);
	return FIELD_APPLY_OK;
}

static FieldApplyResult
merge_config(Applying *applying)
{
	const FieldWrite *write = applying->write;
	Arena	   *arena = write->arena;
	FieldComparison comparison;
	const FieldSet *fields;
	const char *error;

	error = field_check_document(arena, write->type, applying->config);
	if (error != NULL)
	{
		applying->apply->error = arena_printf(arena, "failed to create typed patch object (%s): %s",
											  describe_config(applying), error);
		return FIELD_APPLY_UNDECLARED;
	}
	field_owners_reconcile(write, &applying->owners);
	applying->merged = field_merge(arena, write->type, applying->live, applying->config, &error);
	if (applying->merged == NULL)
		return fail(applying, "failed to merge config", error);
	if (!field_set_of_document(arena, write->type, applying->config, &fields, &error))
		return fail(applying, "failed to get field set", error);

	applying->owner = field_owners_claim(write, &applying->owners, write->owner, true);
	applying->last = applying->owner->fields;
	applying->owner->fields = field_without_reset(write, fields);
	applying->owner->api_version = (JsonText) {write->api_version, strlen(write->api_version)};
	if (!prune(applying, &error))
		return fail(applying, "failed to prune fields", error);
	if (!field_compare(arena, write->type, applying->live, applying->merged, &comparison, &error))
		return fail(applying, "failed to compare objects", error);
	applying->changed = field_without_reset(write, field_set_union(arena, comparison.modified, comparison.added));
	applying->removed = field_without_reset(write, comparison.removed);
	return FIELD_APPLY_OK;
}

/* Whether the configuration has managedFields (SSA-02).  A value of another type is refused later, for its type. */
static bool
has_managed_fields(const JsonNode *config)
{
	const JsonNode *entries = json_path(config, "metadata", "managedFields", NULL);

	if (entries == NULL || entries->kind != JSON_KIND_ARRAY)
		return false;
	for (size_t i = 0; i < entries->u.array.count; i++)
		if (entries->u.array.items[i]->kind != JSON_KIND_OBJECT)
			return false;
	return true;
}

FieldApplyResult
field_owner_apply(const FieldWrite *write, const JsonNode *live, const JsonNode *config, bool force,
				  FieldApply *apply)
{
	Applying	applying = {.write = write, .live = live, .config = config, .apply = apply};
	bool		is_kubectl = strcmp(write->owner, KUBECTL_OWNER) == 0;
	Arena	   *arena = write->arena;
	FieldApplyResult result = read_owners(&applying);
	const JsonNode *metadata;

	if (result == FIELD_APPLY_OK && has_managed_fields(config))
	{
		apply->error = "metadata.managedFields must be nil";
		return FIELD_APPLY_MALFORMED;
	}
	if (result == FIELD_APPLY_OK)
		result = merge_config(&applying);
	if (result != FIELD_APPLY_OK)
		return result;
	if (!force && tell_conflicts(&applying, is_kubectl ? fields_of_client(&applying) : NULL))
		return FIELD_APPLY_CONFLICT;

	for (size_t i = 0; i < applying.owners.count; i++)
	{
		FieldOwner *other = &applying.owners.list[i];

		if (other == applying.owner)
			continue;
		other->fields = field_set_difference(arena, other->fields, conflicts_with(&applying, other));
		other->fields = field_set_difference(arena, other->fields, applying.removed);
	}
	applying.owner->fields = field_without_unowned(arena, applying.owner->fields);
	if (!json_same(live, applying.merged))
		field_owner_touch(write, applying.owner);
	field_owners_drop_empty(&applying.owners);

	apply->document = json_clone(arena, applying.merged);
	metadata = json_get(apply->document, "metadata");
	if (metadata == NULL || metadata->kind != JSON_KIND_OBJECT)
		json_set(arena, apply->document, "metadata", json_new_object(arena));
	if (is_kubectl)
		refresh_last_applied(&applying);
	field_owners_store(arena, &applying.owners, apply->document);
	return FIELD_APPLY_OK;
}
