/*-------------------------------------------------------------------------
 *
 * schema_lists.c
 *	  Checks of lists of type set and map, and of embedded resources.
 *
 * kube-apiserver makes both checks after the validation of the schema, in
 * separate walks.  A list of type set has no equal items, a list of type map
 * has no items with equal keys.  An embedded resource has an apiVersion, a
 * kind and valid metadata.  A schema records whether it contains any of these,
 * so most documents need no walk.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/schema_private.h"

#include <stdlib.h>

#include "engine/api/metadata.h"

/* The identity of a list item: canonical JSON of its keys or of its value.  unspecified: all keys are absent. */
typedef struct ItemKey
{
	JsonText	text;
	bool		unspecified;
	size_t		index;
} ItemKey;

static int
compare_item_keys(const void *a, const void *b)
{
	const ItemKey *x = a;
	const ItemKey *y = b;
	int			order;

	if (x->unspecified != y->unspecified)
		return x->unspecified ? 1 : -1;
	order = json_text_compare(x->text, y->text);
	if (order != 0)
		return order;
	return x->index < y->index ? -1 : 1;
}

/* Marks the index of the second item of each group of equal keys. */
static void
mark_duplicates(ItemKey *keys, size_t count, bool *duplicate)
{
	qsort(keys, count, sizeof(ItemKey), compare_item_keys);
	for (size_t i = 1; i < count; i++)
	{
		bool		same = keys[i].unspecified == keys[i - 1].unspecified &&
		json_text_compare(keys[i].text, keys[i - 1].text) == 0;
		bool		same_before = i >= 2 && keys[i - 1].unspecified == keys[i - 2].unspecified &&
		json_text_compare(keys[i - 1].text, keys[i - 2].text) == 0;

		if (same && !same_before)
			duplicate[keys[i].index] = true;
	}
}


/* The keys of an item of a list of type map, as an object without the absent keys. */
static JsonNode *
keys_of_item(Arena *arena, const Schema *schema, const JsonNode *item)
{
	JsonNode   *keys = json_new_object(arena);

	for (size_t k = 0; k < schema->list_map_key_count; k++)
	{
		JsonNode   *value = json_get(item, schema->list_map_keys[k]);

		if (value != NULL)
			json_set(arena, keys, schema->list_map_keys[k], value);
	}
	return keys;
}

static void
check_unique(const Schema *schema, const JsonNode *list, bool is_map, const FieldPath *path, FieldErrorList *errors)
{
	Arena	   *arena = errors->arena;
	size_t		count = list->u.array.count;
	ItemKey    *keys;
	bool	   *duplicate;

	for (size_t i = 0; i < count && is_map; i++)
	{
		const JsonNode *item = list->u.array.items[i];
		FieldPath	at = {path, {NULL, 0}, (int64_t) i, false};

		if (item->kind != JSON_KIND_OBJECT && item->kind != JSON_KIND_NULL)
		{
			field_error(errors, FIELD_INVALID, &at, item, "must be an object for an array of list-type map");
			return;
		}
	}
	if (count < 2)
		return;

	keys = arena_alloc(arena, count * sizeof(ItemKey));
	duplicate = arena_alloc0(arena, count * sizeof(bool));
	for (size_t i = 0; i < count; i++)
	{
		const JsonNode *item = list->u.array.items[i];

		if (i % 256 == 0)
			arena_checkpoint();
		keys[i].index = i;
		keys[i].unspecified = false;
		if (!is_map)
			keys[i].text = json_text_of(arena, item);
		else
		{
			JsonNode   *item_keys = keys_of_item(arena, schema, item);

			keys[i].text = json_text_of(arena, item_keys);
			keys[i].unspecified = item_keys->u.object.count == 0;
		}
	}
	mark_duplicates(keys, count, duplicate);
	for (size_t i = 0; i < count; i++)
	{
		const JsonNode *item = list->u.array.items[i];
		FieldPath	at = {path, {NULL, 0}, (int64_t) i, false};

		if (duplicate[i])
			field_error(errors, FIELD_DUPLICATE, &at, is_map ? keys_of_item(arena, schema, item) : item, NULL);
	}
}

