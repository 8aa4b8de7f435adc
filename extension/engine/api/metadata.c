/*-------------------------------------------------------------------------
 *
 * metadata.c
 *	  Object metadata: coercion and validation.
 *
 * metadata_coerce() leaves exactly the shape of ObjectMeta: known keys of the
 * right type, no nulls, nothing empty, times in UTC with whole seconds.  The
 * other functions rely on that shape.
 *
 * The time of every function grows with its input by O(n log n) at most: a
 * client can send as many labels, owners and finalizers as fit into a body.
 *
 * Reference: k8s-conformance CRE-03 to CRE-11, UPD-02, UPD-05.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/metadata_private.h"

#include <stdlib.h>
#include <string.h>

#include "engine/api/managed_fields.h"

#define ANNOTATIONS_MAX (256 * 1024)

typedef enum FieldKind
{
	FIELD_STRING,
	FIELD_INT,
	FIELD_TIME,
	FIELD_STRING_MAP,
	FIELD_STRING_LIST,
	FIELD_BOOL,
	FIELD_OWNERS,
	FIELD_MANAGED,
	FIELD_RAW,
	FIELD_DROPPED
} FieldKind;

typedef struct FieldShape
{
	const char *name;
	FieldKind	kind;
	const char *go_type;		/* as Go's decoder names the type */
	bool		keep_zero;		/* keep 0: upstream's field is a pointer */
} FieldShape;

/* selfLink is known but never kept. */
static const FieldShape object_meta_fields[] = {
	{"annotations", FIELD_STRING_MAP, "map[string]string", false},
	{"creationTimestamp", FIELD_TIME, "v1.Time", false},
	{"deletionGracePeriodSeconds", FIELD_INT, "int64", true},
	{"deletionTimestamp", FIELD_TIME, "v1.Time", false},
	{"finalizers", FIELD_STRING_LIST, "[]string", false},
	{"generateName", FIELD_STRING, "string", false},
	{"generation", FIELD_INT, "int64", false},
	{"labels", FIELD_STRING_MAP, "map[string]string", false},
	{"managedFields", FIELD_MANAGED, "[]v1.ManagedFieldsEntry", false},
	{"name", FIELD_STRING, "string", false},
	{"namespace", FIELD_STRING, "string", false},
	{"ownerReferences", FIELD_OWNERS, "[]v1.OwnerReference", false},
	{"resourceVersion", FIELD_STRING, "string", false},
	{"selfLink", FIELD_DROPPED, "string", false},
	{"uid", FIELD_STRING, "types.UID", false},
};

static const FieldShape owner_fields[] = {
	{"apiVersion", FIELD_STRING, "string", false},
	{"blockOwnerDeletion", FIELD_BOOL, "bool", false},
	{"controller", FIELD_BOOL, "bool", false},
	{"kind", FIELD_STRING, "string", false},
	{"name", FIELD_STRING, "string", false},
	{"uid", FIELD_STRING, "types.UID", false},
};

