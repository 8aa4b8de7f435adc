/*-------------------------------------------------------------------------
 *
 * field_compare.c
 *	  The fields of a document, and the differences of two documents.
 *
 * Reference: k8s-conformance MF-05; structured-merge-diff's typed/compare.go
 * and typed/tofieldset.go.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/fields/field_document.h"

#include <stdlib.h>

#include "engine/fields/field_element.h"

static const char no_shape[] = "schema error: invalid atom: inlined";

static int
compare_items(const void *a, const void *b)
{
	const FieldItem *left = a;
	const FieldItem *right = b;
	int			order = json_text_compare(left->element, right->element);

	if (order != 0)
		return order;
	return left->position < right->position ? -1 : 1;
}

bool
field_sort_items(Arena *arena, FieldType type, const JsonNode *list, FieldItem **items, size_t *count,
				 const char **error)
{
	const char *why;

	*count = list != NULL ? list->u.array.count : 0;
	*items = arena_alloc(arena, (*count + 1) * sizeof(FieldItem));
	for (size_t i = 0; i < *count; i++)
	{
		FieldItem  *item = &(*items)[i];

		arena_checkpoint_at(i);
		item->value = list->u.array.items[i];
		item->position = i;
		if (!field_item_element(arena, type, item->value, &item->element, &why))
		{
			*error = arena_printf(arena, "element %zu: %s", i, why);
			return false;
		}
	}
	qsort(*items, *count, sizeof(FieldItem), compare_items);
	return true;
}

/* The index behind the last item with the same element as the item at start. */
static size_t
end_of_group(const FieldItem *items, size_t count, size_t start)
{
	size_t		end = start + 1;

	while (end < count && json_text_compare(items[start].element, items[end].element) == 0)
		end++;
	return end;
}

static const JsonNode *
as_kind(const JsonNode *value, JsonKind kind)
{
	return value != NULL && value->kind == kind ? value : NULL;
}

static size_t
container_count(const JsonNode *container)
{
	if (container == NULL)
		return 0;
	return container->kind == JSON_KIND_ARRAY ? container->u.array.count : container->u.object.count;
}

/*
 * Comparison
 */

typedef enum Difference
{
	DIFFERENCE_REMOVED,
	DIFFERENCE_MODIFIED,
	DIFFERENCE_ADDED
} Difference;

#define DIFFERENCES 3

/* How a value itself differs, and what differs below it. */
typedef struct Differences
{
	bool		self[DIFFERENCES];
	FieldSet   *below[DIFFERENCES];
} Differences;

typedef struct Comparing
{
	Arena	   *arena;
	const char *error;
} Comparing;

static bool compare_values(Comparing *comparing, FieldType type, const JsonNode *before, const JsonNode *after,
						   Differences *differences);

static void
note_below(Comparing *comparing, Differences *to, JsonText element, const Differences *of)
{
	for (int i = 0; i < DIFFERENCES; i++)
		field_set_add(comparing->arena, &to->below[i], element, of->self[i], of->below[i]);
}

/* Compares a value that is one field as a whole. */
static void
compare_leaf(const JsonNode *before, const JsonNode *after, Differences *differences)
{
	if (before == NULL)
		differences->self[DIFFERENCE_ADDED] = true;
	else if (after == NULL)
		differences->self[DIFFERENCE_REMOVED] = true;
	else if (!json_same(before, after))
		differences->self[DIFFERENCE_MODIFIED] = true;
}

static bool
compare_member(Comparing *comparing, FieldType type, JsonText key, const JsonNode *before, const JsonNode *after,
			   Differences *differences)
{
	Differences child = {0};
	bool		declared;

	if (!compare_values(comparing, field_member_type(type, key, &declared), before, after, &child))
		return false;
	for (int i = 0; i < DIFFERENCES; i++)
	{
		if (child.self[i] || child.below[i] != NULL)
		{
			note_below(comparing, differences, field_name_element(comparing->arena, key), &child);
			break;
		}
	}
	return true;
}