typedef void (*CheckValue) (const Schema *schema, const JsonNode *value, const FieldPath *base, FieldErrorList *errors);

/* Checks the items of an array, or those members of an object that have a schema. */
static void
check_children(const Schema *schema, const JsonNode *value, const FieldPath *base, FieldErrorList *errors,
			   CheckValue check)
{
	size_t		next = 0;

	if (value->kind == JSON_KIND_ARRAY && schema->items != NULL)
		for (size_t i = 0; i < value->u.array.count; i++)
		{
			FieldPath	at = {base, {NULL, 0}, (int64_t) i, false};

			check(schema->items, value->u.array.items[i], &at, errors);
		}
	if (value->kind == JSON_KIND_OBJECT)
		for (size_t i = 0; i < value->u.object.count; i++)
		{
			const JsonMember *member = &value->u.object.members[i];
			const SchemaProperty *property = schema_next_property(schema, member->key, &next);
			const Schema *child = property != NULL ? property->schema : schema->additional_schema;
			FieldPath	at = {base, member->key, -1, property == NULL};

			if (child != NULL)
				check(child, member->value, &at, errors);
		}
}

void
schema_check_lists(const Schema *schema, const JsonNode *value, const FieldPath *base, FieldErrorList *errors)
{
	SchemaListType type;

	if (!schema->has_list_rules)
		return;
	arena_checkpoint();
	type = schema_list_type(schema);
	if (value->kind == JSON_KIND_ARRAY && type != SCHEMA_LIST_ATOMIC)
		check_unique(schema, value, type == SCHEMA_LIST_MAP, base, errors);
	check_children(schema, value, base, errors, schema_check_lists);
}

/* The name of an embedded resource only has to fit into a URL path. */
static const char *
path_segment_error(JsonText name, bool is_prefix)
{
	if (!is_prefix && json_text_is(name, "."))
		return "may not be '.'";
	if (!is_prefix && json_text_is(name, ".."))
		return "may not be '..'";
	if (name.len > 0 && memchr(name.bytes, '/', name.len) != NULL)
		return "may not contain '/'";
	if (name.len > 0 && memchr(name.bytes, '%', name.len) != NULL)
		return "may not contain '%'";
	return NULL;
}

static void
check_embedded_name(const JsonNode *metadata, const char *key, bool is_prefix, const FieldPath *path,
					FieldErrorList *errors)
{
	const JsonNode *name = json_get(metadata, key);
	FieldPath	at = {path, {key, strlen(key)}, -1, false};
	const char *error;

	if (name == NULL || name->kind != JSON_KIND_STRING)
		return;
	error = path_segment_error(name->u.string, is_prefix);
	if (error != NULL)
		field_error(errors, FIELD_INVALID, &at, name, error);
}

/* State of a walk through the embedded resources of one document. */
typedef struct EmbeddedCoercion
{
	Arena	   *arena;
	UnknownField unknown;
	void	   *state;
	size_t		told;
	size_t		told_bytes;
	const FieldPath *place;		/* of the current resource */
	FieldErrorList *errors;
} EmbeddedCoercion;

/* Passes on the unknown fields that metadata_coerce() finds, with the path of the embedded resource in front. */
static void
tell_embedded_unknown(void *state, const char *path)
{
	EmbeddedCoercion *coercion = state;
	char	   *told;

	if (coercion->told >= UNKNOWN_FIELDS_MAX || coercion->told_bytes >= UNKNOWN_FIELDS_MAX_BYTES)
		return;
	told = arena_printf(coercion->arena, "%s.%s", field_path_string(coercion->arena, coercion->place), path);
	coercion->told++;
	coercion->told_bytes += strlen(told);
	coercion->unknown(coercion->state, told);
}

