/*-------------------------------------------------------------------------
 *
 * name_list.c
 *	  Lists of names in flags and ConfigMaps.
 *
 *-------------------------------------------------------------------------
 */
#include "base/name_list.h"

#include <ctype.h>
#include <string.h>

#include "engine/base/json.h"

static void
append_name(Arena *arena, NameList *list, size_t capacity, const char *bytes, size_t len)
{
	if (list->names == NULL)
		list->names = arena_alloc(arena, capacity * sizeof(char *));
	list->names[list->count++] = arena_strndup(arena, bytes, len);
}

bool
name_list_split(Arena *arena, const char *text, NameList *list)
{
	size_t		capacity = 1;

	memset(list, 0, sizeof(*list));
	if (*text == '\0')
		return true;
	for (const char *c = text; *c != '\0'; c++)
		capacity += *c == ',';
	for (;;)
	{
		size_t		len = strcspn(text, ",");
		const char *next = text + len;

		while (len > 0 && isspace((unsigned char) text[len - 1]))
			len--;
		while (len > 0 && isspace((unsigned char) *text))
		{
			text++;
			len--;
		}
		if (len == 0)
			return false;
		append_name(arena, list, capacity, text, len);
		if (*next == '\0')
			return true;
		text = next + 1;
	}
}

bool
name_list_parse(Arena *arena, const char *text, NameList *list)
{
	JsonError	error;
	JsonNode   *array;

	memset(list, 0, sizeof(*list));
	if (text == NULL || *text == '\0')
		return true;
	array = json_parse(arena, text, strlen(text), NULL, NULL, &error);
	if (array != NULL && array->kind == JSON_KIND_NULL)
		return true;
	if (array == NULL || array->kind != JSON_KIND_ARRAY)
		return false;
	for (size_t i = 0; i < array->u.array.count; i++)
	{
		const JsonNode *item = array->u.array.items[i];

		if (item->kind != JSON_KIND_STRING || item->u.string.len == 0 ||
			memchr(item->u.string.bytes, '\0', item->u.string.len) != NULL)
			return false;
		append_name(arena, list, array->u.array.count, item->u.string.bytes, item->u.string.len);
	}
	return true;
}

bool
name_list_has(const NameList *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
	{
		if (strcmp(list->names[i], name) == 0)
			return true;
	}
	return false;
}
