/*-------------------------------------------------------------------------
 *
 * write_document.c
 *	  Documents of writes: decoding, checking, the owner's SQL.
 *
 * document_admit() handles the document itself; this file makes the answers of
 * the API.
 *
 * Reference: k8s-conformance REQ-05, REQ-06, section 8.1, CRE-09 to CRE-12.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/utf8.h"
#include "engine/writes/write_private.h"

/* Maximum bytes that a message shows of a document without a kind; upstream shows the whole document. */
#define SOURCE_SHOWN 1024

/* Maximum bytes that a message shows of an unrecognized body, as upstream. */
#define SUMMARY_SHOWN 30

typedef struct ComplaintState
{
	Arena	   *arena;
	JsonNode   *complaints;		/* NULL: not needed */
	const char *words;
	bool		quoted;
} ComplaintState;

static void
complain(void *state, const char *path)
{
	ComplaintState *complaint = state;
	StrBuf		buf;

	if (complaint->complaints->u.array.count >= COMPLAINTS_MAX)
		return;
	strbuf_init(&buf, complaint->arena);
	strbuf_puts(&buf, complaint->words);
	if (complaint->quoted)
		quote_text(&buf, path, strlen(path));
	else
	{
		strbuf_putc(&buf, '"');
		strbuf_puts(&buf, path);
		strbuf_putc(&buf, '"');
	}
	json_append(complaint->arena, complaint->complaints, json_new_string(complaint->arena, buf.bytes, buf.len));
}

/* Appends bytes from a client as valid UTF-8; most limits their number. */
static void
append_shown(StrBuf *buf, const char *bytes, size_t len, size_t most)
{
	size_t		shown = len < most ? len : most;
	size_t		width;

	for (size_t at = 0; at < shown; at += width)
	{
		uint32_t	rune;

		width = utf8_decode(bytes + at, shown - at, &rune);
		if (width > 0 && rune != 0)
			strbuf_append(buf, bytes + at, width);
		else if (width > 0)
			strbuf_puts(buf, JSON_NUL);
		else
		{
			strbuf_puts(buf, "\xEF\xBF\xBD");
			width = 1;
		}
	}
	if (shown < len)
		strbuf_puts(buf, " ...");
}

/* A string member as text; "" when it is absent. */
static JsonText
member_text(const JsonNode *object, const char *key)
{
	const JsonNode *node = json_get(object, key);
	JsonText	none = {"", 0};

	return node != NULL && node->kind == JSON_KIND_STRING ? node->u.string : none;
}

const char *
metadata_text(Arena *arena, const JsonNode *document, const char *key)
{
	return json_text_cstring(arena, member_text(json_get(document, "metadata"), key));
}

/* The generation in admitted metadata; 0 for none. */
int64_t
metadata_generation(const JsonNode *metadata)
{
	const JsonNode *node = json_get(metadata, "generation");

	return node != NULL ? node->u.integer : 0;
}

/* The next generation; the highest number stays. */
JsonNode *
next_generation(Arena *arena, int64_t generation)
{
	return json_new_integer(arena, generation < INT64_MAX ? generation + 1 : generation);
}

/* The part of apiVersion after the slash, or all of it. */
static JsonText
version_part(const JsonNode *document)
{
	JsonText	version = member_text(document, "apiVersion");
	const char *slash = version.len > 0 ? memchr(version.bytes, '/', version.len) : NULL;

	if (slash != NULL)
	{
		version.len -= (size_t) (slash + 1 - version.bytes);
		version.bytes = slash + 1;
	}
	return version;
}

/* How far a refused body was read. */
typedef enum BodyState
{
	BODY_UNKNOWN,				/* no readable kind */
	BODY_OF_KIND,				/* a kind, but the body does not fit it */
	BODY_DECODED				/* an object of its kind, refused only by strict decoding */
} BodyState;

