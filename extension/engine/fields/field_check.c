/*-------------------------------------------------------------------------
 *
 * field_check.c
 *	  Checks that an applied document conforms to its type.
 *
 * This check reports undeclared fields.  Values are validated later, in the
 * merged document.
 *
 * Reference: k8s-conformance SSA-08; structured-merge-diff's
 * typed/validate.go.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/fields/field_document.h"

#include "engine/fields/field_element.h"

/* A place in a document, linked from the leaf to the root: a member, or an item with an element or an index. */
typedef struct Place
{
	const struct Place *parent;
	JsonText	name;
	JsonText	element;
	size_t		index;
} Place;

typedef struct Checking
{
	Arena	   *arena;
	const char **errors;
	size_t		count;
	size_t		capacity;
	size_t		bytes;
} Checking;

static void check_value(Checking *checking, FieldType type, const JsonNode *value, const Place *place);

static void
append_place(StrBuf *buf, const Place *place)
{
	if (place == NULL)
		return;
	append_place(buf, place->parent);
	if (place->element.bytes != NULL)
		field_element_show(buf, place->element);
	else if (place->name.bytes != NULL)
		field_element_show(buf, field_name_element(buf->arena, place->name));
	else
		strbuf_printf(buf, "[%zu]", place->index);
}

static void
add_error(Checking *checking, const Place *place, const char *message)
{
	StrBuf		buf;

	/* The same limits as for schema errors, so that the response is bounded for any document. */
	if (checking->count >= FIELD_ERRORS_MAX || checking->bytes >= FIELD_ERRORS_MAX_BYTES)
		return;
	checking->errors = arena_grow(checking->arena, checking->errors, checking->count, sizeof(char *),
								  &checking->capacity);
	strbuf_init(&buf, checking->arena);
	append_place(&buf, place);
	if (buf.len > 0)
		strbuf_puts(&buf, ": ");
	strbuf_puts(&buf, message);
	checking->errors[checking->count++] = buf.bytes;
	checking->bytes += buf.len;
}

static const char *
duplicate_text(Arena *arena, JsonText element)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	strbuf_puts(&buf, "duplicate entries for key ");
	field_element_show(&buf, element);
	return buf.bytes;
}

static void
check_map(Checking *checking, FieldType type, const JsonNode *map, const Place *place)
{
	for (size_t i = 0; i < map->u.object.count; i++)
	{
		const JsonMember *member = &map->u.object.members[i];
		bool		declared;
		FieldType	child = field_member_type(type, member->key, &declared);
		Place		at = {.parent = place, .name = member->key};

		if (child.kind == FIELD_TYPE_NONE)
		{
			/* Upstream also stops at the first undeclared member; its order of the members is not fixed. */
			add_error(checking, &at, "field not declared in schema");
			return;
		}
		check_value(checking, child, member->value, &at);
	}
}

static void
check_list(Checking *checking, FieldType type, const JsonNode *list, const Place *place)
{
	Arena	   *arena = checking->arena;
	FieldType	items = field_items_type(type);
	bool		atomic = field_list_is_atomic(type);
	Place	   *places = arena_alloc0(arena, (list->u.array.count + 1) * sizeof(Place));
	FieldItem  *sorted;
	size_t		count;
	const char *error;

	/* If an item cannot have a path element, the check of this list ends. */
	if (!atomic && !field_sort_items(arena, type, list, &sorted, &count, &error))
	{
		add_error(checking, place, error);
		return;
	}
	for (size_t i = 0; !atomic && i < count; i++)
	{
		places[sorted[i].position].element = sorted[i].element;
		if (i > 0 && json_text_compare(sorted[i - 1].element, sorted[i].element) == 0)
			add_error(checking, place, duplicate_text(arena, sorted[i].element));
	}
	for (size_t i = 0; i < list->u.array.count; i++)
	{
		places[i].parent = place;
		places[i].index = i;
		check_value(checking, items, list->u.array.items[i], &places[i]);
	}
}

static void
check_value(Checking *checking, FieldType type, const JsonNode *value, const Place *place)
{
	unsigned int shape = field_main_shape(field_value_shapes(type, value));
	JsonKind	kind = shape == SHAPE_MAP ? JSON_KIND_OBJECT : JSON_KIND_ARRAY;
	const char *error;

	arena_checkpoint();
	if (shape == SHAPE_SCALAR)
	{
		error = field_scalar_error(checking->arena, type, value, "");
		if (error != NULL)
			add_error(checking, place, error);
	}
	else if (value->kind == kind && shape == SHAPE_MAP)
		check_map(checking, type, value, place);
	else if (value->kind == kind)
		check_list(checking, type, value, place);
	else if (value->kind != JSON_KIND_NULL)
		add_error(checking, place, arena_printf(checking->arena, "expected %s, got %s",
												shape == SHAPE_MAP ? "map" : "list",
												field_go_value(checking->arena, value)));
}

const char *
field_check_document(Arena *arena, FieldType type, const JsonNode *document)
{
	Checking	checking = {.arena = arena};
	StrBuf		buf;

	check_value(&checking, type, document, NULL);
	if (checking.count <= 1)
		return checking.count == 1 ? checking.errors[0] : NULL;
	strbuf_init(&buf, arena);
	strbuf_puts(&buf, "errors:");
	for (size_t i = 0; i < checking.count; i++)
		strbuf_printf(&buf, "\n  %s", checking.errors[i]);
	return buf.bytes;
}