/* Checks one embedded resource in the order of its keys. */
static bool
coerce_resource(EmbeddedCoercion *coercion, JsonNode *resource, const FieldPath *path)
{
	Arena	   *arena = coercion->arena;
	static const char *const keys[] = {"apiVersion", "kind", "metadata"};

	/* metadata_coerce() drops these, but they stay in embedded resources. */
	static const char *const kept[] = {"managedFields", "selfLink"};
	FieldErrorList *errors = coercion->errors;

	coercion->place = path;
	for (size_t i = 0; i < 3 && errors->count == 0; i++)
	{
		FieldPath	at = {path, {keys[i], strlen(keys[i])}, -1, false};
		JsonNode   *value = json_get(resource, keys[i]);
		JsonNode   *given;
		const char *why;

		if (value == NULL)
			continue;
		if (i < 2)
		{
			if (value->kind != JSON_KIND_STRING)
				field_error(errors, FIELD_INVALID, &at, value, "must be a string");
			continue;
		}
		if (value->kind == JSON_KIND_NULL)
		{
			json_remove(resource, keys[i]);
			continue;
		}
		given = json_clone(arena, value);
		if (!metadata_coerce(arena, value, coercion->unknown != NULL ? tell_embedded_unknown : NULL, coercion, &why))
			field_error(errors, FIELD_INVALID, &at, given, why);
		for (size_t k = 0; k < sizeof(kept) / sizeof(kept[0]) && errors->count == 0; k++)
		{
			JsonNode   *member = json_get(given, kept[k]);

			if (member != NULL && member->kind != JSON_KIND_NULL)
				json_set(arena, value, kept[k], member);
		}
	}
	coercion->place = NULL;
	return errors->count == 0;
}

static bool
coerce_value(EmbeddedCoercion *coercion, const Schema *schema, JsonNode *value, const FieldPath *path)
{
	size_t		next = 0;

	if (!schema->has_embedded)
		return true;
	arena_checkpoint();
	if (value->kind == JSON_KIND_ARRAY)
	{
		for (size_t i = 0; i < value->u.array.count && schema->items != NULL; i++)
		{
			FieldPath	at = {path, {NULL, 0}, (int64_t) i, false};

			if (!coerce_value(coercion, schema->items, value->u.array.items[i], &at))
				return false;
		}
		return true;
	}
	if (value->kind != JSON_KIND_OBJECT)
		return true;
	if (schema->embedded && !coerce_resource(coercion, value, path))
		return false;
	for (size_t i = 0; i < value->u.object.count; i++)
	{
		const JsonMember *member = &value->u.object.members[i];
		const SchemaProperty *property = schema_next_property(schema, member->key, &next);
		const Schema *child = property != NULL ? property->schema : schema->additional_schema;
		FieldPath	at = {path, member->key, -1, property == NULL};

		if (child != NULL && !coerce_value(coercion, child, member->value, &at))
			return false;
	}
	return true;
}

bool
schema_coerce_embedded(Arena *arena, const Schema *schema, JsonNode *document, UnknownField unknown, void *state,
					   FieldErrorList *errors)
{
	EmbeddedCoercion coercion = {.arena = arena, .unknown = unknown, .state = state, .errors = errors};

	return coerce_value(&coercion, schema, document, NULL);
}

/* Checks a copy, because the document must not change. */
static void
check_embedded_metadata(const JsonNode *metadata, const FieldPath *path, FieldErrorList *errors)
{
	Arena	   *arena = errors->arena;
	JsonNode   *copy = json_clone(arena, metadata);
	FieldErrorList found;
	const JsonNode *space;
	const char *error;

	if (metadata->kind == JSON_KIND_NULL)
		return;
	if (!metadata_coerce(arena, copy, NULL, NULL, &error))
	{
		field_error(errors, FIELD_INVALID, path, metadata, error);
		return;
	}
	check_embedded_name(copy, "generateName", true, path, errors);
	check_embedded_name(copy, "name", false, path, errors);

	/* check_embedded_name() checked the names; an embedded resource needs no name, but metadata_validate() does. */
	json_remove(copy, "generateName");
	json_set(arena, copy, "name", json_new_cstring(arena, "fakename"));
	space = json_get(copy, "namespace");
	field_errors_init(&found, arena);
	metadata_validate(arena, copy, space != NULL && space->kind == JSON_KIND_STRING && space->u.string.len > 0, &found);

	for (size_t i = 0; i < found.count && errors->count < FIELD_ERRORS_MAX &&
		 errors->bytes < FIELD_ERRORS_MAX_BYTES; i++)
	{
		FieldError *error_found = &found.errors[i];
		char	   *prefix = field_path_string(arena, path->parent);

		/* The message is complete; field_error_at() would format it again. */
		field_error_at(errors, error_found->type, prefix[0] == '\0' ? error_found->field :
					   arena_printf(arena, "%s.%s", prefix, error_found->field), NULL, NULL);
		errors->errors[errors->count - 1].message = error_found->message;
		errors->bytes += strlen(error_found->message);
	}
}

