/*-------------------------------------------------------------------------
 *
 * field_merge.c
 *	  Merges documents, and removes fields from documents.
 *
 * Reference: k8s-conformance SSA-03; structured-merge-diff's typed/merge.go,
 * typed/remove.go and typed/reconcile_schema.go.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/fields/field_document.h"

#include "engine/fields/field_element.h"

/*
 * Merge
 */

typedef struct Merging
{
	Arena	   *arena;
	const char *error;
} Merging;

static bool merge_values(Merging *merging, FieldType type, const JsonNode *live, const JsonNode *config,
						 JsonNode **merged);

static const JsonNode *
as_kind(const JsonNode *value, JsonKind kind)
{
	return value != NULL && value->kind == kind ? value : NULL;
}

static size_t
member_count(const JsonNode *object)
{
	return object != NULL ? object->u.object.count : 0;
}

static size_t
item_count(const JsonNode *array)
{
	return array != NULL ? array->u.array.count : 0;
}

/* An object with room for capacity members, which the caller adds in order. */
static JsonNode *
new_object(Arena *arena, size_t capacity)
{
	JsonNode   *object = json_new_object(arena);

	object->u.object.members = arena_alloc(arena, (capacity + 1) * sizeof(JsonMember));
	object->u.object.capacity = capacity + 1;
	return object;
}

static bool
merge_maps(Merging *merging, FieldType type, const JsonNode *live, const JsonNode *config, JsonNode **merged)
{
	JsonPairs	pairs = {.left = live, .right = config};
	JsonNode   *object = new_object(merging->arena, member_count(live) + member_count(config));

	while (json_pairs_next(&pairs))
	{
		JsonNode   *value;
		bool		declared;

		if (!merge_values(merging, field_member_type(type, pairs.key, &declared), pairs.left_value,
						  pairs.right_value, &value))
			return false;
		if (value != NULL)
			object->u.object.members[object->u.object.count++] = (JsonMember) {pairs.key, value};
	}
	*merged = object->u.object.count > 0 ? object : NULL;
	return true;
}

/* A path element, and the items of two lists that have this element. */
typedef struct Group
{
	const JsonNode *live;		/* NULL for none; a JSON null for several */
	const JsonNode *config;
	bool		merged;
} Group;

/* The items of two lists, each with its group. */
typedef struct Pairing
{
	Group	   *groups;
	size_t	   *live;			/* group of each item, in the order of the list */
	size_t	   *config;
	size_t		live_count;
	size_t		config_count;
} Pairing;

static bool
pair_items(Merging *merging, FieldType type, const JsonNode *live, const JsonNode *config, Pairing *pairing)
{
	Arena	   *arena = merging->arena;
	FieldItem  *old;
	FieldItem  *new;
	size_t		left = 0;
	size_t		right = 0;
	size_t		count = 0;

	if (!field_sort_items(arena, type, config, &new, &pairing->config_count, &merging->error) ||
		!field_sort_items(arena, type, live, &old, &pairing->live_count, &merging->error))
		return false;
	pairing->live = arena_alloc(arena, (pairing->live_count + 1) * sizeof(size_t));
	pairing->config = arena_alloc(arena, (pairing->config_count + 1) * sizeof(size_t));
	pairing->groups = arena_alloc0(arena, (pairing->live_count + pairing->config_count + 1) * sizeof(Group));
	for (; left < pairing->live_count || right < pairing->config_count; count++)
	{
		Group	   *group = &pairing->groups[count];
		JsonText	element;
		int			order;

		arena_checkpoint_at(count);
		if (left == pairing->live_count)
			order = 1;
		else
			order = right == pairing->config_count ? -1 : json_text_compare(old[left].element, new[right].element);
		element = order <= 0 ? old[left].element : new[right].element;
		for (; left < pairing->live_count && json_text_compare(old[left].element, element) == 0; left++)
		{
			pairing->live[old[left].position] = count;
			group->live = group->live == NULL ? old[left].value : json_new_null(arena);
		}
		for (; right < pairing->config_count && json_text_compare(new[right].element, element) == 0; right++)
		{
			if (group->config != NULL)
			{
				StrBuf		buf;

				strbuf_init(&buf, arena);
				strbuf_puts(&buf, "duplicate entries for key ");
				field_element_show(&buf, element);
				merging->error = buf.bytes;
				return false;
			}
			pairing->config[new[right].position] = count;
			group->config = new[right].value;
		}
	}
	return true;
}

