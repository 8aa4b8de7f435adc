/*-------------------------------------------------------------------------
 *
 * json_fuzz.c
 *	  Fuzz target: any bytes as JSON text.
 *
 * Parsed input is printed, parsed and printed again: both trees are equal and
 * both texts are the same bytes, in the plain form and the indented one.  The
 * members of an object are walked beside those of its copy, and parsed alone.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/base/json.h"
#include "engine/base/json_skip.h"

/* Longer indented text is not printed again. */
#define MANY_BYTES (64 * 1024)

static void
count_duplicate(void *state, const char *path)
{
	*(size_t *) state += 1;
	check(path != NULL);
}

static void
check_sorted(const JsonNode *node)
{
	if (node->kind == JSON_KIND_ARRAY)
	{
		for (size_t i = 0; i < node->u.array.count; i++)
			check_sorted(node->u.array.items[i]);
	}
	else if (node->kind == JSON_KIND_OBJECT)
	{
		for (size_t i = 0; i < node->u.object.count; i++)
		{
			const JsonMember *member = &node->u.object.members[i];

			check(i == 0 || json_text_compare(member[-1].key, member->key) < 0);
			check(json_get_text(node, member->key) == member->value);
			check_sorted(member->value);
		}
	}
}

/* A member is parsed alone as it is parsed with the others, unless its key has bad bytes in the text. */
static void
check_members(Arena *arena, JsonText text, const JsonNode *object)
{
	for (size_t i = 0; i < object->u.object.count && i < 4; i++)
	{
		const JsonMember *member = &object->u.object.members[i];
		const char *key = arena_strndup(arena, member->key.bytes, member->key.len);
		JsonNode   *alone = json_parse_member(arena, text, key);

		if (strlen(key) == member->key.len && strstr(key, "\xEF\xBF\xBD") == NULL)
			check(alone != NULL && json_same(alone, member->value));
	}
	check(json_get(object, "absent") != NULL || json_parse_member(arena, text, "absent") == NULL);
}

static size_t checkpoints;

static void
count_checkpoint(void)
{
	checkpoints++;
}

/* Walks an object beside its copy: every key appears once, and the loop can be interrupted. */
static void
check_pairs(Arena *arena, const JsonNode *object)
{
	JsonPairs	pairs = {.left = object, .right = json_clone(arena, object)};
	void		(*interrupt) (void) = arena_interrupt;
	size_t		count = 0;

	checkpoints = 0;
	arena_interrupt = count_checkpoint;
	for (; json_pairs_next(&pairs); count++)
	{
		check(json_text_compare(pairs.key, object->u.object.members[count].key) == 0);
		check(pairs.left_value == object->u.object.members[count].value &&
			  json_same(pairs.left_value, pairs.right_value));
	}
	arena_interrupt = interrupt;
	check(count == object->u.object.count && checkpoints >= count / 256);
}

static void
check_round_trip(Arena *arena, const JsonNode *tree)
{
	StrBuf		plain;
	StrBuf		pretty;
	StrBuf		again;
	JsonNode   *reparsed;
	JsonError	error;

	strbuf_init(&plain, arena);
	json_write(&plain, tree);
	strbuf_init(&pretty, arena);
	json_write_pretty(&pretty, tree, 0);

	reparsed = json_parse(arena, plain.bytes, plain.len, NULL, NULL, &error);
	check(reparsed != NULL && json_same(tree, reparsed) && json_same(reparsed, tree));
	strbuf_init(&again, arena);
	json_write(&again, reparsed);
	check(again.len == plain.len && memcmp(again.bytes, plain.bytes, plain.len) == 0);

	reparsed = json_parse(arena, pretty.bytes, pretty.len, NULL, NULL, &error);
	check(reparsed != NULL && json_same(tree, reparsed));

	/* Compact and indented text print the same as the tree.  Large indented text is not printed three times. */
	if (pretty.len > MANY_BYTES)
		return;
	again.len = 0;
	json_indent(&again, (JsonText) {plain.bytes, plain.len}, 0);
	check(again.len == pretty.len && memcmp(again.bytes, pretty.bytes, pretty.len) == 0);
	again.len = 0;
	json_indent(&again, (JsonText) {pretty.bytes, pretty.len}, 0);
	check(again.len == pretty.len && memcmp(again.bytes, pretty.bytes, pretty.len) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	Arena		arena;
	JsonError	error = {NULL, 0};
	JsonNode   *tree;
	StrBuf		literal;
	size_t		duplicates = 0;

	arena_init(&arena);
	tree = json_parse(&arena, (const char *) bytes, size, count_duplicate, &duplicates, &error);
	if (tree == NULL)
	{
		check(error.message != NULL && error.offset <= size);
	}
	else
	{
		check_sorted(tree);
		check_round_trip(&arena, tree);
		check_round_trip(&arena, json_clone(&arena, tree));
		if (tree->kind == JSON_KIND_OBJECT)
		{
			check_pairs(&arena, tree);
			check_members(&arena, (JsonText) {(const char *) bytes, size}, tree);
			check_members(&arena, json_text_of(&arena, tree), tree);
		}
	}

	/* The input as the contents of a string: for any bytes, the literal is a valid string. */
	strbuf_init(&literal, &arena);
	json_write_string(&literal, (const char *) bytes, size);
	tree = json_parse(&arena, literal.bytes, literal.len, NULL, NULL, &error);
	check(tree != NULL && tree->kind == JSON_KIND_STRING);
	arena_free(&arena);
	return 0;
}