static const FieldShape managed_fields[] = {
	{"apiVersion", FIELD_STRING, "string", false},
	{"fieldsType", FIELD_STRING, "string", false},
	{"fieldsV1", FIELD_RAW, NULL, false},
	{"manager", FIELD_STRING, "string", false},
	{"operation", FIELD_STRING, "v1.ManagedFieldsOperationType", false},
	{"subresource", FIELD_STRING, "string", false},
	{"time", FIELD_TIME, "v1.Time", false},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static JsonText
text_of(const JsonNode *node)
{
	JsonText	none = {"", 0};

	return node != NULL && node->kind == JSON_KIND_STRING ? node->u.string : none;
}

static size_t
array_count(const JsonNode *node)
{
	return node != NULL && node->kind == JSON_KIND_ARRAY ? node->u.array.count : 0;
}

/*
 * Coercion
 */

typedef struct Coercion
{
	Arena	   *arena;
	UnknownField unknown;
	void	   *state;
	size_t		told;
	JsonNode   *empty;			/* shared empty string; created on first use */
	const char *error;
} Coercion;

/* The place of a value; converted to text only for a message. */
typedef struct CoercedField
{
	const char *struct_name;	/* name of the struct in Go */
	const char *list;			/* the member of the metadata whose elements are such structs, or NULL */
	size_t		index;			/* index in list */
	const char *member;
} CoercedField;

static bool
wrong_type(Coercion *coercion, const char *value, const CoercedField *field, const char *go_type)
{
	coercion->error = arena_printf(coercion->arena,
								   "json: cannot unmarshal %s into Go struct field %s.%s%s%s of type %s",
								   value, field->struct_name, field->list != NULL ? field->list : "",
								   field->list != NULL ? "." : "", field->member, go_type);
	return false;
}

static void
tell_unknown(Coercion *coercion, const CoercedField *field, JsonText key)
{
	StrBuf		path;

	if (coercion->unknown == NULL || coercion->told++ >= UNKNOWN_FIELDS_MAX)
		return;
	strbuf_init(&path, coercion->arena);
	strbuf_puts(&path, "metadata.");
	if (field->list != NULL)
		strbuf_printf(&path, "%s[%zu].", field->list, field->index);
	strbuf_puts(&path, json_text_cstring(coercion->arena, key));
	coercion->unknown(coercion->state, path.bytes);
}

static JsonNode *
empty_string(Coercion *coercion)
{
	if (coercion->empty == NULL)
		coercion->empty = json_new_cstring(coercion->arena, "");
	return coercion->empty;
}

/* Converts a time to its canonical text; Go's zero time means no time. */
static bool
coerce_time(Coercion *coercion, JsonNode *node, const CoercedField *field, bool *empty)
{
	int64_t		seconds;
	const char *element;
	const char *range;
	size_t		at;
	StrBuf		buf;

	if (node->kind != JSON_KIND_STRING)
		return wrong_type(coercion, json_go_kind_name(node->kind), field, "string");
	if (scan_time(node->u.string, &seconds, &element, &at, &range))
	{
		char	   *text = format_time(coercion->arena, seconds);

		*empty = seconds == GO_ZERO_TIME;
		node->u.string.bytes = text;
		node->u.string.len = strlen(text);
		node->plain = true;
		return true;
	}

	strbuf_init(&buf, coercion->arena);
	strbuf_puts(&buf, "parsing time ");
	quote_text(&buf, node->u.string.bytes, node->u.string.len);
	if (range != NULL)
		strbuf_printf(&buf, ": %s out of range", range);
	else if (element == NULL)
	{
		strbuf_puts(&buf, ": extra text: ");
		quote_text(&buf, node->u.string.bytes + at, node->u.string.len - at);
	}
	else
	{
		strbuf_puts(&buf, " as \"2006-01-02T15:04:05Z07:00\": cannot parse ");
		quote_text(&buf, node->u.string.bytes + at, node->u.string.len - at);
		strbuf_printf(&buf, " as \"%s\"", element);
	}
	coercion->error = buf.bytes;
	return false;
}

static bool
coerce_int(Coercion *coercion, JsonNode *node, const CoercedField *field, const char *go_type)
{
	StrBuf		buf;

	if (node->kind == JSON_KIND_INTEGER)
		return true;
	if (node->kind != JSON_KIND_NUMBER)
		return wrong_type(coercion, json_go_kind_name(node->kind), field, go_type);

	/* Upstream decodes 1.0 as 1. */
	if (node->u.number >= -9007199254740992.0 && node->u.number <= 9007199254740992.0 &&
		node->u.number == (double) (int64_t) node->u.number)
	{
		int64_t		value = (int64_t) node->u.number;

		node->kind = JSON_KIND_INTEGER;
		node->u.integer = value;
		return true;
	}
	strbuf_init(&buf, coercion->arena);
	strbuf_puts(&buf, "number ");
	json_write(&buf, node);
	return wrong_type(coercion, buf.bytes, field, go_type);
}

/* A null among strings becomes Go's zero value, the empty string. */
static bool
coerce_string(Coercion *coercion, JsonNode **slot, const CoercedField *field, const char *go_type)
{
	if ((*slot)->kind == JSON_KIND_NULL)
		*slot = empty_string(coercion);
	if ((*slot)->kind != JSON_KIND_STRING)
		return wrong_type(coercion, json_go_kind_name((*slot)->kind), field, go_type);
	return true;
}

static bool
coerce_strings(Coercion *coercion, JsonNode *node, const FieldShape *shape, const CoercedField *field)
{
	if (shape->kind == FIELD_STRING_MAP)
	{
		if (node->kind != JSON_KIND_OBJECT)
			return wrong_type(coercion, json_go_kind_name(node->kind), field, shape->go_type);
		for (size_t i = 0; i < node->u.object.count; i++)
			if (!coerce_string(coercion, &node->u.object.members[i].value, field, "string"))
				return false;
	}
	else
	{
		if (node->kind != JSON_KIND_ARRAY)
			return wrong_type(coercion, json_go_kind_name(node->kind), field, shape->go_type);
		for (size_t i = 0; i < node->u.array.count; i++)
			if (!coerce_string(coercion, &node->u.array.items[i], field, "string"))
				return false;
	}
	return true;
}

static bool coerce_owners(Coercion *coercion, JsonNode *node, const FieldShape *shape, const CoercedField *field);
static bool coerce_managed(Coercion *coercion, JsonNode *node, const FieldShape *shape, const CoercedField *field);

/* Checks one member; *drop means that the member must be removed. */
static bool
coerce_field(Coercion *coercion, JsonNode *node, const FieldShape *shape, const CoercedField *field, bool *drop)
{
	*drop = node->kind == JSON_KIND_NULL || shape->kind == FIELD_DROPPED;
	if (node->kind != JSON_KIND_NULL && node->kind != JSON_KIND_STRING && shape->kind == FIELD_DROPPED &&
		shape->go_type != NULL)
		return wrong_type(coercion, json_go_kind_name(node->kind), field, shape->go_type);
	if (*drop)
		return true;
	switch (shape->kind)
	{
		case FIELD_STRING:
			*drop = node->kind == JSON_KIND_STRING && node->u.string.len == 0;
			return node->kind == JSON_KIND_STRING || wrong_type(coercion, json_go_kind_name(node->kind), field,
																shape->go_type);
		case FIELD_BOOL:
			return node->kind == JSON_KIND_BOOL || wrong_type(coercion, json_go_kind_name(node->kind), field,
															  shape->go_type);
		case FIELD_INT:
			if (!coerce_int(coercion, node, field, shape->go_type))
				return false;
			*drop = node->u.integer == 0 && !shape->keep_zero;
			return true;
		case FIELD_TIME:
			return coerce_time(coercion, node, field, drop);
		case FIELD_STRING_MAP:
		case FIELD_STRING_LIST:
			if (!coerce_strings(coercion, node, shape, field))
				return false;
			break;
		case FIELD_OWNERS:
			if (!coerce_owners(coercion, node, shape, field))
				return false;
			break;
		case FIELD_MANAGED:
			/* Keep an empty list: it is a request to clear managedFields. */
			return coerce_managed(coercion, node, shape, field);
		case FIELD_RAW:
			return true;
		case FIELD_DROPPED:
			break;
	}
	*drop = node->kind == JSON_KIND_ARRAY ? node->u.array.count == 0 : node->u.object.count == 0;
	return true;
}

/* Coerces the members of a struct.  at is the place of the struct; the function fills in the member. */
static bool
coerce_struct(Coercion *coercion, JsonNode *node, const FieldShape *shapes, size_t shape_count, CoercedField at)
{
	size_t		kept = 0;

	for (size_t i = 0; i < node->u.object.count; i++)
	{
		JsonMember *member = &node->u.object.members[i];
		const FieldShape *shape = NULL;
		bool		drop;

		arena_checkpoint_at(i);
		for (size_t s = 0; s < shape_count && shape == NULL; s++)
			if (json_text_is(member->key, shapes[s].name))
				shape = &shapes[s];
		if (shape == NULL)
		{
			tell_unknown(coercion, &at, member->key);
			continue;
		}
		at.member = shape->name;
		if (!coerce_field(coercion, member->value, shape, &at, &drop))
		{
			/* Keep the unchecked members behind the checked ones, so that the object can still be printed. */
			memmove(&node->u.object.members[kept], member, (node->u.object.count - i) * sizeof(JsonMember));
			node->u.object.count -= i - kept;
			return false;
		}
		if (!drop)
			node->u.object.members[kept++] = *member;
	}
	node->u.object.count = kept;
	return true;
}

/* Coerces a list of structs whose members have these shapes. */
static bool
coerce_structs(Coercion *coercion, JsonNode *node, const FieldShape *shape, const CoercedField *field,
			   const FieldShape *shapes, size_t shape_count, const char *struct_name)
{
	CoercedField at = {.struct_name = struct_name, .list = shape->name};

	if (node->kind != JSON_KIND_ARRAY)
		return wrong_type(coercion, json_go_kind_name(node->kind), field, shape->go_type);
	for (size_t i = 0; i < node->u.array.count; i++)
	{
		JsonNode  **slot = &node->u.array.items[i];

		arena_checkpoint_at(i);
		if ((*slot)->kind == JSON_KIND_NULL)
			*slot = json_new_object(coercion->arena);
		if ((*slot)->kind != JSON_KIND_OBJECT)
			return wrong_type(coercion, json_go_kind_name((*slot)->kind), field,
							  arena_printf(coercion->arena, "v1.%s", struct_name));
		at.index = i;
		if (!coerce_struct(coercion, *slot, shapes, shape_count, at))
			return false;
	}
	return true;
}

static bool
coerce_managed(Coercion *coercion, JsonNode *node, const FieldShape *shape, const CoercedField *field)
{
	return coerce_structs(coercion, node, shape, field, managed_fields, COUNT(managed_fields), "ManagedFieldsEntry");
}

static bool
coerce_owners(Coercion *coercion, JsonNode *node, const FieldShape *shape, const CoercedField *field)
{
	if (!coerce_structs(coercion, node, shape, field, owner_fields, COUNT(owner_fields), "OwnerReference"))
		return false;
	for (size_t i = 0; i < node->u.array.count; i++)
	{
		JsonNode   *owner = node->u.array.items[i];

		/* Upstream prints these four members even if they are empty. */
		for (size_t f = 0; f < COUNT(owner_fields); f++)
			if (owner_fields[f].kind == FIELD_STRING && json_get(owner, owner_fields[f].name) == NULL)
				json_set(coercion->arena, owner, owner_fields[f].name, empty_string(coercion));
	}
	return true;
}

bool
metadata_coerce(Arena *arena, JsonNode *metadata, UnknownField unknown, void *state, const char **error)
{
	Coercion	coercion = {.arena = arena, .unknown = unknown, .state = state};

	*error = NULL;
	if (metadata->kind != JSON_KIND_OBJECT)
	{
		*error = arena_printf(arena, "json: cannot unmarshal %s into Go value of type v1.ObjectMeta",
							  json_go_kind_name(metadata->kind));
		return false;
	}
	if (coerce_struct(&coercion, metadata, object_meta_fields, COUNT(object_meta_fields),
					  (CoercedField) {.struct_name = "ObjectMeta"}))
		return true;
	*error = coercion.error;
	return false;
}

/*
 * Validation
 */

static bool
is_full(const FieldErrorList *errors)
{
	return errors->count >= FIELD_ERRORS_MAX || errors->bytes >= FIELD_ERRORS_MAX_BYTES;
}

static void
add_messages(FieldErrorList *errors, const char *path, const JsonNode *value, const char *const *messages)
{
	for (; messages != NULL && *messages != NULL; messages++)
		field_error_at(errors, FIELD_INVALID, path, value, *messages);
}

static void
validate_name(Arena *arena, const JsonNode *metadata, FieldErrorList *errors)
{
	const JsonNode *name = json_get(metadata, "name");
	const JsonNode *generate_name = json_get(metadata, "generateName");

	if (generate_name != NULL)
	{
		JsonText	masked = text_of(generate_name);

		/*
		 * A prefix may end in a dash.  Upstream replaces the last two bytes by one letter, so the byte before the dash
		 * is not checked either.
		 */
		if (masked.len > 1 && masked.bytes[masked.len - 1] == '-')
		{
			char	   *copy = arena_strndup(arena, masked.bytes, masked.len - 1);

			copy[masked.len - 2] = 'a';
			masked.bytes = copy;
			masked.len--;
		}
		add_messages(errors, "metadata.generateName", generate_name, subdomain_errors(arena, masked));
	}
	if (name == NULL)
	{
		field_error_at(errors, FIELD_REQUIRED, "metadata.name", NULL, "name or generateName is required");
		return;
	}
	add_messages(errors, "metadata.name", name, subdomain_errors(arena, text_of(name)));
}

static void
validate_namespace(Arena *arena, const JsonNode *metadata, bool namespaced, FieldErrorList *errors)
{
	const JsonNode *node = json_get(metadata, "namespace");
	JsonText	text = text_of(node);

	if (!namespaced)
	{
		if (text.len > 0)
			field_error_at(errors, FIELD_FORBIDDEN, "metadata.namespace", NULL, "not allowed on this type");
		return;
	}
	if (text.len == 0)
	{
		field_error_at(errors, FIELD_REQUIRED, "metadata.namespace", NULL, NULL);
		return;
	}
	add_messages(errors, "metadata.namespace", node, namespace_errors(arena, text));
}

static void
validate_labels(Arena *arena, const JsonNode *labels, FieldErrorList *errors)
{
	if (labels == NULL)
		return;
	for (size_t i = 0; i < labels->u.object.count && !is_full(errors); i++)
	{
		const JsonMember *label = &labels->u.object.members[i];
		JsonNode	key = {.kind = JSON_KIND_STRING, .u.string = label->key};

		arena_checkpoint_at(i);
		add_messages(errors, "metadata.labels", &key, qualified_name_errors(arena, label->key));
		add_messages(errors, "metadata.labels", label->value, label_value_errors(arena, text_of(label->value)));
	}
}

static void
validate_annotations(Arena *arena, const JsonNode *annotations, FieldErrorList *errors)
{
	size_t		total = 0;

	if (annotations == NULL)
		return;
	for (size_t i = 0; i < annotations->u.object.count; i++)
	{
		const JsonMember *annotation = &annotations->u.object.members[i];
		JsonNode	key = {.kind = JSON_KIND_STRING, .u.string = annotation->key};
		JsonText	lower = {"", annotation->key.len};
		char	   *copy;

		arena_checkpoint_at(i);
		total += annotation->key.len + text_of(annotation->value).len;
		if (is_full(errors))
			continue;
		copy = arena_strndup(arena, annotation->key.bytes, annotation->key.len);
		for (size_t k = 0; k < lower.len; k++)
			if (copy[k] >= 'A' && copy[k] <= 'Z')
				copy[k] += 'a' - 'A';
		lower.bytes = copy;
		add_messages(errors, "metadata.annotations", &key, qualified_name_errors(arena, lower));
	}
	if (total > ANNOTATIONS_MAX)
		field_error_at(errors, FIELD_TOO_LONG, "metadata.annotations", NULL, "may not be more than 262144 bytes");
}

static void
validate_owner(Arena *arena, const JsonNode *owner, size_t index, FieldErrorList *errors)
{
	const char *path = arena_printf(arena, "metadata.ownerReferences[%zu]", index);
	const JsonNode *version_node = json_get(owner, "apiVersion");
	JsonText	version = text_of(version_node);
	const char *slash = version.len > 0 ? memchr(version.bytes, '/', version.len) : NULL;
	static const char *const required[] = {"kind", "name", "uid"};

	if (version.len == 0)
		field_error_at(errors, FIELD_REQUIRED, arena_printf(arena, "%s.apiVersion", path), NULL, "must not be empty");
	else if (slash != NULL && (slash + 1 == version.bytes + version.len ||
							   memchr(slash + 1, '/', (size_t) (version.bytes + version.len - slash - 1)) != NULL))
		field_error_at(errors, FIELD_INVALID, arena_printf(arena, "%s.apiVersion", path), version_node,
					   "must be <group>/<version> or <version>");
	for (size_t i = 0; i < 3; i++)
		if (text_of(json_get(owner, required[i])).len == 0)
			field_error_at(errors, FIELD_REQUIRED, arena_printf(arena, "%s.%s", path, required[i]), NULL,
						   "must not be empty");
	if (json_text_is(version, "v1") && json_string_is(json_get(owner, "kind"), "Event"))
		field_error_at(errors, FIELD_INVALID, path, owner, "/v1, Kind=Event is disallowed from being an owner");
}

static const char *
owner_label(Arena *arena, const JsonNode *owner)
{
	StrBuf		buf;
	JsonText	kind = text_of(json_get(owner, "kind"));
	JsonText	name = text_of(json_get(owner, "name"));

	strbuf_init(&buf, arena);
	strbuf_append(&buf, kind.bytes, kind.len);
	strbuf_putc(&buf, '/');
	strbuf_append(&buf, name.bytes, name.len);
	return buf.bytes;
}

static void
validate_owners(Arena *arena, const JsonNode *owners, FieldErrorList *errors)
{
	const char *controller = NULL;

	for (size_t i = 0; i < array_count(owners) && !is_full(errors); i++)
	{
		const JsonNode *owner = owners->u.array.items[i];
		const JsonNode *flag = json_get(owner, "controller");

		arena_checkpoint_at(i);
		validate_owner(arena, owner, i, errors);
		if (flag == NULL || flag->kind != JSON_KIND_BOOL || !flag->u.boolean)
			continue;
		if (controller != NULL)
			field_error_at(errors, FIELD_INVALID, "metadata.ownerReferences", owners,
						   arena_printf(arena, "Only one reference can have Controller set to true. "
										"Found \"true\" in references for %s and %s",
										controller, owner_label(arena, owner)));
		else
			controller = owner_label(arena, owner);
	}
}

static void
validate_finalizers(Arena *arena, const JsonNode *finalizers, FieldErrorList *errors)
{
	bool		orphan = false;
	bool		foreground = false;

	for (size_t i = 0; i < array_count(finalizers) && !is_full(errors); i++)
	{
		const JsonNode *finalizer = finalizers->u.array.items[i];

		arena_checkpoint_at(i);
		add_messages(errors, "metadata.finalizers", finalizer, qualified_name_errors(arena, text_of(finalizer)));
		orphan |= json_string_is(finalizer, "orphan");
		foreground |= json_string_is(finalizer, "foregroundDeletion");
	}
	if (orphan && foreground)
		field_error_at(errors, FIELD_INVALID, "metadata.finalizers", finalizers,
					   "finalizer orphan and foregroundDeletion cannot be both set");
}

/* The checks of the metadata of every object, new or stored. */
static void
validate_common(Arena *arena, const JsonNode *metadata, bool namespaced, FieldErrorList *errors)
{
	const JsonNode *generation = json_get(metadata, "generation");

	validate_namespace(arena, metadata, namespaced, errors);
	if (generation != NULL && generation->u.integer < 0)
		field_error_at(errors, FIELD_INVALID, "metadata.generation", generation,
					   "must be greater than or equal to 0");
	validate_labels(arena, json_get(metadata, "labels"), errors);
	validate_annotations(arena, json_get(metadata, "annotations"), errors);
	validate_owners(arena, json_get(metadata, "ownerReferences"), errors);
	validate_finalizers(arena, json_get(metadata, "finalizers"), errors);
	managed_fields_validate(json_get(metadata, "managedFields"), errors);
}

void
metadata_validate(Arena *arena, const JsonNode *metadata, bool namespaced, FieldErrorList *errors)
{
	validate_name(arena, metadata, errors);
	validate_common(arena, metadata, namespaced, errors);
}

static int
compare_texts(const void *a, const void *b)
{
	return json_text_compare(*(const JsonText *) a, *(const JsonText *) b);
}

/* The texts of a list of strings, sorted. */
static JsonText *
sorted_texts(Arena *arena, const JsonNode *list)
{
	size_t		count = array_count(list);
	JsonText   *texts = arena_alloc(arena, (count + 1) * sizeof(JsonText));

	for (size_t i = 0; i < count; i++)
		texts[i] = text_of(list->u.array.items[i]);
	qsort(texts, count, sizeof(JsonText), compare_texts);
	return texts;
}

size_t
metadata_new_finalizers(Arena *arena, const JsonNode *metadata, const JsonNode *stored, JsonText **added)
{
	const JsonNode *finalizers = json_get(metadata, "finalizers");
	const JsonNode *old_finalizers = json_get(stored, "finalizers");
	size_t		old_count = array_count(old_finalizers);
	JsonText   *texts = sorted_texts(arena, finalizers);
	JsonText   *old = sorted_texts(arena, old_finalizers);
	size_t		at = 0;
	size_t		count = 0;

	for (size_t i = 0; i < array_count(finalizers); i++)
	{
		while (at < old_count && json_text_compare(old[at], texts[i]) < 0)
			at++;
		if (at < old_count && json_text_compare(old[at], texts[i]) == 0)
			continue;
		if (count == 0 || json_text_compare(texts[count - 1], texts[i]) != 0)
			texts[count++] = texts[i];
	}
	*added = texts;
	return count;
}

void
metadata_validate_update(Arena *arena, const JsonNode *metadata, const JsonNode *stored, bool namespaced,
						 FieldErrorList *errors)
{
	static const char *const immutable[] = {"name", "namespace", "uid", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds"};
	const JsonNode *generate_name = json_get(metadata, "generateName");
	JsonText	prefix = text_of(generate_name);

	/* The prefix is no longer used to generate a name: only characters that a path cannot contain are refused. */
	if (prefix.len > 0 && memchr(prefix.bytes, '/', prefix.len) != NULL)
		field_error_at(errors, FIELD_INVALID, "metadata.generateName", generate_name, "may not contain '/'");
	if (prefix.len > 0 && memchr(prefix.bytes, '%', prefix.len) != NULL)
		field_error_at(errors, FIELD_INVALID, "metadata.generateName", generate_name, "may not contain '%'");
	validate_common(arena, metadata, namespaced, errors);

	/* Upstream checks them three times for an update: once in validate_common(), and twice here. */
	for (int i = 0; i < 2; i++)
		managed_fields_validate(json_get(metadata, "managedFields"), errors);
	if (json_get(stored, "deletionTimestamp") != NULL)
	{
		JsonText   *added;
		size_t		count = metadata_new_finalizers(arena, metadata, stored, &added);

		if (count > 0)
		{
			StrBuf		buf;

			strbuf_init(&buf, arena);
			strbuf_puts(&buf, "no new finalizers can be added if the object is being deleted, "
						"found new finalizers []string{");
			for (size_t i = 0; i < count; i++)
			{
				if (i > 0)
					strbuf_puts(&buf, ", ");
				quote_text(&buf, added[i].bytes, added[i].len);
			}
			strbuf_putc(&buf, '}');
			field_error_at(errors, FIELD_FORBIDDEN, "metadata.finalizers", NULL, buf.bytes);
		}
	}
	for (size_t i = 0; i < sizeof(immutable) / sizeof(immutable[0]); i++)
	{
		const JsonNode *now = json_get(metadata, immutable[i]);
		const JsonNode *before = json_get(stored, immutable[i]);

		if (now == NULL ? before == NULL : before != NULL && json_same(now, before))
			continue;
		field_error_at(errors, FIELD_INVALID, arena_printf(arena, "metadata.%s", immutable[i]),
					   now != NULL ? now : json_new_null(arena), "field is immutable");
	}
}

/* The text of an owner, and its index in the list. */
typedef struct OwnerText
{
	JsonText	text;
	size_t		index;
} OwnerText;

static int
compare_owners(const void *a, const void *b)
{
	const OwnerText *left = a;
	const OwnerText *right = b;
	int			order = json_text_compare(left->text, right->text);

	if (order != 0)
		return order;
	return left->index < right->index ? -1 : 1;
}

void
metadata_dedup_owners(Arena *arena, JsonNode *metadata, JsonNode *duplicates)
{
	JsonNode   *owners = json_get(metadata, "ownerReferences");
	size_t		count = array_count(owners);
	OwnerText  *texts;
	bool	   *repeated;
	size_t		kept = 0;

	if (count < 2)
		return;
	texts = arena_alloc(arena, count * sizeof(OwnerText));
	repeated = arena_alloc0(arena, count * sizeof(bool));
	for (size_t i = 0; i < count; i++)
	{
		StrBuf		text;

		arena_checkpoint_at(i);
		strbuf_init(&text, arena);
		json_write(&text, owners->u.array.items[i]);
		texts[i] = (OwnerText) {{strbuf_finish(&text), text.len}, i};
	}
	qsort(texts, count, sizeof(OwnerText), compare_owners);
	for (size_t i = 1; i < count; i++)
		repeated[texts[i].index] = json_text_compare(texts[i - 1].text, texts[i].text) == 0;

	for (size_t i = 0; i < count; i++)
	{
		if (repeated[i])
			json_append(arena, duplicates, json_get(owners->u.array.items[i], "uid"));
		else
			owners->u.array.items[kept++] = owners->u.array.items[i];
	}
	owners->u.array.count = kept;
}