static bool
append_merged(Merging *merging, FieldType type, const JsonNode *live, const JsonNode *config, JsonNode *list)
{
	JsonNode   *value;

	if (!merge_values(merging, type, live, config, &value))
		return false;
	if (value != NULL)
		json_append(merging->arena, list, value);
	return true;
}

/*
 * The items that both lists have come in the order of config; items that only live has keep their places between these
 * items.  The algorithm follows upstream step by step, so that the order is the same in all cases.
 */
static bool
merge_lists(Merging *merging, FieldType type, const JsonNode *live, const JsonNode *config, JsonNode **merged)
{
	FieldType	items = field_items_type(type);
	JsonNode   *list = json_new_array(merging->arena);
	Pairing		pairing;
	size_t		left = 0;
	size_t		right = 0;
	size_t		shared = 0;		/* position in config of the next item in both lists */

	if (!pair_items(merging, type, live, config, &pairing))
		return false;
	while (left < pairing.live_count || right < pairing.config_count)
	{
		Group	   *old = left < pairing.live_count ? &pairing.groups[pairing.live[left]] : NULL;
		Group	   *new = right < pairing.config_count ? &pairing.groups[pairing.config[right]] : NULL;

		if (shared < right)
			shared = right;
		while (shared < pairing.config_count && pairing.groups[pairing.config[shared]].live == NULL)
			shared++;
		if (old != NULL && old != new && new != NULL && old->config != NULL && shared < pairing.config_count &&
			pairing.config[shared] != pairing.live[left])
		{
			/* The item is merged later, at its position in config. */
			left++;
			continue;
		}
		if (old != NULL && old->config == NULL)
		{
			if (!append_merged(merging, items, live->u.array.items[left], NULL, list))
				return false;
			left++;
			continue;
		}
		if (old != NULL && (old == new || old->merged))
			left++;
		if (new != NULL)
		{
			new->merged = true;
			if (!append_merged(merging, items, new->live, new->config, list))
				return false;
			right++;
		}
	}
	*merged = list->u.array.count > 0 ? list : NULL;
	return true;
}

static bool
merge_shape(Merging *merging, FieldType type, unsigned int shape, const JsonNode *live, const JsonNode *config,
			JsonNode **merged)
{
	const char *error;

	if (shape == SHAPE_MAP)
	{
		const JsonNode *old = as_kind(live, JSON_KIND_OBJECT);
		const JsonNode *new = as_kind(config, JSON_KIND_OBJECT);

		if (!field_map_is_atomic(type) && member_count(old) + member_count(new) > 0)
			return merge_maps(merging, type, old, new, merged);
	}
	else if (shape == SHAPE_LIST)
	{
		const JsonNode *old = as_kind(live, JSON_KIND_ARRAY);
		const JsonNode *new = as_kind(config, JSON_KIND_ARRAY);

		if (!field_list_is_atomic(type) && item_count(old) + item_count(new) > 0)
			return merge_lists(merging, type, old, new, merged);
	}
	else if ((error = field_scalar_error(merging->arena, type, live, "lhs: ")) != NULL &&
			 field_scalar_error(merging->arena, type, config, "rhs: ") != NULL)
	{
		merging->error = error;
		return false;
	}
	*merged = (JsonNode *) (config != NULL ? config : live);
	return true;
}

static bool
merge_values(Merging *merging, FieldType type, const JsonNode *live, const JsonNode *config, JsonNode **merged)
{
	arena_checkpoint();
	if (type.kind == FIELD_TYPE_NONE)
	{
		*merged = (JsonNode *) (config != NULL ? config : live);
		return true;
	}
	return merge_shape(merging, type, field_main_shape(field_value_shapes(type, config != NULL ? config : live)), live,
					   config, merged);
}

JsonNode *
field_merge(Arena *arena, FieldType type, const JsonNode *live, const JsonNode *config, const char **error)
{
	Merging		merging = {.arena = arena};
	JsonNode   *merged;

	if (merge_values(&merging, type, live, config, &merged))
		return merged != NULL ? merged : json_new_object(arena);
	*error = merging.error;
	return NULL;
}

/*
 * Removal
 */

static JsonNode *
remove_members(Arena *arena, FieldType type, const JsonNode *object, const FieldSet *set)
{
	JsonNode   *kept = new_object(arena, object->u.object.count);

	for (size_t i = 0; i < object->u.object.count; i++)
	{
		JsonMember	member = object->u.object.members[i];
		const FieldEntry *entry = field_set_find(set, field_name_element(arena, member.key));
		bool		declared;

		if (entry != NULL && entry->member)
			continue;
		if (entry != NULL)
			member.value = field_remove(arena, field_member_type(type, member.key, &declared), member.value,
										entry->below);
		kept->u.object.members[kept->u.object.count++] = member;
	}
	return kept->u.object.count > 0 ? kept : json_new_null(arena);
}

