/*-------------------------------------------------------------------------
 *
 * json.c
 *	  JSON documents in memory: make, look up, change, compare.
 *
 * Every function here leaves the members of an object sorted by key bytes and
 * unique.  Parsing is in json_parse.c, printing in json_write.c.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/json.h"

#include <math.h>
#include <string.h>

#include "engine/base/search.h"

/* Bytes that can be moved in the time of one step. */
#define SHIFTED_PER_STEP 64

static JsonNode *
new_node(Arena *arena, JsonKind kind)
{
	JsonNode   *node = arena_alloc0(arena, sizeof(JsonNode));

	node->kind = kind;
	return node;
}

JsonNode *
json_new_null(Arena *arena)
{
	return new_node(arena, JSON_KIND_NULL);
}

JsonNode *
json_new_bool(Arena *arena, bool value)
{
	JsonNode   *node = new_node(arena, JSON_KIND_BOOL);

	node->u.boolean = value;
	return node;
}

JsonNode *
json_new_integer(Arena *arena, int64_t value)
{
	JsonNode   *node = new_node(arena, JSON_KIND_INTEGER);

	node->u.integer = value;
	return node;
}

JsonNode *
json_new_number(Arena *arena, double value)
{
	JsonNode   *node = new_node(arena, JSON_KIND_NUMBER);

	node->u.number = value;
	node->u.literal = (JsonText) {NULL, 0};
	return node;
}

JsonNode *
json_new_string(Arena *arena, const char *bytes, size_t len)
{
	JsonNode   *node = new_node(arena, JSON_KIND_STRING);

	node->u.string.bytes = bytes;
	node->u.string.len = len;
	return node;
}

JsonNode *
json_new_cstring(Arena *arena, const char *string)
{
	JsonText	text = json_cstring_text(arena, string);

	return json_new_string(arena, text.bytes, text.len);
}

char *
json_text_cstring(Arena *arena, JsonText text)
{
	StrBuf		buf;
	size_t		start = 0;

	if (text.len == 0 || memchr(text.bytes, '\0', text.len) == NULL)
		return arena_strndup(arena, text.bytes, text.len);
	strbuf_init(&buf, arena);
	for (size_t i = 0; i <= text.len; i++)
	{
		if (i < text.len && text.bytes[i] != '\0')
			continue;
		strbuf_append(&buf, text.bytes + start, i - start);
		if (i < text.len)
			strbuf_puts(&buf, JSON_NUL);
		start = i + 1;
	}
	return strbuf_finish(&buf);
}

JsonText
json_cstring_text(Arena *arena, const char *string)
{
	const char *found = strstr(string, JSON_NUL);
	StrBuf		buf;

	if (found == NULL)
		return (JsonText) {string, strlen(string)};
	strbuf_init(&buf, arena);
	for (; found != NULL; found = strstr(string, JSON_NUL))
	{
		strbuf_append(&buf, string, (size_t) (found - string));
		strbuf_putc(&buf, '\0');
		string = found + strlen(JSON_NUL);
	}
	strbuf_puts(&buf, string);
	return (JsonText) {buf.bytes, buf.len};
}

JsonNode *
json_new_array(Arena *arena)
{
	return new_node(arena, JSON_KIND_ARRAY);
}

JsonNode *
json_new_object(Arena *arena)
{
	return new_node(arena, JSON_KIND_OBJECT);
}

