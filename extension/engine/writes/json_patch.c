/*-------------------------------------------------------------------------
 *
 * json_patch.c
 *	  JSON patch (RFC 6902).
 *
 * Cases that the RFC leaves open, and deviations from the RFC, follow the
 * library that kube-apiserver uses: an absent value is null, text before the
 * first slash of a pointer is ignored, an array index may have a sign or
 * leading zeros, a negative index counts from the end, a test for null passes
 * when the member is absent, replace adds an absent member, and copy of an
 * absent member copies null.  A value that no operation reads keeps its text:
 * its duplicate keys are reported like those of the document.
 *
 * The patched tree is never deeper than JSON_MAX_DEPTH, so that recursion over
 * a document is bounded.  An upper bound of the depth is maintained.  If it
 * becomes too large, only the moved value is measured, because a walk over the
 * whole document for each of many moves would take too long.
 *
 * Reference: k8s-conformance section 13.2.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/writes/patch.h"

#include <string.h>

#define MAX_OPERATIONS 10000

/* Maximum JSON text that all copy operations of a patch may add together: as much as a body. */
#define MAX_COPIED_BYTES ((size_t) 3 * 1024 * 1024)

typedef struct Patching
{
	Arena	   *arena;
	JsonNode   *root;
	int			depth;			/* upper bound of the depth of root */
	StrBuf		scratch;		/* text of a copied value, to measure its length */
	size_t		copied_bytes;
	const char *error;
} Patching;

/* The target of a pointer: a member or an element, which may not exist yet. */
typedef struct PatchTarget
{
	JsonText	pointer;
	JsonNode   *container;
	JsonText	token;			/* last one, decoded */
	int			depth;			/* number of tokens */
} PatchTarget;

typedef bool (*Operator) (Patching *patching, const JsonNode *operation);

static bool apply_add(Patching *patching, const JsonNode *operation);
static bool apply_remove(Patching *patching, const JsonNode *operation);
static bool apply_replace(Patching *patching, const JsonNode *operation);
static bool apply_move(Patching *patching, const JsonNode *operation);
static bool apply_copy(Patching *patching, const JsonNode *operation);
static bool apply_test(Patching *patching, const JsonNode *operation);

static const struct
{
	const char *name;
	Operator	apply;
}			operators[] = {
	{"add", apply_add},
	{"remove", apply_remove},
	{"replace", apply_replace},
	{"move", apply_move},
	{"copy", apply_copy},
	{"test", apply_test},
};

static bool
fail(Patching *patching, const char *error)
{
	patching->error = error;
	return false;
}

static bool
fail_at(Patching *patching, const char *what, JsonText pointer)
{
	return fail(patching, arena_printf(patching->arena, "%s: %s", what,
									   json_text_cstring(patching->arena, pointer)));
}

/* The number of levels of arrays and objects in a value; 0 for a scalar. */
static int
measure_depth(const JsonNode *node)
{
	int			deepest = 0;

	if (node->kind == JSON_KIND_ARRAY)
	{
		arena_checkpoint();
		for (size_t i = 0; i < node->u.array.count; i++)
		{
			int			depth = measure_depth(node->u.array.items[i]);

			arena_checkpoint_at(i);
			if (depth > deepest)
				deepest = depth;
		}
		return deepest + 1;
	}
	if (node->kind == JSON_KIND_OBJECT)
	{
		arena_checkpoint();
		for (size_t i = 0; i < node->u.object.count; i++)
		{
			int			depth = measure_depth(node->u.object.members[i].value);

			arena_checkpoint_at(i);
			if (depth > deepest)
				deepest = depth;
		}
		return deepest + 1;
	}
	return 0;
}

/*
 * Decodes ~1 and ~0; any other tilde stays.
 */
static JsonText
decode_token(Arena *arena, const char *bytes, size_t len)
{
	JsonText	token = {bytes, len};
	char	   *decoded;
	char	   *to;

	if (memchr(bytes, '~', len) == NULL)
		return token;

	decoded = to = arena_alloc(arena, len);
	for (size_t i = 0; i < len; i++)
	{
		if (bytes[i] == '~' && i + 1 < len && (bytes[i + 1] == '0' || bytes[i + 1] == '1'))
			*to++ = bytes[++i] == '0' ? '~' : '/';
		else
			*to++ = bytes[i];
	}
	token.bytes = decoded;
	token.len = (size_t) (to - decoded);
	return token;
}

