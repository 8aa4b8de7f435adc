/*-------------------------------------------------------------------------
 *
 * field_set.c
 *	  Sets of field paths.
 *
 * Both operands are sorted, so an operation is at most one pass over both.
 *
 * Reference: k8s-conformance MF-03; structured-merge-diff's fieldpath/set.go
 * and fieldpath/serialize.go.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/fields/field_set.h"

#include <stdlib.h>
#include <string.h>

#include "engine/fields/field_element.h"

/* The level of FieldsV1 in an object: the object, metadata, managedFields, an entry, fieldsV1. */
#define FIELDS_DEPTH 5

/*
 * If one set has this many times fewer elements, each of them is searched in the other set, without a pass over both.
 */
#define SEARCH_RATIO 16

static size_t
entry_count(const FieldSet *set)
{
	return set != NULL ? set->count : 0;
}

/* The position of an element, or the position to insert it at. */
static size_t
find_entry(const FieldSet *set, JsonText element, bool *found)
{
	return json_text_search(set != NULL ? set->entries : NULL, entry_count(set), sizeof(FieldEntry), element, found);
}

const FieldEntry *
field_set_find(const FieldSet *set, JsonText element)
{
	bool		found;
	size_t		at = find_entry(set, element, &found);

	return found ? &set->entries[at] : NULL;
}

void
field_set_add(Arena *arena, FieldSet **set, JsonText element, bool member, const FieldSet *below)
{
	FieldSet   *to = *set;
	bool		found = false;
	size_t		at;

	if (!member && below == NULL)
		return;
	if (to == NULL)
		*set = to = arena_alloc0(arena, sizeof(FieldSet));
	at = to->count;
	if (at > 0 && json_text_compare(to->entries[at - 1].element, element) >= 0)
		at = find_entry(to, element, &found);
	if (found)
	{
		to->entries[at].member |= member;
		to->entries[at].below = field_set_union(arena, to->entries[at].below, below);
		return;
	}
	to->entries = arena_grow(arena, to->entries, to->count, sizeof(FieldEntry), &to->capacity);
	memmove(to->entries + at + 1, to->entries + at, (to->count - at) * sizeof(FieldEntry));
	to->entries[at] = (FieldEntry) {element, member, below};
	to->count++;
}

/*
 * Operations
 */

typedef enum SetOperation
{
	SET_UNION,
	SET_INTERSECTION,
	SET_DIFFERENCE
} SetOperation;

static const FieldSet *combine(Arena *arena, const FieldSet *a, const FieldSet *b, SetOperation operation);

/* Combines the entries of an element that both sets have. */
static void
combine_entries(Arena *arena, FieldSet **result, const FieldEntry *a, const FieldEntry *b, SetOperation operation)
{
	bool		member = a->member;

	switch (operation)
	{
		case SET_UNION:
			member |= b->member;
			break;
		case SET_INTERSECTION:
			member &= b->member;
			break;
		case SET_DIFFERENCE:
			member &= !b->member;
			break;
	}
	field_set_add(arena, result, a->element, member, combine(arena, a->below, b->below, operation));
}

