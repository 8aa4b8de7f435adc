/*-------------------------------------------------------------------------
 *
 * name_list.c
 *	  Lists of names.
 *
 *-------------------------------------------------------------------------
 */
#include "base/name_list.h"

#include <ctype.h>
#include <string.h>

bool
name_list_split(Arena *arena, const char *text, NameList *list)
{
	size_t		capacity = 1;

	memset(list, 0, sizeof(*list));
	if (*text == '\0')
		return true;
	for (const char *c = text; *c != '\0'; c++)
		capacity += *c == ',';
	list->names = arena_alloc(arena, capacity * sizeof(char *));
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
		list->names[list->count++] = arena_strndup(arena, text, len);
		if (*next == '\0')
			return true;
		text = next + 1;
	}
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