/*
 * Reads an index into an array of count places, like Go's strconv.Atoi; -1 is the last place.  False when the token is
 * no number or is out of range.
 */
static bool
parse_index(JsonText token, size_t count, size_t *index)
{
	const char *p = token.bytes;
	const char *end = p + token.len;
	bool		negative = false;
	size_t		value = 0;

	if (p < end && (*p == '+' || *p == '-'))
		negative = *p++ == '-';
	if (p == end)
		return false;
	for (; p < end; p++)
	{
		if (*p < '0' || *p > '9')
			return false;
		if (value > SIZE_MAX / 100)
			return false;
		value = value * 10 + (size_t) (*p - '0');
	}
	if (negative && value > 0)
	{
		if (value > count)
			return false;
		value = count - value;
	}
	*index = value;
	return value < count;
}

/*
 * The part of a container with the name or index in token; NULL when there is none.
 */
static JsonNode *
get_part(const JsonNode *container, JsonText token)
{
	size_t		index;

	if (container->kind == JSON_KIND_OBJECT)
		return json_get_text(container, token);
	if (container->kind == JSON_KIND_ARRAY && parse_index(token, container->u.array.count, &index))
		return container->u.array.items[index];
	return NULL;
}

/*
 * Follows the pointer in a member of the operation up to its last token.
 */
static bool
find_target(Patching *patching, const JsonNode *operation, const char *member, PatchTarget *target)
{
	const JsonNode *pointer = json_get(operation, member);
	JsonNode   *container = patching->root;
	const char *p;
	const char *end;
	JsonText	token;

	if (pointer == NULL || pointer->kind != JSON_KIND_STRING)
		return fail(patching, arena_printf(patching->arena, "operation is missing its %s", member));
	target->pointer = pointer->u.string;
	target->depth = 0;
	if (target->pointer.len == 0)
		return fail(patching, "operation does not apply to the whole document");

	p = target->pointer.bytes;
	end = p + target->pointer.len;
	p = memchr(p, '/', target->pointer.len);
	if (p == NULL)
		return fail_at(patching, "path does not exist", target->pointer);

	for (;;)
	{
		const char *start = p + 1;
		const char *slash = memchr(start, '/', (size_t) (end - start));

		/* As upstream, an operation on a part of a value reads the value, which removes its duplicate keys. */
		container->repeats = false;
		token = decode_token(patching->arena, start, (size_t) ((slash != NULL ? slash : end) - start));
		target->depth++;
		if (slash == NULL)
		{
			target->token = token;
			break;
		}
		container = get_part(container, token);
		if (container == NULL)
			return fail_at(patching, "path does not exist", target->pointer);
		p = slash;
	}

	if (container->kind != JSON_KIND_OBJECT && container->kind != JSON_KIND_ARRAY)
		return fail_at(patching, "path does not exist", target->pointer);
	target->container = container;
	return true;
}

/*
 * A copy of the operation's value that the tree may keep and later operations may change.
 */
static JsonNode *
copy_value(Patching *patching, const JsonNode *operation)
{
	const JsonNode *value = json_get(operation, "value");

	return value != NULL ? json_clone(patching->arena, value) : json_new_null(patching->arena);
}

/*
 * Updates the depth for a value of value_depth levels at target; false when it exceeds the maximum.
 */
static bool
check_depth(Patching *patching, const PatchTarget *target, int value_depth)
{
	int			depth = target->depth + value_depth;

	if (depth > JSON_MAX_DEPTH)
		return fail_at(patching, "exceeded max depth", target->pointer);
	if (depth > patching->depth)
		patching->depth = depth;
	return true;
}

static bool
put_at(Patching *patching, const PatchTarget *target, JsonNode *value)
{
	JsonNode   *container = target->container;
	size_t		index;

	if (container->kind == JSON_KIND_OBJECT)
	{
		json_set_text(patching->arena, container, target->token, value);
		return true;
	}

	if (json_text_is(target->token, "-"))
		index = container->u.array.count;
	else if (!parse_index(target->token, container->u.array.count + 1, &index))
		return fail_at(patching, "invalid array index", target->pointer);
	json_insert(patching->arena, container, index, value);
	return true;
}

