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

bool
json_skip_member(JsonSkip *skip, JsonText *key, JsonText *value)
{
	const char *begin;

	skip->next++;
	if (skip->next >= skip->end || *skip->next != '"' || !json_skip_string(skip, key) || skip->next >= skip->end ||
		*skip->next != ':' || memchr(key->bytes, '\\', key->len) != NULL)
		return false;
	begin = ++skip->next;
	if (!json_skip_value(skip) || skip->next >= skip->end || (*skip->next != ',' && *skip->next != '}'))
		return false;
	*value = (JsonText) {begin, (size_t) (skip->next - begin)};
	return true;
}

JsonNode *
json_parse_member(Arena *arena, JsonText object, const char *key)
{
	JsonSkip	skip = {object.bytes, object.bytes + object.len};
	JsonText	found = {NULL, 0};
	JsonText	name;
	JsonText	value;
	JsonError	error;
	size_t		steps = 0;

	if (object.len > 2 && object.bytes[0] == '{')
	{
		do
		{
			arena_checkpoint_at(steps++);
			if (!json_skip_member(&skip, &name, &value))
				break;
			/* As in a parsed object, the last one counts. */
			if (json_text_is(name, key))
				found = value;
		} while (*skip.next != '}');
		if (skip.next + 1 == skip.end && *skip.next == '}')
			return found.bytes != NULL ? json_parse(arena, found.bytes, found.len, NULL, NULL, &error) : NULL;
	}
	return json_get(json_parse(arena, object.bytes, object.len, NULL, NULL, &error), key);
}