int
json_text_compare(JsonText a, JsonText b)
{
	size_t		common = a.len < b.len ? a.len : b.len;
	int			order = common > 0 ? memcmp(a.bytes, b.bytes, common) : 0;

	if (order != 0)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

static int
compare_first_text(const void *element, const void *key)
{
	return json_text_compare(*(const JsonText *) element, *(const JsonText *) key);
}

size_t
json_text_search(const void *elements, size_t count, size_t size, JsonText key, bool *found)
{
	return search_sorted(elements, count, size, &key, compare_first_text, found);
}

bool
json_text_is(JsonText text, const char *value)
{
	size_t		len = strlen(value);

	return text.len == len && (len == 0 || memcmp(text.bytes, value, len) == 0);
}

bool
json_string_is(const JsonNode *node, const char *value)
{
	return node != NULL && node->kind == JSON_KIND_STRING && json_text_is(node->u.string, value);
}

const char *
json_kind_name(JsonKind kind)
{
	switch (kind)
	{
		case JSON_KIND_NULL:
			return "null";
		case JSON_KIND_BOOL:
			return "boolean";
		case JSON_KIND_INTEGER:
			return "integer";
		case JSON_KIND_NUMBER:
			return "number";
		case JSON_KIND_STRING:
			return "string";
		case JSON_KIND_ARRAY:
			return "array";
		case JSON_KIND_OBJECT:
			return "object";
	}
	return "unknown";
}

const char *
json_go_kind_name(JsonKind kind)
{
	switch (kind)
	{
		case JSON_KIND_BOOL:
			return "bool";
		case JSON_KIND_INTEGER:
			return "number";
		default:
			return json_kind_name(kind);
	}
}

const char *
json_go_number_name(Arena *arena, const JsonNode *node)
{
	if (node->kind != JSON_KIND_NUMBER || node->u.literal.bytes == NULL)
		return json_go_kind_name(node->kind);
	return arena_printf(arena, "number %.*s", (int) node->u.literal.len, node->u.literal.bytes);
}

/* The position of key among the members, or the position to insert it at. */
static size_t
find_member(const JsonNode *object, JsonText key, bool *found)
{
	return json_text_search(object->u.object.members, object->u.object.count, sizeof(JsonMember), key, found);
}

JsonNode *
json_get_text(const JsonNode *object, JsonText key)
{
	bool		found;
	size_t		position;

	if (object == NULL || object->kind != JSON_KIND_OBJECT)
		return NULL;
	position = find_member(object, key, &found);
	return found ? object->u.object.members[position].value : NULL;
}

JsonNode *
json_get(const JsonNode *object, const char *key)
{
	JsonText	text = {key, strlen(key)};

	return json_get_text(object, text);
}

JsonNode *
json_path(const JsonNode *object,...)
{
	va_list		keys;
	const char *key;
	JsonNode   *node = (JsonNode *) object;

	va_start(keys, object);
	while (node != NULL && (key = va_arg(keys, const char *)) != NULL)
		node = json_get(node, key);
	va_end(keys);
	return node;
}

const char *
json_get_cstring(Arena *arena, const JsonNode *object, const char *key)
{
	const JsonNode *value = json_get(object, key);

	if (value == NULL || value->kind != JSON_KIND_STRING)
		return NULL;
	return json_text_cstring(arena, value->u.string);
}

/* Moves the elements of an array that follow one element, and charges the budget for the move. */
static void
shift(void *to, const void *from, size_t bytes)
{
	if (bytes >= SHIFTED_PER_STEP)
		arena_spend(bytes / SHIFTED_PER_STEP);
	memmove(to, from, bytes);
}

void
json_set_text(Arena *arena, JsonNode *object, JsonText key, JsonNode *value)
{
	bool		found;
	size_t		position = find_member(object, key, &found);
	size_t		count = object->u.object.count;
	JsonMember *members;

	if (found)
	{
		object->u.object.members[position].value = value;
		return;
	}

	members = arena_grow(arena, object->u.object.members, count, sizeof(JsonMember), &object->u.object.capacity);
	shift(members + position + 1, members + position, (count - position) * sizeof(JsonMember));
	members[position].key = key;
	members[position].value = value;
	object->u.object.members = members;
	object->u.object.count = count + 1;
}

void
json_set(Arena *arena, JsonNode *object, const char *key, JsonNode *value)
{
	JsonText	text = {key, strlen(key)};

	json_set_text(arena, object, text, value);
}

bool
json_remove_text(JsonNode *object, JsonText key)
{
	bool		found;
	size_t		position;
	JsonMember *members;

	if (object == NULL || object->kind != JSON_KIND_OBJECT)
		return false;
	position = find_member(object, key, &found);
	if (!found)
		return false;

	members = object->u.object.members;
	object->u.object.count--;
	shift(members + position, members + position + 1, (object->u.object.count - position) * sizeof(JsonMember));
	return true;
}

bool
json_remove(JsonNode *object, const char *key)
{
	JsonText	text = {key, strlen(key)};

	return json_remove_text(object, text);
}

void
json_insert(Arena *arena, JsonNode *array, size_t index, JsonNode *value)
{
	size_t		count = array->u.array.count;
	JsonNode  **items = arena_grow(arena, array->u.array.items, count, sizeof(JsonNode *), &array->u.array.capacity);

	shift(items + index + 1, items + index, (count - index) * sizeof(JsonNode *));
	items[index] = value;
	array->u.array.items = items;
	array->u.array.count = count + 1;
}

void
json_append(Arena *arena, JsonNode *array, JsonNode *value)
{
	json_insert(arena, array, array->u.array.count, value);
}

void
json_remove_item(JsonNode *array, size_t index)
{
	JsonNode  **items = array->u.array.items;

	array->u.array.count--;
	shift(items + index, items + index + 1, (array->u.array.count - index) * sizeof(JsonNode *));
}

bool
json_pairs_next(JsonPairs *pairs)
{
	const JsonMember *left = NULL;
	const JsonMember *right = NULL;
	int			order;

	if (pairs->left != NULL && pairs->left_next < pairs->left->u.object.count)
		left = &pairs->left->u.object.members[pairs->left_next];
	if (pairs->right != NULL && pairs->right_next < pairs->right->u.object.count)
		right = &pairs->right->u.object.members[pairs->right_next];
	if (left == NULL && right == NULL)
		return false;
	if (left == NULL)
		order = 1;
	else
		order = right == NULL ? -1 : json_text_compare(left->key, right->key);
	arena_checkpoint_at(pairs->steps++);
	pairs->key = order <= 0 ? left->key : right->key;
	pairs->left_value = order <= 0 ? left->value : NULL;
	pairs->right_value = order >= 0 ? right->value : NULL;
	pairs->left_next += order <= 0;
	pairs->right_next += order >= 0;
	return true;
}

JsonNode *
json_clone(Arena *arena, const JsonNode *node)
{
	JsonNode   *copy = arena_alloc(arena, sizeof(JsonNode));
	size_t		count;

	*copy = *node;
	if (node->kind == JSON_KIND_ARRAY)
	{
		arena_checkpoint();
		count = node->u.array.count;
		copy->u.array.capacity = count;
		copy->u.array.items = NULL;
		if (count > 0)
			copy->u.array.items = arena_alloc(arena, count * sizeof(JsonNode *));
		for (size_t i = 0; i < count; i++)
		{
			arena_checkpoint_at(i);
			copy->u.array.items[i] = json_clone(arena, node->u.array.items[i]);
		}
	}
	else if (node->kind == JSON_KIND_OBJECT)
	{
		arena_checkpoint();
		count = node->u.object.count;
		copy->u.object.capacity = count;
		copy->u.object.members = NULL;
		if (count > 0)
			copy->u.object.members = arena_alloc(arena, count * sizeof(JsonMember));
		for (size_t i = 0; i < count; i++)
		{
			arena_checkpoint_at(i);
			copy->u.object.members[i].key = node->u.object.members[i].key;
			copy->u.object.members[i].value = json_clone(arena, node->u.object.members[i].value);
		}
	}
	return copy;
}

/* The shortest digits of a large double, followed by zeros, are another integer than the double's value. */
static void
settle_number(Arena *arena, JsonNode *node)
{
	double		value = node->u.number;
	JsonText	text;
	JsonError	error;

	if (value != floor(value) || fabs(value) >= 1e19)
		return;
	text = json_text_of(arena, node);
	*node = *json_parse(arena, text.bytes, text.len, NULL, NULL, &error);
}

void
json_settle(Arena *arena, JsonNode *node)
{
	if (node->kind == JSON_KIND_NUMBER)
		settle_number(arena, node);
	else if (node->kind == JSON_KIND_ARRAY)
	{
		arena_checkpoint();
		for (size_t i = 0; i < node->u.array.count; i++)
		{
			arena_checkpoint_at(i);
			json_settle(arena, node->u.array.items[i]);
		}
	}
	else if (node->kind == JSON_KIND_OBJECT)
	{
		arena_checkpoint();
		for (size_t i = 0; i < node->u.object.count; i++)
		{
			arena_checkpoint_at(i);
			json_settle(arena, node->u.object.members[i].value);
		}
	}
}

/*
 * A whole double is printed without a point and read again as an integer.  Beyond 2^53, the integer has zeros for the
 * digits that a double does not keep.  Both must count as equal; therefore an integer equals the double nearest to it.
 */
bool
json_same(const JsonNode *a, const JsonNode *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind)
	{
		if (a->kind == JSON_KIND_INTEGER && b->kind == JSON_KIND_NUMBER)
			return (double) a->u.integer == b->u.number;
		if (a->kind == JSON_KIND_NUMBER && b->kind == JSON_KIND_INTEGER)
			return a->u.number == (double) b->u.integer;
		return false;
	}

	switch (a->kind)
	{
		case JSON_KIND_NULL:
			return true;
		case JSON_KIND_BOOL:
			return a->u.boolean == b->u.boolean;
		case JSON_KIND_INTEGER:
			return a->u.integer == b->u.integer;
		case JSON_KIND_NUMBER:
			return a->u.number == b->u.number;
		case JSON_KIND_STRING:
			return a->u.string.len == b->u.string.len &&
				json_text_compare(a->u.string, b->u.string) == 0;
		case JSON_KIND_ARRAY:
			arena_checkpoint();
			if (a->u.array.count != b->u.array.count)
				return false;
			for (size_t i = 0; i < a->u.array.count; i++)
			{
				arena_checkpoint_at(i);
				if (!json_same(a->u.array.items[i], b->u.array.items[i]))
					return false;
			}
			return true;
		case JSON_KIND_OBJECT:
			arena_checkpoint();
			if (a->u.object.count != b->u.object.count)
				return false;
			for (size_t i = 0; i < a->u.object.count; i++)
			{
				const JsonMember *left = &a->u.object.members[i];
				const JsonMember *right = &b->u.object.members[i];

				arena_checkpoint_at(i);
				if (left->key.len != right->key.len ||
					json_text_compare(left->key, right->key) != 0 ||
					!json_same(left->value, right->value))
					return false;
			}
			return true;
	}
	return false;
}