static const FieldSet *
combine(Arena *arena, const FieldSet *a, const FieldSet *b, SetOperation operation)
{
	FieldSet   *result = NULL;
	size_t		left = 0;
	size_t		right = 0;

	if (a == NULL || b == NULL)
	{
		if (operation == SET_INTERSECTION)
			return NULL;
		return a != NULL || operation == SET_DIFFERENCE ? a : b;
	}
	arena_checkpoint();
	if (operation != SET_UNION && a->count < b->count / SEARCH_RATIO)
	{
		for (size_t i = 0; i < a->count; i++)
		{
			const FieldEntry *b_entry = field_set_find(b, a->entries[i].element);

			if (b_entry != NULL)
				combine_entries(arena, &result, &a->entries[i], b_entry, operation);
			else if (operation == SET_DIFFERENCE)
				field_set_add(arena, &result, a->entries[i].element, a->entries[i].member, a->entries[i].below);
		}
		return result;
	}
	for (size_t steps = 0; left < a->count || right < b->count; steps++)
	{
		const FieldEntry *a_entry = left < a->count ? &a->entries[left] : NULL;
		const FieldEntry *b_entry = right < b->count ? &b->entries[right] : NULL;
		int			order;

		arena_checkpoint_at(steps);
		if (a_entry == NULL)
			order = 1;
		else if (b_entry == NULL)
			order = -1;
		else
			order = json_text_compare(a_entry->element, b_entry->element);
		left += order <= 0;
		right += order >= 0;
		if (order == 0)
			combine_entries(arena, &result, a_entry, b_entry, operation);
		else if (order < 0 && operation != SET_INTERSECTION)
			field_set_add(arena, &result, a_entry->element, a_entry->member, a_entry->below);
		else if (order > 0 && operation == SET_UNION)
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the loop ends when both are NULL */
			field_set_add(arena, &result, b_entry->element, b_entry->member, b_entry->below);
	}
	return result;
}

const FieldSet *
field_set_union(Arena *arena, const FieldSet *a, const FieldSet *b)
{
	return combine(arena, a, b, SET_UNION);
}

const FieldSet *
field_set_union_all(Arena *arena, const FieldSet *const *sets, size_t count)
{
	if (count <= 1)
		return count == 1 ? sets[0] : NULL;
	return field_set_union(arena, field_set_union_all(arena, sets, count / 2),
						   field_set_union_all(arena, sets + count / 2, count - count / 2));
}

const FieldSet *
field_set_intersection(Arena *arena, const FieldSet *a, const FieldSet *b)
{
	return combine(arena, a, b, SET_INTERSECTION);
}

const FieldSet *
field_set_difference(Arena *arena, const FieldSet *a, const FieldSet *b)
{
	return combine(arena, a, b, SET_DIFFERENCE);
}

/*
 * FieldsV1
 */

/* An entry of a level, and its position in the level. */
typedef struct ReadEntry
{
	FieldEntry	entry;
	size_t		position;
} ReadEntry;

static int
compare_read(const void *a, const void *b)
{
	const ReadEntry *left = a;
	const ReadEntry *right = b;
	int			order = json_text_compare(left->entry.element, right->entry.element);

	if (order != 0)
		return order;
	return left->position < right->position ? -1 : 1;
}

/*
 * Reads one level.  *member: whether the element above this level is a member, because the level has a "." or no known
 * element.  If elements are equal in canonical form, the last one with elements below determines what is below.
 */
static const FieldSet *
read_level(Arena *arena, const JsonNode *fields, bool *member, const char **error)
{
	FieldSet   *set = NULL;
	ReadEntry  *read;
	size_t		count = 0;

	*member = false;
	if (fields->kind != JSON_KIND_OBJECT && fields->kind != JSON_KIND_NULL)
	{
		*error = "expected an object of fields";
		return NULL;
	}
	arena_checkpoint();
	if (fields->kind == JSON_KIND_NULL || fields->u.object.count == 0)
	{
		*member = true;
		return NULL;
	}
	read = arena_alloc(arena, fields->u.object.count * sizeof(ReadEntry));
	for (size_t i = 0; i < fields->u.object.count; i++)
	{
		const JsonMember *field = &fields->u.object.members[i];
		FieldEntry *entry = &read[count].entry;

		arena_checkpoint_at(i);
		if (json_text_is(field->key, "."))
		{
			*member = true;
			continue;
		}
		switch (field_element_parse(arena, field->key, &entry->element, error))
		{
			case ELEMENT_OK:
				break;
			case ELEMENT_UNKNOWN:
				continue;
			case ELEMENT_MALFORMED:
				return NULL;
		}
		entry->below = read_level(arena, field->value, &entry->member, error);
		if (*error != NULL)
			return NULL;
		read[count].position = count;
		count++;
	}
	qsort(read, count, sizeof(ReadEntry), compare_read);
	if (count > 0)
	{
		set = arena_alloc0(arena, sizeof(FieldSet));
		set->entries = arena_alloc(arena, count * sizeof(FieldEntry));
		set->capacity = count;
	}
	for (size_t i = 0; i < count; i++)
	{
		FieldEntry *entry = &read[i].entry;
		FieldEntry *last = set->count > 0 ? &set->entries[set->count - 1] : NULL;

		if (last == NULL || json_text_compare(last->element, entry->element) != 0)
			field_set_add(arena, &set, entry->element, entry->member, entry->below);
		else
		{
			last->member |= entry->member;
			if (entry->below != NULL)
				last->below = entry->below;
		}
	}
	if (set == NULL || set->count == 0)
	{
		*member = true;
		return NULL;
	}
	return set;
}