/* Refuses a body that cannot be an object of this kind. */
static bool
refuse_body(Writing *writing, const JsonNode *document, BodyState state, const char *why)
{
	static const char hex[] = "0123456789abcdef";
	StrBuf		buf;

	strbuf_init(&buf, writing->arena);
	if (state != BODY_UNKNOWN)
	{
		JsonText	kind = member_text(document, "kind");
		JsonText	version = version_part(document);

		strbuf_puts(&buf, json_text_cstring(writing->arena, kind));
		strbuf_puts(&buf, " in version ");
		quote_text(&buf, version.bytes, version.len);
		strbuf_puts(&buf, " cannot be handled as a ");
		if (state == BODY_DECODED)
			strbuf_puts(&buf, json_text_cstring(writing->arena, kind));
		else
			strbuf_puts(&buf, writing->definition->kind);
		strbuf_printf(&buf, ": %s", why);
		return write_bad_request(writing, buf.bytes);
	}

	strbuf_printf(&buf, "the object provided is unrecognized (must be of type %s): %s (",
				  writing->definition->kind, why);
	if (writing->body_len == 0)
		strbuf_puts(&buf, "<empty>");
	else if (writing->body[0] == '{')
		append_shown(&buf, writing->body, writing->body_len, SUMMARY_SHOWN);
	else
	{
		for (size_t i = 0; i < writing->body_len && i < SUMMARY_SHOWN; i++)
		{
			strbuf_putc(&buf, hex[(unsigned char) writing->body[i] >> 4]);
			strbuf_putc(&buf, hex[(unsigned char) writing->body[i] & 15]);
		}
		if (writing->body_len > SUMMARY_SHOWN)
			strbuf_puts(&buf, " ...");
	}
	strbuf_putc(&buf, ')');
	return write_bad_request(writing, buf.bytes);
}

/* Upstream's first check: the body is an object with a readable kind and apiVersion.  NULL when it passes. */
static const char *
check_type(Arena *arena, const JsonNode *document, JsonText source)
{
	static const char *const keys[] = {"apiVersion", "kind"};
	JsonText	version;
	const char *slash;
	StrBuf		buf;

	if (document->kind != JSON_KIND_OBJECT && document->kind != JSON_KIND_NULL)
		return arena_printf(arena,
							"couldn't get version/kind; json parse error: json: cannot unmarshal %s into Go value "
							"of type " GO_TYPE_META, json_go_kind_name(document->kind));
	for (size_t i = 0; i < 2; i++)
	{
		const JsonNode *node = json_get(document, keys[i]);

		if (node != NULL && node->kind != JSON_KIND_STRING && node->kind != JSON_KIND_NULL)
			return arena_printf(arena, "couldn't get version/kind; json parse error: json: cannot unmarshal %s "
								"into Go struct field .%s of type string", json_go_kind_name(node->kind), keys[i]);
	}
	version = member_text(document, "apiVersion");
	slash = version.len > 0 ? memchr(version.bytes, '/', version.len) : NULL;
	strbuf_init(&buf, arena);
	if (slash != NULL && memchr(slash + 1, '/', (size_t) (version.bytes + version.len - slash - 1)) != NULL)
	{
		strbuf_puts(&buf, "unexpected GroupVersion string: ");
		append_shown(&buf, version.bytes, version.len, SOURCE_SHOWN);
		return buf.bytes;
	}
	if (member_text(document, "kind").len > 0)
		return NULL;
	strbuf_puts(&buf, "Object 'Kind' is missing in '");
	append_shown(&buf, source.bytes, source.len, SOURCE_SHOWN);
	strbuf_putc(&buf, '\'');
	return buf.bytes;
}

/*
 * Admits a decoded document.  False with *error when it is no object of any kind (*kind_known is false) or cannot be
 * read as an object of its kind (*kind_known is true).  complaints gets the dropped fields; NULL: not needed.
 */
bool
write_shape_document(Writing *writing, JsonNode *document, JsonNode *complaints,
					 bool *kind_known, const char **error)
{
	ComplaintState state = {.arena = writing->arena, .complaints = complaints, .words = "unknown field "};
	DocumentAdmission admission = {.unknown = complaints != NULL ? complain : NULL, .state = &state};
	DocumentRefusal refusal;
	JsonText	source = {writing->body, writing->body_len};

	if (writing->admitted->patch != NULL && member_text(document, "kind").len == 0)
	{
		StrBuf		text;

		strbuf_init(&text, writing->arena);
		json_write(&text, document);
		source.bytes = text.bytes;
		source.len = text.len;
	}
	*error = check_type(writing->arena, document, source);
	*kind_known = *error == NULL;
	if (*error != NULL)
		return false;
	if (document_admit(writing->arena, writing->definition, document, &admission, &refusal))
		return true;
	*error = refusal.message;
	return false;
}

static bool
has_duplicates(const Writing *writing)
{
	return writing->request->duplicates != NULL && writing->request->duplicates->u.array.count > 0;
}