static bool
remove_at(Patching *patching, const PatchTarget *target)
{
	size_t		index;

	if (target->container->kind == JSON_KIND_OBJECT)
	{
		if (!json_remove_text(target->container, target->token))
			return fail_at(patching, "path does not exist", target->pointer);
		return true;
	}

	if (!parse_index(target->token, target->container->u.array.count, &index))
		return fail_at(patching, "invalid array index", target->pointer);
	json_remove_item(target->container, index);
	return true;
}

static bool
apply_add(Patching *patching, const JsonNode *operation)
{
	PatchTarget target;
	JsonNode   *value;

	if (!find_target(patching, operation, "path", &target))
		return false;
	value = copy_value(patching, operation);
	return check_depth(patching, &target, measure_depth(value)) && put_at(patching, &target, value);
}

static bool
apply_remove(Patching *patching, const JsonNode *operation)
{
	PatchTarget target;

	return find_target(patching, operation, "path", &target) && remove_at(patching, &target);
}

static bool
apply_replace(Patching *patching, const JsonNode *operation)
{
	PatchTarget target;
	JsonNode   *value;
	JsonNode   *old;

	if (json_string_is(json_get(operation, "path"), ""))
	{
		value = copy_value(patching, operation);
		if (value->kind != JSON_KIND_OBJECT && value->kind != JSON_KIND_ARRAY)
			return fail(patching, "the document can only be replaced by an object or array");
		value->repeats = false;
		patching->root = value;
		patching->depth = measure_depth(value);
		return true;
	}

	if (!find_target(patching, operation, "path", &target))
		return false;
	old = get_part(target.container, target.token);
	if (old == NULL && target.container->kind == JSON_KIND_ARRAY)
		return fail_at(patching, "path does not exist", target.pointer);
	value = copy_value(patching, operation);
	if (!check_depth(patching, &target, measure_depth(value)))
		return false;
	if (old == NULL)
		return put_at(patching, &target, value);

	/* The old value is in no other place of the tree, so its node can hold the new value. */
	*old = *value;
	return true;
}

static bool
apply_move(Patching *patching, const JsonNode *operation)
{
	PatchTarget from;
	PatchTarget to;
	JsonNode   *value;

	if (!find_target(patching, operation, "from", &from))
		return false;
	value = get_part(from.container, from.token);
	if (value == NULL)
		return fail_at(patching, "path does not exist", from.pointer);

	/* The value is removed before the destination is searched, so it cannot become its own child. */
	if (!remove_at(patching, &from) || !find_target(patching, operation, "path", &to))
		return false;

	if (to.depth > from.depth && to.depth - from.depth > JSON_MAX_DEPTH - patching->depth)
	{
		/* From now on each value that is put into the tree is measured, so the tree is never deeper than the bound. */
		if (!check_depth(patching, &to, measure_depth(value)))
			return false;
		patching->depth = JSON_MAX_DEPTH;
	}
	else if (to.depth > from.depth)
	{
		patching->depth += to.depth - from.depth;
	}
	return put_at(patching, &to, value);
}

static bool
apply_copy(Patching *patching, const JsonNode *operation)
{
	PatchTarget from;
	PatchTarget to;
	const JsonNode *value;

	if (!find_target(patching, operation, "from", &from))
		return false;
	value = get_part(from.container, from.token);
	if (value == NULL && from.container->kind == JSON_KIND_ARRAY)
		return fail_at(patching, "path does not exist", from.pointer);
	if (!find_target(patching, operation, "path", &to))
		return false;
	if (value == NULL)
		value = json_new_null(patching->arena);

	patching->scratch.len = 0;
	json_write(&patching->scratch, value);
	patching->copied_bytes += patching->scratch.len;
	if (patching->copied_bytes > MAX_COPIED_BYTES)
		return fail(patching, "the copy operations of the patch copy too much");

	return check_depth(patching, &to, measure_depth(value)) &&
		put_at(patching, &to, json_clone(patching->arena, value));
}

/* Marks a value and everything in it as read: without duplicate keys. */
static void
read_whole(JsonNode *node)
{
	arena_checkpoint();
	node->repeats = false;
	for (size_t i = 0; node->kind == JSON_KIND_ARRAY && i < node->u.array.count; i++)
		read_whole(node->u.array.items[i]);
	for (size_t i = 0; node->kind == JSON_KIND_OBJECT && i < node->u.object.count; i++)
		read_whole(node->u.object.members[i].value);
}

