/*-------------------------------------------------------------------------
 *
 * write_delete.c
 *	  Delete, and the items of deletecollection.
 *
 * An object with finalizers is not deleted but marked, as an update; any other
 * object is deleted.
 *
 * Reference: k8s-conformance sections 14.1 and 14.2.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/writes/write_private.h"

/* Unchecked DeleteOptions from a body or from parameters; NULL for absent options. */
typedef struct RawDeleteOptions
{
	const JsonNode *orphan_dependents;	/* a boolean */
	const JsonNode *propagation;	/* a string */
	const JsonNode *dry_run;	/* an array of strings */
	const JsonNode *uid;
	const JsonNode *version;
} RawDeleteOptions;

static bool
is_collection(const Writing *writing)
{
	return strcmp(writing->request->verb, "deletecollection") == 0;
}

/* Reads a member of a struct that must have this kind; *value is NULL for an absent member or a null. */
static bool
take_member(Writing *writing, const JsonNode *object, const char *key, JsonKind kind, const char *go_field,
			const char *go_type, const JsonNode **value)
{
	const JsonNode *node = json_get(object, key);

	*value = NULL;
	if (node == NULL || node->kind == JSON_KIND_NULL)
		return true;
	if (node->kind == kind)
	{
		*value = node;
		return true;
	}
	return write_bad_request(writing,
							 arena_printf(writing->arena,
										  "json: cannot unmarshal %s into Go struct field %s of type %s",
										  kind == JSON_KIND_INTEGER ? json_go_number_name(writing->arena, node) :
										  json_go_kind_name(node->kind), go_field, go_type));
}

/* DEL-01: refuses a body of another kind.  Its version does not matter. */
static bool
check_type(Writing *writing, const JsonNode *root)
{
	const JsonNode *kind;
	const JsonNode *version;

	if (!take_member(writing, root, "kind", JSON_KIND_STRING, ".kind", "string", &kind) ||
		!take_member(writing, root, "apiVersion", JSON_KIND_STRING, ".apiVersion", "string", &version))
		return false;
	if (kind != NULL && kind->u.string.len > 0 && !json_string_is(kind, "DeleteOptions"))
		return write_bad_request(writing, "decoded object cannot be converted to DeleteOptions");
	return true;
}

/* Decodes a body of any content type; NULL when it was refused. */
static const JsonNode *
decode_body(Writing *writing)
{
	const char *why = writing->request->decode_error;
	const JsonNode *root = NULL;
	JsonError	error;

	if (write_has_content_type(writing, PROTOBUF_TYPE))
		root = delete_options_read_proto(writing->arena, writing->body, writing->body_len, &why);
	else if (why[0] == '\0')
	{
		root = json_parse(writing->arena, writing->body, writing->body_len, NULL, NULL, &error);
		if (root == NULL)
			why = arena_printf(writing->arena, "couldn't get version/kind; json parse error: %s", error.message);
	}
	if (root == NULL)
		write_bad_request(writing, why);
	return root;
}

static bool
read_body(Writing *writing, RawDeleteOptions *raw)
{
	const JsonNode *root = decode_body(writing);
	const JsonNode *preconditions;
	const JsonNode *ignored;

	if (root == NULL)
		return false;
	if (root->kind != JSON_KIND_OBJECT && root->kind != JSON_KIND_NULL)
		return write_bad_request(writing, arena_printf(writing->arena, "couldn't get version/kind; json parse error: "
													   "json: cannot unmarshal %s into Go value of type "
													   GO_TYPE_META, json_go_kind_name(root->kind)));
	if (!check_type(writing, root) ||
		!take_member(writing, root, "gracePeriodSeconds", JSON_KIND_INTEGER, "DeleteOptions.gracePeriodSeconds",
					 "int64",
					 &ignored) ||
		!take_member(writing, root, "preconditions", JSON_KIND_OBJECT, "DeleteOptions.preconditions",
					 "v1.Preconditions",
					 &preconditions) ||
		!take_member(writing, preconditions, "uid", JSON_KIND_STRING, "Preconditions.preconditions.uid", "types.UID",
					 &raw->uid) ||
		!take_member(writing, preconditions, "resourceVersion", JSON_KIND_STRING,
					 "Preconditions.preconditions.resourceVersion", "string", &raw->version) ||
		!take_member(writing, root, "orphanDependents", JSON_KIND_BOOL, "DeleteOptions.orphanDependents", "bool",
					 &raw->orphan_dependents) ||
		!take_member(writing, root, "propagationPolicy", JSON_KIND_STRING, "DeleteOptions.propagationPolicy",
					 "v1.DeletionPropagation", &raw->propagation) ||
		!take_member(writing, root, "dryRun", JSON_KIND_ARRAY, "DeleteOptions.dryRun", "[]string", &raw->dry_run) ||
		!take_member(writing, root, "ignoreStoreReadErrorWithClusterBreakingPotential", JSON_KIND_BOOL,
					 "DeleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential", "bool", &ignored))
		return false;
	for (size_t i = 0; raw->dry_run != NULL && i < raw->dry_run->u.array.count; i++)
		if (raw->dry_run->u.array.items[i]->kind != JSON_KIND_STRING)
			return write_bad_request(writing,
									 arena_printf(writing->arena, "json: cannot unmarshal %s into Go struct field "
												  "DeleteOptions.dryRun of type string",
												  json_go_kind_name(raw->dry_run->u.array.items[i]->kind)));
	return true;
}