/* Reports keys that a YAML body sets twice, as upstream: one error for all of them, but a warning for each. */
static void
complain_about_yaml(Writing *writing, StrBuf *buf, bool more)
{
	const JsonNode *duplicates = writing->request->duplicates;

	if (!has_duplicates(writing))
		return;
	strbuf_puts(buf, "yaml: unmarshal errors:");
	for (size_t i = 0; i < duplicates->u.array.count; i++)
	{
		JsonText	text = duplicates->u.array.items[i]->u.string;

		strbuf_puts(buf, "\n  ");
		strbuf_append(buf, text.bytes, text.len);
		if (writing->admitted->options.validation == FIELD_VALIDATION_WARN)
			write_warn(writing, arena_strndup(writing->arena, text.bytes, text.len));
	}
	strbuf_puts(buf, more ? ", " : "");
}

/* Decodes and admits the body of a create or an update and handles its complaints; NULL when it was refused. */
JsonNode *
write_decode_body(Writing *writing)
{
	Arena	   *arena = writing->arena;
	bool		strict = writing->admitted->options.validation != FIELD_VALIDATION_IGNORE;
	JsonNode   *complaints = strict ? json_new_array(arena) : NULL;
	ComplaintState duplicates = {.arena = arena, .complaints = complaints, .words = "duplicate field ", .quoted = true};
	JsonError	parse_error;
	JsonNode   *document;
	bool		kind_known;
	const char *error;
	StrBuf		buf;

	if (writing->request->decode_error[0] != '\0')
	{
		refuse_body(writing, NULL, BODY_UNKNOWN, writing->request->decode_error);
		return NULL;
	}
	document = json_parse(arena, writing->body, writing->body_len, strict ? complain : NULL, &duplicates, &parse_error);
	if (document == NULL)
	{
		refuse_body(writing, NULL, BODY_UNKNOWN,
					arena_printf(arena, "couldn't get version/kind; json parse error: %s", parse_error.message));
		return NULL;
	}
	if (!write_shape_document(writing, document, complaints, &kind_known, &error))
	{
		refuse_body(writing, document, kind_known ? BODY_OF_KIND : BODY_UNKNOWN, error);
		return NULL;
	}
	if (complaints == NULL || (complaints->u.array.count == 0 && !has_duplicates(writing)))
		return document;

	strbuf_init(&buf, arena);
	strbuf_puts(&buf, "strict decoding error: ");
	complain_about_yaml(writing, &buf, complaints->u.array.count > 0);
	for (size_t i = 0; i < complaints->u.array.count; i++)
	{
		JsonText	text = complaints->u.array.items[i]->u.string;

		if (writing->admitted->options.validation == FIELD_VALIDATION_WARN)
			write_warn(writing, text.bytes);
		if (i > 0)
			strbuf_puts(&buf, ", ");
		strbuf_append(&buf, text.bytes, text.len);
	}
	if (writing->admitted->options.validation == FIELD_VALIDATION_WARN)
		return document;
	refuse_body(writing, document, BODY_DECODED, buf.bytes);
	return NULL;
}

bool
write_check_version(Writing *writing, const JsonNode *document)
{
	JsonText	version = member_text(document, "apiVersion");
	StrBuf		buf;

	if (json_text_is(version, writing->definition->api_version))
		return true;
	if (version.len > 0 && version.bytes[0] == '/')
	{
		version.bytes++;
		version.len--;
	}
	strbuf_init(&buf, writing->arena);
	strbuf_puts(&buf, "the API version in the data (");
	append_shown(&buf, version.bytes, version.len, SOURCE_SHOWN);
	strbuf_printf(&buf, ") does not match the expected API version (%s)", writing->definition->api_version);
	return write_bad_request(writing, buf.bytes);
}

bool
write_agree_namespace(Writing *writing, JsonNode *document)
{
	JsonNode   *metadata = json_get(document, "metadata");
	const JsonNode *given = json_get(metadata, "namespace");
	const char *wanted = writing->definition->namespaced ? writing->request->namespace_name : "";

	if (wanted[0] == '\0')
		json_remove(metadata, "namespace");
	else if (given == NULL)
		json_set(writing->arena, metadata, "namespace", json_new_cstring(writing->arena, wanted));
	else if (!json_string_is(given, wanted))
		return write_bad_request(writing, "the namespace of the provided object does not match the namespace "
								 "sent on the request");
	return true;
}