static bool
apply_test(Patching *patching, const JsonNode *operation)
{
	const JsonNode *expected = json_get(operation, "value");
	JsonNode   *actual = patching->root;
	PatchTarget target;

	target.pointer.bytes = "";
	target.pointer.len = 0;
	if (!json_string_is(json_get(operation, "path"), ""))
	{
		if (!find_target(patching, operation, "path", &target))
			return false;
		actual = get_part(target.container, target.token);
		if (actual == NULL && target.container->kind == JSON_KIND_ARRAY)
			return fail_at(patching, "invalid array index", target.pointer);
	}

	/* An absent value counts as null here. */
	if (actual == NULL || actual->kind == JSON_KIND_NULL)
	{
		if (expected == NULL || expected->kind == JSON_KIND_NULL)
			return true;
	}
	else if (expected != NULL && json_same(actual, expected))
	{
		read_whole(actual);
		return true;
	}
	return fail_at(patching, "test failed", target.pointer);
}

static bool
apply_operation(Patching *patching, const JsonNode *operation)
{
	const JsonNode *name = json_get(operation, "op");

	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
	{
		if (json_string_is(name, operators[i].name))
			return operators[i].apply(patching, operation);
	}
	return fail(patching, "unknown operation");
}

/*
 * The error for a patch that is no list of operations; NULL when it is one.  Null counts as an empty list, an empty
 * operation or an empty string.
 */
static const char *
check_shape(Arena *arena, const JsonNode *patch, bool checked)
{
	static const char *const texts[] = {"op", "path", "from"};
	const char *prefix = checked ? "error decoding patch: " : "";

	if (patch->kind == JSON_KIND_NULL)
		return NULL;
	if (patch->kind != JSON_KIND_ARRAY)
		return arena_printf(arena, "%sjson: cannot unmarshal %s into Go value of type %s", prefix,
							json_go_kind_name(patch->kind), checked ? "[]handlers.jsonPatchOp" : "jsonpatch.Patch");

	for (size_t i = 0; i < patch->u.array.count; i++)
	{
		const JsonNode *operation = patch->u.array.items[i];

		if ((i & 0xff) == 0xff)
			arena_checkpoint();
		if (operation->kind == JSON_KIND_NULL)
			continue;
		if (operation->kind != JSON_KIND_OBJECT)
			return arena_printf(arena, "%sjson: cannot unmarshal %s into Go value of type %s", prefix,
								json_go_kind_name(operation->kind),
								checked ? "handlers.jsonPatchOp" : "jsonpatch.Operation");
		for (size_t t = 0; checked && t < sizeof(texts) / sizeof(texts[0]); t++)
		{
			const JsonNode *text = json_get(operation, texts[t]);

			if (text != NULL && text->kind != JSON_KIND_STRING && text->kind != JSON_KIND_NULL)
				return arena_printf(arena, "error decoding patch: json: cannot unmarshal %s into Go struct field "
									"jsonPatchOp.%s of type string", json_go_kind_name(text->kind), texts[t]);
		}
	}
	return NULL;
}

PatchResult
json_patch_apply(Arena *arena, JsonNode **document, const JsonNode *patch, bool checked, const char **error)
{
	Patching	patching = {.arena = arena, .root = *document};
	size_t		count = patch->kind == JSON_KIND_ARRAY ? patch->u.array.count : 0;

	*error = check_shape(arena, patch, checked);
	if (*error != NULL)
		return PATCH_MALFORMED;
	if (count > MAX_OPERATIONS)
	{
		*error = arena_printf(arena, "The allowed maximum operations in a JSON patch is %d, got %zu",
							  MAX_OPERATIONS, count);
		return PATCH_TOO_MANY;
	}

	patching.depth = measure_depth(*document);
	strbuf_init(&patching.scratch, arena);
	for (size_t i = 0; i < count; i++)
	{
		arena_checkpoint();
		if (!apply_operation(&patching, patch->u.array.items[i]))
		{
			*error = patching.error;
			return PATCH_FAILED;
		}
	}
	if (patching.root->kind != JSON_KIND_OBJECT)
	{
		*error = "the patched document is no object";
		return PATCH_FAILED;
	}
	*document = patching.root;
	return PATCH_OK;
}