static bool
compare_maps(Comparing *comparing, FieldType type, const JsonNode *before, const JsonNode *after,
			 Differences *differences)
{
	JsonPairs	pairs = {.left = before, .right = after};

	while (json_pairs_next(&pairs))
	{
		if (!compare_member(comparing, type, pairs.key, pairs.left_value, pairs.right_value, differences))
			return false;
	}
	return true;
}

/* Compares the items with one element.  Several items with the same element are one field together. */
static bool
compare_group(Comparing *comparing, FieldType items, const FieldItem *before, size_t old_count,
			  const FieldItem *after, size_t new_count, Differences *differences)
{
	Differences group = {0};
	bool		equal = old_count == new_count;

	if (old_count >= 2 && new_count >= 2)
	{
		for (size_t i = 0; i < old_count && equal; i++)
			equal = json_same(before[i].value, after[i].value);
		group.self[DIFFERENCE_MODIFIED] = !equal;
	}
	else
	{
		const JsonNode *old = old_count == 1 ? before->value : NULL;
		const JsonNode *new = new_count == 1 ? after->value : NULL;

		if ((old != NULL || new != NULL) && !compare_values(comparing, items, old, new, &group))
			return false;
		if (old_count >= 2)
			group.self[DIFFERENCE_REMOVED] = true;
		if (new_count >= 2)
			group.self[DIFFERENCE_ADDED] = true;
	}
	note_below(comparing, differences, old_count > 0 ? before->element : after->element, &group);
	return true;
}

static bool
compare_lists(Comparing *comparing, FieldType type, const JsonNode *before, const JsonNode *after,
			  Differences *differences)
{
	FieldType	items = field_items_type(type);
	FieldItem  *old;
	FieldItem  *new;
	size_t		old_count;
	size_t		new_count;
	size_t		left = 0;
	size_t		right = 0;

	if (!field_sort_items(comparing->arena, type, before, &old, &old_count, &comparing->error) ||
		!field_sort_items(comparing->arena, type, after, &new, &new_count, &comparing->error))
		return false;
	while (left < old_count || right < new_count)
	{
		size_t		left_end = left;
		size_t		right_end = right;
		int			order;

		arena_checkpoint();
		if (left == old_count)
			order = 1;
		else
			order = right == new_count ? -1 : json_text_compare(old[left].element, new[right].element);
		if (order <= 0)
			left_end = end_of_group(old, old_count, left);
		if (order >= 0)
			right_end = end_of_group(new, new_count, right);
		if (!compare_group(comparing, items, old + left, left_end - left, new + right, right_end - right, differences))
			return false;
		left = left_end;
		right = right_end;
	}
	return true;
}

/* Compares two values as one shape.  *leaf: whether the value is one field as a whole. */
static bool
compare_shape(Comparing *comparing, FieldType type, unsigned int shape, const JsonNode *before, const JsonNode *after,
			  Differences *differences, bool *leaf)
{
	JsonKind	kind = shape == SHAPE_MAP ? JSON_KIND_OBJECT : JSON_KIND_ARRAY;
	const JsonNode *old = as_kind(before, kind);
	const JsonNode *new = as_kind(after, kind);
	const char *error;

	*leaf = true;
	if (shape == SHAPE_SCALAR)
	{
		error = field_scalar_error(comparing->arena, type, before, "lhs: ");
		if (error != NULL && field_scalar_error(comparing->arena, type, after, "rhs: ") != NULL)
		{
			comparing->error = error;
			return false;
		}
	}
	else if (shape == 0)
	{
		comparing->error = no_shape;
		return false;
	}
	else if (!(shape == SHAPE_MAP ? field_map_is_atomic(type) : field_list_is_atomic(type)) &&
			 container_count(old) + container_count(new) > 0)
	{
		*leaf = false;
		return shape == SHAPE_MAP ? compare_maps(comparing, type, old, new, differences) :
			compare_lists(comparing, type, old, new, differences);
	}
	compare_leaf(before, after, differences);
	return true;
}