bool
write_agree_name(Writing *writing, const JsonNode *document)
{
	const JsonNode *given = json_get(json_get(document, "metadata"), "name");
	const char *name = writing->request->name;

	if (given == NULL)
		return write_bad_request(writing,
								 arena_printf(writing->arena, "the name of the object (%s based on URL) was "
											  "undeterminable: name must be provided", name));
	if (json_string_is(given, name))
		return true;
	return write_bad_request(writing,
							 arena_printf(writing->arena, "the name of the object (%s) does not match the name on "
										  "the URL (%s)", metadata_text(writing->arena, document, "name"), name));
}

/* CRE-10; upstream checks a patched object only after mutating admission. */
void
write_dedup_owners(Writing *writing, JsonNode *document, bool patched)
{
	JsonNode   *duplicates = json_new_array(writing->arena);
	StrBuf		buf;

	metadata_dedup_owners(writing->arena, json_get(document, "metadata"), duplicates);
	if (duplicates->u.array.count == 0)
		return;
	strbuf_init(&buf, writing->arena);
	strbuf_printf(&buf, ".metadata.ownerReferences contains duplicate entries%s; API server dedups owner references in "
				  "1.20+, and may reject such requests as early as 1.24; please fix your requests; "
				  "duplicate UID(s) observed: ", patched ? " after mutating admission happens" : "");
	for (size_t i = 0; i < duplicates->u.array.count; i++)
	{
		JsonText	uid = duplicates->u.array.items[i]->u.string;

		strbuf_puts(&buf, i > 0 ? ", " : "");
		strbuf_puts(&buf, json_text_cstring(writing->arena, uid));
	}
	write_warn(writing, buf.bytes);
}

/* Keeps only the errors in the status, for an update of the status. */
static void
keep_status_errors(FieldErrorList *errors)
{
	size_t		kept = 0;

	for (size_t i = 0; i < errors->count; i++)
	{
		const char *field = errors->errors[i].field;

		if (strncmp(field, "status", 6) == 0 && (field[6] == '\0' || field[6] == '.' || field[6] == '['))
			errors->errors[kept++] = errors->errors[i];
	}
	errors->count = kept;
}

/*
 * Validates an object and answers with a 422 that has all errors.  old is NULL for a create.  A valid applied object is
 * completed here (document_settle_applied()).
 */
bool
write_validate(Writing *writing, JsonNode *document, const OldObject *old)
{
	Arena	   *arena = writing->arena;
	const Definition *definition = writing->definition;
	const char *group = definition->group;
	bool		is_apply = writing->admitted->patch_type != NULL && writing->admitted->patch_type->apply == NULL;
	FieldErrorList errors;

	field_errors_init(&errors, arena);
	document_validate(arena, definition, document, old != NULL ? old->metadata : NULL, &errors);
	if (writing->request->subresource[0] != '\0' && document_is_of(definition, document))
		keep_status_errors(&errors);
	if (errors.count == 0)
	{
		if (is_apply)
			document_settle_applied(arena, definition, document);
		return true;
	}
	if (!json_string_is(json_get(document, "apiVersion"), definition->api_version))
	{
		JsonText	text = member_text(document, "apiVersion");
		const char *slash = text.len > 0 ? memchr(text.bytes, '/', text.len) : NULL;

		group = slash != NULL ? json_text_cstring(arena, (JsonText) {text.bytes, (size_t) (slash - text.bytes)}) : "";
	}
	status_invalid(&writing->reply, json_get_cstring(arena, document, "kind"), group,
				   metadata_text(arena, document, "name"), &errors);
	return write_refuse(writing, 422);
}

/* CRE-09: warns about new finalizers. */
void
write_warn_finalizers(Writing *writing, const JsonNode *document, const OldObject *old)
{
	JsonText   *added;
	size_t		count = metadata_new_finalizers(writing->arena, json_get(document, "metadata"),
												old != NULL ? old->metadata : NULL, &added);

	for (size_t i = 0; i < count && i < COMPLAINTS_MAX; i++)
	{
		JsonText	name = added[i];
		StrBuf		buf;

		if (memchr(name.bytes, '/', name.len) != NULL || json_text_is(name, "orphan") ||
			json_text_is(name, "foregroundDeletion") || json_text_is(name, "kubernetes"))
			continue;
		strbuf_init(&buf, writing->arena);
		strbuf_puts(&buf, "metadata.finalizers: ");
		quote_text(&buf, name.bytes, name.len);
		strbuf_printf(&buf, ": prefer a domain-qualified finalizer name %sto avoid accidental conflicts with other "
					  "finalizer writers",
					  memchr(name.bytes, '.', name.len) != NULL ? "including a path (/) " : "");
		write_warn(writing, buf.bytes);
	}
}