static JsonNode *
remove_items(Arena *arena, FieldType type, const JsonNode *list, const FieldSet *set)
{
	JsonNode   *kept = json_new_array(arena);

	for (size_t i = 0; i < list->u.array.count; i++)
	{
		JsonNode   *item = list->u.array.items[i];
		const FieldEntry *entry = NULL;
		JsonText	element;
		const char *error;

		if (field_item_element(arena, type, item, &element, &error))
			entry = field_set_find(set, element);
		if (entry != NULL && entry->member)
			continue;
		if (entry != NULL)
			item = field_remove(arena, field_items_type(type), item, entry->below);
		json_append(arena, kept, item);
	}
	return kept->u.array.count > 0 ? kept : json_new_null(arena);
}

JsonNode *
field_remove(Arena *arena, FieldType type, const JsonNode *document, const FieldSet *set)
{
	arena_checkpoint();
	switch (field_main_shape(field_value_shapes(type, document)))
	{
		case SHAPE_SCALAR:
			return (JsonNode *) document;
		case SHAPE_MAP:
			if (document->kind == JSON_KIND_OBJECT && !field_map_is_atomic(type))
				return remove_members(arena, type, document, set);
			break;
		case SHAPE_LIST:
			if (document->kind == JSON_KIND_ARRAY && !field_list_is_atomic(type))
				return remove_items(arena, type, document, set);
			break;
		default:
			break;
	}
	return json_new_null(arena);
}

/*
 * Sets and types
 */

/* The type of the value that an element selects. */
static FieldType
type_below(FieldType type, JsonText element, bool *declared)
{
	static const FieldType none = {.kind = FIELD_TYPE_NONE};
	unsigned int shapes = field_type_shapes(type);
	JsonText	name;

	*declared = false;
	if (field_element_name(element, &name))
		return (shapes & SHAPE_MAP) != 0 ? field_member_type(type, name, declared) : none;
	return element.bytes[0] == 'k' && (shapes & SHAPE_LIST) != 0 ? field_items_type(type) : none;
}

const FieldSet *
field_ensure_named(Arena *arena, FieldType type, const FieldSet *set)
{
	FieldSet   *result = NULL;

	arena_checkpoint();
	for (size_t i = 0; set != NULL && i < set->count; i++)
	{
		const FieldEntry *entry = &set->entries[i];
		const FieldSet *below = NULL;
		bool		declared = false;

		if (entry->below != NULL)
			below = field_ensure_named(arena, type_below(type, entry->element, &declared), entry->below);
		field_set_add(arena, &result, entry->element, entry->member || declared, below);
	}
	return result;
}

/* The new members below an entry; NULL with *member set when the value is atomic now. */
static const FieldSet *
reconcile_entry(Arena *arena, FieldType type, const FieldEntry *entry, bool *member)
{
	unsigned int shape = field_main_shape(field_type_shapes(type));

	*member = entry->member;
	if (entry->below == NULL || type.kind == FIELD_TYPE_NONE || shape == SHAPE_SCALAR ||
		(shape == SHAPE_MAP && field_map_is_deduced(type)))
		return entry->below;
	if (shape == SHAPE_MAP ? field_map_is_atomic(type) : field_list_is_atomic(type))
	{
		*member = true;
		return NULL;
	}
	return field_reconcile(arena, type, entry->below);
}

const FieldSet *
field_reconcile(Arena *arena, FieldType type, const FieldSet *set)
{
	bool		is_list = field_main_shape(field_type_shapes(type)) == SHAPE_LIST;
	FieldSet   *result = NULL;

	arena_checkpoint();
	for (size_t i = 0; set != NULL && i < set->count; i++)
	{
		const FieldEntry *entry = &set->entries[i];
		JsonText	name = {"", 0};
		const FieldSet *below;
		bool		member;
		bool		declared;

		/* Elements of maps should be names; any other element counts as an undeclared member. */
		field_element_name(entry->element, &name);
		below = reconcile_entry(arena, is_list ? field_items_type(type) : field_member_type(type, name, &declared),
								entry, &member);
		field_set_add(arena, &result, entry->element, member, below);
	}
	return result;
}