static bool
compare_values(Comparing *comparing, FieldType type, const JsonNode *before, const JsonNode *after,
			   Differences *differences)
{
	unsigned int old_shapes = field_value_shapes(type, before);
	unsigned int new_shapes = field_value_shapes(type, after);
	bool		leaf;

	arena_checkpoint();
	if (before == after || type.kind == FIELD_TYPE_NONE)
		return true;
	if (before != NULL && after != NULL && old_shapes != new_shapes &&
		!compare_shape(comparing, type, field_main_shape(old_shapes), before, after, differences, &leaf))
		return false;
	if (!compare_shape(comparing, type, field_main_shape(after != NULL ? new_shapes : old_shapes), before, after,
					   differences, &leaf))
		return false;
	if (!leaf && before == NULL)
		differences->self[DIFFERENCE_ADDED] = true;
	if (!leaf && after == NULL)
		differences->self[DIFFERENCE_REMOVED] = true;
	return true;
}

bool
field_compare(Arena *arena, FieldType type, const JsonNode *before, const JsonNode *after,
			  FieldComparison *comparison, const char **error)
{
	Comparing	comparing = {.arena = arena};
	Differences differences = {0};

	if (!compare_values(&comparing, type, before, after, &differences))
	{
		*error = comparing.error;
		return false;
	}
	comparison->removed = differences.below[DIFFERENCE_REMOVED];
	comparison->modified = differences.below[DIFFERENCE_MODIFIED];
	comparison->added = differences.below[DIFFERENCE_ADDED];
	return true;
}

/*
 * The set of a document
 */

/* *member: whether the value itself is a field; *below: the fields of its parts. */
static bool
set_of_value(Comparing *comparing, FieldType type, const JsonNode *value, bool *member, FieldSet **below)
{
	Arena	   *arena = comparing->arena;
	unsigned int shape = field_main_shape(field_value_shapes(type, value));

	*member = false;
	*below = NULL;
	arena_checkpoint();
	if (type.kind == FIELD_TYPE_NONE)
		return true;
	if (shape == SHAPE_SCALAR || (shape == SHAPE_MAP ? field_map_is_atomic(type) : field_list_is_atomic(type)))
		*member = true;
	else if (shape == SHAPE_MAP && value->kind == JSON_KIND_OBJECT)
	{
		for (size_t i = 0; i < value->u.object.count; i++)
		{
			const JsonMember *part = &value->u.object.members[i];
			bool		declared;
			bool		part_member;
			FieldSet   *part_below;

			if (!set_of_value(comparing, field_member_type(type, part->key, &declared), part->value,
							  &part_member, &part_below))
				return false;
			part_member |= !declared || part->value->kind == JSON_KIND_NULL ||
				(part->value->kind == JSON_KIND_OBJECT && part->value->u.object.count == 0);
			if (part_member || part_below != NULL)
				field_set_add(arena, below, field_name_element(arena, part->key), part_member, part_below);
		}
	}
	else if (shape == SHAPE_LIST && value->kind == JSON_KIND_ARRAY)
	{
		FieldItem  *items;
		size_t		count;

		if (!field_sort_items(arena, type, value, &items, &count, &comparing->error))
			return false;
		for (size_t i = 0, end; i < count; i = end)
		{
			bool		item_member;
			FieldSet   *item_below = NULL;

			end = end_of_group(items, count, i);
			if (end == i + 1 &&
				!set_of_value(comparing, field_items_type(type), items[i].value, &item_member, &item_below))
				return false;
			field_set_add(arena, below, items[i].element, true, item_below);
		}
	}
	return true;
}

bool
field_set_of_document(Arena *arena, FieldType type, const JsonNode *document, const FieldSet **set,
					  const char **error)
{
	Comparing	comparing = {.arena = arena};
	FieldSet   *below;
	bool		member;

	if (!set_of_value(&comparing, type, document, &member, &below))
	{
		*error = comparing.error;
		return false;
	}
	*set = below;
	return true;
}