static void
check_embedded_resource(const JsonNode *resource, const FieldPath *path, FieldErrorList *errors)
{
	static const char *const keys[] = {"apiVersion", "kind"};
	const JsonNode *metadata = json_get(resource, "metadata");
	Arena	   *arena = errors->arena;

	for (size_t i = 0; i < 2; i++)
	{
		FieldPath	at = {path, {keys[i], strlen(keys[i])}, -1, false};

		if (json_get(resource, keys[i]) == NULL)
			field_error(errors, FIELD_REQUIRED, &at, NULL, NULL);
	}
	for (size_t i = 0; i < 2; i++)
	{
		FieldPath	at = {path, {keys[i], strlen(keys[i])}, -1, false};
		const JsonNode *value = json_get(resource, keys[i]);
		JsonText	text;

		if (value == NULL)
			continue;
		if (value->kind != JSON_KIND_STRING)
		{
			field_error(errors, FIELD_INVALID, &at, value, "must be a string");
			continue;
		}
		text = value->u.string;
		if (text.len == 0)
			field_error(errors, FIELD_INVALID, &at, value, "must not be empty");
		else if (i == 0)
		{
			const char *slash = memchr(text.bytes, '/', text.len);

			if (slash != NULL && memchr(slash + 1, '/', text.len - (size_t) (slash + 1 - text.bytes)) != NULL)
				field_error(errors, FIELD_INVALID, &at, value,
							arena_printf(arena, "unexpected GroupVersion string: %.*s", (int) text.len, text.bytes));
		}
		else
		{
			const char *error = schema_kind_error(arena, text);

			if (error != NULL)
				field_error(errors, FIELD_INVALID, &at, value, error);
		}
	}
	if (metadata != NULL)
	{
		FieldPath	at = {path, {"metadata", 8}, -1, false};

		check_embedded_metadata(metadata, &at, errors);
	}
}

void
schema_check_embedded(const Schema *schema, const JsonNode *value, const FieldPath *base, FieldErrorList *errors)
{
	if (!schema->has_embedded)
		return;
	arena_checkpoint();
	if (value->kind == JSON_KIND_OBJECT && schema->embedded)
		check_embedded_resource(value, base, errors);
	check_children(schema, value, base, errors, schema_check_embedded);
}

/* apimachinery's message for a text that is not a DNS-1035 label; NULL if the text is one. */
const char *
schema_label_error(Arena *arena, JsonText text)
{
	bool		valid = text.len > 0 && text.bytes[0] >= 'a' && text.bytes[0] <= 'z' && text.bytes[text.len - 1] != '-';

	for (size_t i = 0; i < text.len && valid; i++)
	{
		char		c = text.bytes[i];

		valid = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
	}
	if (valid && text.len <= 63)
		return NULL;
	return arena_printf(arena, "%s%s%s",
						text.len > 63 ? "must be no more than 63 characters" : "",
						text.len > 63 && !valid ? "," : "",
						valid ? "" :
						"a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
						"alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
						"regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')");
}

const char *
schema_kind_error(Arena *arena, JsonText kind)
{
	char	   *lower = arena_strndup(arena, kind.bytes, kind.len);
	JsonText	text = {lower, kind.len};
	const char *error;

	for (size_t i = 0; i < kind.len; i++)
	{
		if (lower[i] >= 'A' && lower[i] <= 'Z')
			lower[i] = (char) (lower[i] - 'A' + 'a');
	}
	error = schema_label_error(arena, text);
	return error == NULL ? NULL :
		arena_printf(arena, "may have mixed case, but should otherwise match: %s", error);
}
