/*-------------------------------------------------------------------------
 *
 * json_skip.c
 *	  Skips over parts of a JSON text without parsing them.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/json_skip.h"

#include <string.h>

bool
json_skip_string(JsonSkip *skip, JsonText *text)
{
	const char *begin = skip->next + 1;
	const char *p = begin;

	for (;;)
	{
		size_t		escapes = 0;

		p = p < skip->end ? memchr(p, '"', (size_t) (skip->end - p)) : NULL;
		if (p == NULL)
			return false;
		while (p[-1 - (ptrdiff_t) escapes] == '\\')
			escapes++;
		if (escapes % 2 == 0)
			break;
		p++;
	}
	*text = (JsonText) {begin, (size_t) (p - begin)};
	skip->next = p + 1;
	return true;
}

bool
json_skip_value(JsonSkip *skip)
{
	size_t		depth = 0;
	JsonText	text;

	while (skip->next < skip->end)
	{
		char		c = *skip->next;

		if (c == '"')
		{
			if (!json_skip_string(skip, &text))
				return false;
			if (depth == 0)
				return true;
			continue;
		}
		if (depth == 0 && (c == ',' || c == '}' || c == ']'))
			return true;
		skip->next++;
		if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && --depth == 0)
			return true;
	}
	return false;
}
