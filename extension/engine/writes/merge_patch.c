/*-------------------------------------------------------------------------
 *
 * merge_patch.c
 *	  JSON merge patch (RFC 7386).
 *
 * The members of the object and of the patch are sorted, so one pass merges
 * them.  Values from the patch are copied, because the document may be changed
 * afterwards, but the patch may not.
 *
 * One case differs from the RFC and follows the library that kube-apiserver
 * uses.  If the patch adds an array where the document has no object, members
 * that are null are removed from the objects inside this array, too.  The
 * elements of the array stay, even if they are null.
 *
 * Reference: k8s-conformance section 13.3.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/writes/patch.h"

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
	if (node->kind == JSON_KIND_OBJECT && node->u.object.count > 0)
	{
		copy->u.object.capacity = node->u.object.count;
		copy->u.object.members = arena_alloc(arena, node->u.object.count * sizeof(JsonMember));
		for (size_t i = 0; i < node->u.object.count; i++)
		{
			const JsonMember *member = &node->u.object.members[i];

			if (member->value->kind == JSON_KIND_NULL)
				continue;
			copy->u.object.members[kept].key = member->key;
			copy->u.object.members[kept].value = copy_without_nulls(arena, member->value);
			kept++;
		}
		copy->u.object.count = kept;
	}
	else if (node->kind == JSON_KIND_ARRAY && node->u.array.count > 0)
	{
		copy->u.array.capacity = node->u.array.count;
		copy->u.array.items = arena_alloc(arena, node->u.array.count * sizeof(JsonNode *));
		for (size_t i = 0; i < node->u.array.count; i++)
			copy->u.array.items[i] = copy_without_nulls(arena, node->u.array.items[i]);
	}
	return copy;
}

/*
 * The merged value of a member; old is NULL when the document has no such member.
 */
static JsonNode *
merge_value(Arena *arena, JsonNode *old, const JsonNode *patch)
{
	if (old == NULL || old->kind != JSON_KIND_OBJECT)
		return copy_without_nulls(arena, patch);
	if (patch->kind != JSON_KIND_OBJECT)
		return json_clone(arena, patch);
	merge_objects(arena, old, patch);
	return old;
}

static void
merge_objects(Arena *arena, JsonNode *target, const JsonNode *patch)
{
	JsonPairs	pairs = {.left = target, .right = patch};
	size_t		capacity = target->u.object.count + patch->u.object.count;
	size_t		count = 0;
	JsonMember *members;

	arena_checkpoint();
	if (patch->u.object.count == 0)
		return;

	members = arena_alloc(arena, capacity * sizeof(JsonMember));
	while (json_pairs_next(&pairs))
	{
		if (pairs.right_value == NULL)
			members[count++] = (JsonMember) {pairs.key, pairs.left_value};
		else if (pairs.right_value->kind != JSON_KIND_NULL)
			members[count++] = (JsonMember) {pairs.key, merge_value(arena, pairs.left_value, pairs.right_value)};
	}
	target->u.object.members = members;
	target->u.object.count = count;
	target->u.object.capacity = capacity;
}

PatchResult
merge_patch_apply(Arena *arena, JsonNode **document, const JsonNode *patch, bool checked, const char **error)
{
	if (patch->kind == JSON_KIND_ARRAY && !checked)
	{
		*document = copy_without_nulls(arena, patch);
		return PATCH_OK;
	}
	if (patch->kind != JSON_KIND_OBJECT)
	{
		*error = patch->kind == JSON_KIND_NULL || !checked ? "Invalid JSON Patch" :
			arena_printf(arena, "error decoding patch: json: cannot unmarshal %s into Go value of type "
						 "map[string]interface {}", json_go_kind_name(patch->kind));
		return PATCH_MALFORMED;
	}
	if ((*document)->kind != JSON_KIND_OBJECT)
	{
		*error = "Invalid JSON Document";
		return PATCH_MALFORMED;
	}
	merge_objects(arena, *document, patch);
	return PATCH_OK;
}