/* A parameter as a string; an empty parameter counts only with even_empty. */
static const JsonNode *
parameter_node(const Writing *writing, const char *key, bool even_empty)
{
	const char *value = request_query(writing->arena, writing->request, key);

	return value != NULL && (even_empty || value[0] != '\0') ? json_new_cstring(writing->arena, value) : NULL;
}

static bool
read_parameters(Writing *writing, RawDeleteOptions *raw)
{
	const ApiRequest *request = writing->request;
	const char *grace = request_query(writing->arena, request, "gracePeriodSeconds");
	const char *error;
	int64_t		ignored;

	if (grace != NULL && !parse_go_int(writing->arena, grace, &ignored, &error))
		return write_bad_request(writing, error);
	if (request_query(writing->arena, request, "orphanDependents") != NULL)
		raw->orphan_dependents = json_new_bool(writing->arena,
											   request_query_bool(writing->arena, request, "orphanDependents"));
	raw->propagation = parameter_node(writing, "propagationPolicy", true);
	raw->dry_run = json_get(request->query, "dryRun");
	raw->uid = parameter_node(writing, "uid", false);
	raw->version = parameter_node(writing, "resourceVersion", false);
	return true;
}

/* Checks and completes the options (DEL-02). */
static bool
settle_options(Writing *writing, const RawDeleteOptions *raw)
{
	static const struct
	{
		const char *name;
		Propagation propagation;
	}			policies[] = {
		{"Foreground", PROPAGATION_FOREGROUND},
		{"Background", PROPAGATION_BACKGROUND},
		{"Orphan", PROPAGATION_ORPHAN},
	};
	WriteOptions *options = &writing->admitted->options;
	FieldErrorList errors;

	field_errors_init(&errors, writing->arena);
	if (raw->orphan_dependents != NULL && raw->propagation != NULL)
		field_error_at(&errors, FIELD_INVALID, "propagationPolicy", raw->propagation,
					   "orphanDependents and deletionPropagation cannot be both set");
	if (raw->propagation != NULL)
	{
		for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
			if (json_string_is(raw->propagation, policies[i].name))
				options->propagation = policies[i].propagation;
		if (options->propagation == PROPAGATION_UNSET)
			field_error_at(&errors, FIELD_NOT_SUPPORTED, "propagationPolicy", raw->propagation,
						   "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"");
	}
	write_check_dry_run(raw->dry_run, options, &errors);
	if (errors.count > 0)
	{
		status_invalid(&writing->reply, "DeleteOptions", "meta.k8s.io", "", &errors);
		return write_refuse(writing, 422);
	}

	if (raw->orphan_dependents != NULL)
	{
		options->propagation = raw->orphan_dependents->u.boolean ? PROPAGATION_ORPHAN : PROPAGATION_BACKGROUND;
		options->accepts = !raw->orphan_dependents->u.boolean;
	}
	options->uid = raw->uid;
	options->version = raw->version;
	return true;
}

void
write_admit_delete(Writing *writing)
{
	WriteOutcome *outcome = writing->outcome;
	RawDeleteOptions raw = {0};
	int			code;

	if (!request_negotiate(writing->arena, writing->request, is_collection(writing), false, &outcome->transform,
						   &code, &writing->reply))
	{
		write_refuse(writing, code);
		return;
	}
	if (!write_check_size(writing))
		return;
	if (writing->body_len > 0)
	{
		if (!write_check_content_type(writing, true) || !read_body(writing, &raw))
			return;
	}
	else if (!read_parameters(writing, &raw))
		return;
	if (!settle_options(writing, &raw))
		return;
	/* The items of a collection are separate requests with names; the request for the collection has no name. */
	if (is_collection(writing) && writing->request->name[0] == '\0')
		outcome->namespace_name = writing->definition->namespaced ? writing->request->namespace_name : "";
	else if (!write_set_key(writing))
		return;
	outcome->action = WRITE_PENDING;
}

/* Answers 409 if a precondition does not hold (DEL-03). */
static bool
check_precondition(Writing *writing, const char *what, const JsonNode *wanted, const char *found, const char *hint)
{
	JsonText	text;

	if (wanted == NULL || json_string_is(wanted, found))
		return true;
	text = wanted->u.string;
	status_conflict(&writing->reply, writing->definition->group, writing->definition->kind, writing->outcome->name,
					arena_printf(writing->arena,
								 "the %s in the precondition (%s) does not match the %s in record (%s). "
								 "The object might have been %s", what,
								 json_text_cstring(writing->arena, text), what, found, hint));
	return write_refuse(writing, 409);
}

/*
 * DEL-04: the finalizers according to the propagation.  The two finalizers of the garbage collector are removed, and
 * the requested one, if any, is added again; the others stay.
 */
static JsonNode *
settle_finalizers(Arena *arena, const JsonNode *finalizers, Propagation propagation)
{
	JsonNode   *settled = json_new_array(arena);

	for (size_t i = 0; finalizers != NULL && i < finalizers->u.array.count; i++)
	{
		JsonNode   *finalizer = finalizers->u.array.items[i];
		bool		orphan = json_string_is(finalizer, "orphan");
		bool		foreground = json_string_is(finalizer, "foregroundDeletion");

		if (!orphan && !foreground)
			json_append(arena, settled, finalizer);
		else if (propagation == PROPAGATION_UNSET)
			propagation = orphan ? PROPAGATION_ORPHAN : PROPAGATION_FOREGROUND;
	}
	if (propagation == PROPAGATION_ORPHAN)
		json_append(arena, settled, json_new_cstring(arena, "orphan"));
	else if (propagation == PROPAGATION_FOREGROUND)
		json_append(arena, settled, json_new_cstring(arena, "foregroundDeletion"));
	return settled;
}

/* Whether two lists of finalizers are equal as sets, as upstream compares them; then the stored order stays. */
static bool
same_finalizers(Arena *arena, JsonNode *settled, JsonNode *stored)
{
	JsonNode   *a = json_new_object(arena);
	JsonNode   *b = json_new_object(arena);
	JsonText   *missing;

	json_set(arena, a, "finalizers", settled);
	json_set(arena, b, "finalizers", stored);
	return metadata_new_finalizers(arena, a, b, &missing) == 0 && metadata_new_finalizers(arena, b, a, &missing) == 0;
}

/* Marks an object as terminating: sets deletionTimestamp and the members that belong to it (DEL-05). */
static void
mark_terminating(Writing *writing, OldObject *old)
{
	Arena	   *arena = writing->arena;
	JsonNode   *metadata = old->metadata;
	const JsonNode *deletion = json_get(metadata, "deletionTimestamp");
	int64_t		when;

	if (deletion == NULL && metadata_generation(metadata) > 0)
		json_set(arena, metadata, "generation", next_generation(arena, metadata_generation(metadata)));
	if (deletion == NULL || !parse_time(deletion->u.string, &when) || when > writing->context->now)
		json_set(arena, metadata, "deletionTimestamp",
				 json_new_cstring(arena, format_time(arena, writing->context->now)));
	json_set(arena, metadata, "deletionGracePeriodSeconds", json_new_integer(arena, 0));
}

void
write_decide_delete(Writing *writing)
{
	Arena	   *arena = writing->arena;
	const WriteOptions *options = &writing->admitted->options;
	WriteOutcome *outcome = writing->outcome;
	JsonNode   *stored_finalizers;
	JsonNode   *finalizers;
	JsonNode   *before;
	const char *uid;
	OldObject	old;

	if (writing->stored == NULL)
	{
		write_not_found(writing);
		return;
	}
	if (!write_parse_stored(writing, false, &old))
		return;
	if (is_collection(writing))
	{
		outcome->namespace_name = metadata_text(arena, old.document, "namespace");
		outcome->name = metadata_text(arena, old.document, "name");
	}
	uid = metadata_text(arena, old.document, "uid");
	outcome->uid = uid[0] != '\0' ? uid : NULL;
	if (!check_precondition(writing, "UID", options->uid, uid, "deleted and then recreated") ||
		!check_precondition(writing, "ResourceVersion", options->version,
							arena_printf(arena, "%lld", (long long) writing->stored->version), "modified"))
		return;

	stored_finalizers = json_get(old.metadata, "finalizers");
	finalizers = settle_finalizers(arena, stored_finalizers, options->propagation);
	/* In a namespace that is gone, no controller can remove finalizers. */
	if (finalizers->u.array.count == 0 || strcmp(writing->request->namespace_state, "dead") == 0)
	{
		outcome->transform.kind = TRANSFORM_DELETED;
		write_answer_object(writing, options->dry_run ? WRITE_ANSWER : WRITE_DELETE, 200, old.document,
							!options->dry_run);
		return;
	}

	/* The object stays and is the answer, so now its body is needed. */
	if (!write_parse_stored(writing, true, &old))
		return;
	stored_finalizers = json_get(old.metadata, "finalizers");
	before = json_clone(arena, old.metadata);
	if (stored_finalizers == NULL || !same_finalizers(arena, finalizers, stored_finalizers))
		json_set(arena, old.metadata, "finalizers", finalizers);
	mark_terminating(writing, &old);
	write_answer_object(writing, WRITE_UPDATE, options->accepts ? 202 : 200, old.document, true);
	if (options->dry_run || json_same(before, old.metadata))
		outcome->action = WRITE_ANSWER;
}
