/*-------------------------------------------------------------------------
 *
 * merge_patch.c
 *	  JSON merge patch (RFC 7386).
 *
 * Members of objects are sorted on both sides, so an object and its patch are
 * merged in one pass.  What comes from the patch is copied: the document may
 * be changed afterwards, the patch may not.
 *
 * Like the library that kube-apiserver uses, and unlike the RFC, members that
 * are null vanish also from the objects inside of arrays that the patch adds
 * where the document had nothing or something that is no object; the elements
 * of such an array stay, null or not.
 *
 * Reference: k8s-conformance section 13.3.
 *
 *-------------------------------------------------------------------------
 */
#include "patch.h"

/* Loops over the parts of a document call arena_checkpoint() each time a counter has these bits set. */
#define CHECKPOINT_MASK 0xff

static void merge_objects(Arena *arena, JsonNode *target, const JsonNode *patch);

/*
 * A copy of a value of the patch without the members that are null.
 */
static JsonNode *
copy_without_nulls(Arena *arena, const JsonNode *node)
{
	JsonNode   *copy;
	size_t		kept = 0;

	arena_checkpoint();
	copy = arena_alloc(arena, sizeof(JsonNode));
	*copy = *node;
	if (node->kind == JSON_OBJECT && node->u.object.count > 0)
	{
		copy->u.object.capacity = node->u.object.count;
		copy->u.object.members = arena_alloc(arena, node->u.object.count * sizeof(JsonMember));
		for (size_t i = 0; i < node->u.object.count; i++)
		{
			const JsonMember *member = &node->u.object.members[i];

			if (member->value->kind == JSON_NULL)
				continue;
			copy->u.object.members[kept].key = member->key;
			copy->u.object.members[kept].value = copy_without_nulls(arena, member->value);
			kept++;
		}
		copy->u.object.count = kept;
	}
	else if (node->kind == JSON_ARRAY && node->u.array.count > 0)
	{
		copy->u.array.capacity = node->u.array.count;
		copy->u.array.items = arena_alloc(arena, node->u.array.count * sizeof(JsonNode *));
		for (size_t i = 0; i < node->u.array.count; i++)
			copy->u.array.items[i] = copy_without_nulls(arena, node->u.array.items[i]);
	}
	return copy;
}

/*
 * What becomes of a member; old is NULL when the document has none.
 */
static JsonNode *
merge_value(Arena *arena, JsonNode *old, const JsonNode *patch)
{
	if (old == NULL || old->kind != JSON_OBJECT)
		return copy_without_nulls(arena, patch);
	if (patch->kind != JSON_OBJECT)
		return json_copy(arena, patch);
	merge_objects(arena, old, patch);
	return old;
}

static void
merge_objects(Arena *arena, JsonNode *target, const JsonNode *patch)
{
	size_t		old_count = target->u.object.count;
	size_t		new_count = patch->u.object.count;
	size_t		old = 0;
	size_t		new = 0;
	size_t		count = 0;
	JsonMember *members;

	arena_checkpoint();
	if (new_count == 0)
		return;

	members = arena_alloc(arena, (old_count + new_count) * sizeof(JsonMember));
	for (size_t steps = 0; old < old_count || new < new_count; steps++)
	{
		const JsonMember *old_member = old < old_count ? &target->u.object.members[old] : NULL;
		const JsonMember *new_member = new < new_count ? &patch->u.object.members[new] : NULL;
		int			order;

		if ((steps & CHECKPOINT_MASK) == CHECKPOINT_MASK)
			arena_checkpoint();
		if (old_member == NULL)
			order = 1;
		else if (new_member == NULL)
			order = -1;
		else
			order = json_text_compare(old_member->key, new_member->key);

		if (order <= 0)
			old++;
		if (order >= 0)
			new++;
		if (order < 0)
		{
			members[count++] = *old_member;
		}
		else if (new_member->value->kind != JSON_NULL)
		{
			members[count].key = new_member->key;
			members[count].value = merge_value(arena, order == 0 ? old_member->value : NULL, new_member->value);
			count++;
		}
	}
	target->u.object.members = members;
	target->u.object.count = count;
	target->u.object.capacity = old_count + new_count;
}

PatchResult
merge_patch_apply(Arena *arena, JsonNode **document, const JsonNode *patch, const char **error)
{
	if (patch->kind != JSON_OBJECT)
	{
		*error = patch->kind == JSON_NULL ? "Invalid JSON Patch" :
			arena_printf(arena, "error decoding patch: json: cannot unmarshal %s into Go value of type "
						 "map[string]interface {}", json_go_kind_name(patch->kind));
		return PATCH_MALFORMED;
	}
	if ((*document)->kind != JSON_OBJECT)
	{
		*error = "Invalid JSON Document";
		return PATCH_MALFORMED;
	}
	merge_objects(arena, *document, patch);
	return PATCH_OK;
}