bool
write_parse_stored(Writing *writing, bool with_body, OldObject *old)
{
	const StoredObject *stored = writing->stored;

	if (stored->parsed_metadata != NULL)
		old->document = document_take_stored(writing->arena, writing->definition, stored->parsed_metadata,
											 with_body ? stored->parsed_body : NULL);
	else
		old->document = document_read_stored(writing->arena, writing->definition, stored->metadata,
											 with_body ? &stored->body : NULL);
	if (old->document == NULL)
	{
		static const char why[] = "the stored object cannot be read";
		StatusCause cause = {.message = why};
		StatusDetails details = {.causes = &cause, .cause_count = 1};

		status_failure(&writing->reply, 500, "InternalError",
					   arena_printf(writing->arena, "Internal error occurred: %s", why), &details);
		return write_refuse(writing, 500);
	}
	old->metadata = json_get(old->document, "metadata");
	return true;
}

/*
 * The owner's SQL
 */

/* Keeps a member that the document has; else sets it to the stored value, or without a stored value to made. */
static void
settle_member(Arena *arena, JsonNode *metadata, const JsonNode *old, const char *key, JsonNode *made)
{
	if (json_get(metadata, key) == NULL)
		json_set(arena, metadata, key, json_get(old, key) != NULL ? json_get(old, key) : made);
}

/*
 * SQL does not update managed fields: the stored managed fields stay, unless the document has others.  Managed fields
 * that cannot be read are dropped.
 */
static void
settle_owners(Arena *arena, JsonNode *metadata, const JsonNode *old)
{
	const JsonNode *given = json_get(metadata, "managedFields");

	if (given == NULL && json_get(old, "managedFields") != NULL)
		json_set(arena, metadata, "managedFields", json_get(old, "managedFields"));
	else if (!field_owners_are_sound(arena, given))
		json_remove(metadata, "managedFields");
}

bool
write_document(Arena *arena, const Definition *definition, JsonNode *metadata, JsonNode *body,
			   const StoredObject *stored, const WriteContext *context, FieldErrorList *errors)
{
	static const DocumentAdmission admission = {0};
	DocumentRefusal refusal;
	JsonNode   *old = NULL;
	JsonNode   *old_metadata;
	JsonNode   *document;
	int64_t		generation;

	if (metadata->kind != JSON_KIND_OBJECT)
	{
		field_error_at(errors, FIELD_TYPE_INVALID, "metadata", metadata, "must be of type object");
		return false;
	}
	if (body->kind != JSON_KIND_OBJECT)
	{
		field_error_at(errors, FIELD_TYPE_INVALID, "", body, "must be of type object");
		return false;
	}
	document = document_join(arena, definition, metadata, body);
	if (!document_admit(arena, definition, document, &admission, &refusal))
	{
		*errors = refusal.errors;
		return false;
	}
	if (stored != NULL)
		old = document_read_stored(arena, definition, stored->metadata, &stored->body);
	old_metadata = json_get(old, "metadata");
	json_remove(metadata, "resourceVersion");
	settle_owners(arena, metadata, old_metadata);
	if (context->fill_summary)
		summary_fill(arena, document);
	if (json_get(metadata, "name") == NULL && json_get(metadata, "generateName") != NULL)
		json_set(arena, metadata, "name",
				 json_new_cstring(arena, metadata_generate_name(arena,
																json_get_cstring(arena, metadata, "generateName"),
																context->random)));
	settle_member(arena, metadata, old_metadata, "uid", json_new_cstring(arena, arena_strdup(arena, context->uid)));
	settle_member(arena, metadata, old_metadata, "creationTimestamp",
				  json_new_cstring(arena, format_time(arena, context->now)));
	settle_member(arena, metadata, old_metadata, "generation", json_new_integer(arena, 1));

	/* A changed generation comes from the caller and stays; an unchanged one increases when the body changes. */
	*body = *document_body(arena, document);
	generation = metadata_generation(metadata);
	if (old != NULL && !json_same(body, document_body(arena, old)) && generation == metadata_generation(old_metadata))
		json_set(arena, metadata, "generation", next_generation(arena, generation));

	document_validate(arena, definition, document, NULL, errors);
	return errors->count == 0;
}