const FieldSet *
field_set_parse(Arena *arena, const JsonNode *fields, const char **error)
{
	bool		member;

	*error = NULL;
	return fields != NULL ? read_level(arena, fields, &member, error) : NULL;
}

/* Prints one level and the levels below; room is the number of levels that may be below to. */
static void
print_level(Arena *arena, const FieldSet *set, JsonNode *to, int room)
{
	arena_checkpoint();
	to->u.object.members = arena_alloc(arena, (set->count + 1) * sizeof(JsonMember));
	to->u.object.capacity = set->count + 1;
	for (size_t i = 0; i < set->count; i++)
	{
		const FieldEntry *entry = &set->entries[i];
		JsonNode   *value = json_new_object(arena);

		if (entry->below != NULL && room > 1)
		{
			print_level(arena, entry->below, value, room - 1);
			if (entry->member)
				json_set(arena, value, ".", json_new_object(arena));
		}
		to->u.object.members[to->u.object.count++] = (JsonMember) {entry->element, value};
	}
}

JsonNode *
field_set_print(Arena *arena, const FieldSet *set)
{
	JsonNode   *fields = json_new_object(arena);

	if (set != NULL)
		print_level(arena, set, fields, JSON_MAX_DEPTH - FIELDS_DEPTH);
	return fields;
}

/*
 * Paths
 */

typedef struct Visit
{
	Arena	   *arena;
	StrBuf		path;
	FieldVisitor visitor;
	void	   *state;
} Visit;

/* An entry with the value of its element. */
typedef struct ShownEntry
{
	const FieldEntry *entry;
	const JsonNode *value;
} ShownEntry;

static int
compare_shown(const void *a, const void *b)
{
	const ShownEntry *left = a;
	const ShownEntry *right = b;

	return field_element_order(left->entry->element, left->value, right->entry->element, right->value);
}

static ShownEntry *
entries_in_order(Arena *arena, const FieldSet *set)
{
	ShownEntry *shown = arena_alloc(arena, set->count * sizeof(ShownEntry));

	for (size_t i = 0; i < set->count; i++)
	{
		arena_checkpoint_at(i);
		shown[i] = (ShownEntry) {&set->entries[i], field_element_value(arena, set->entries[i].element)};
	}
	qsort(shown, set->count, sizeof(ShownEntry), compare_shown);
	return shown;
}

static bool
visit_level(Visit *visit, const FieldSet *set)
{
	ShownEntry *shown = entries_in_order(visit->arena, set);
	size_t		len = visit->path.len;

	arena_checkpoint();
	for (int below = 0; below < 2; below++)
	{
		for (size_t i = 0; i < set->count; i++)
		{
			const FieldEntry *entry = shown[i].entry;

			if (below ? entry->below == NULL : !entry->member)
				continue;
			field_element_show(&visit->path, entry->element);
			if (below ? !visit_level(visit, entry->below) : !visit->visitor(visit->state, visit->path.bytes))
				return false;
			visit->path.len = len;
			visit->path.bytes[len] = '\0';
		}
	}
	return true;
}

void
field_set_visit(Arena *arena, const FieldSet *set, FieldVisitor visitor, void *state)
{
	Visit		visit = {.arena = arena, .visitor = visitor, .state = state};

	strbuf_init(&visit.path, arena);
	if (set != NULL)
		visit_level(&visit, set);
}
