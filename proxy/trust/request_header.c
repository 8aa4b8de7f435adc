/*-------------------------------------------------------------------------
 *
 * request_header.c
 *	  The user that a front proxy names in the headers of a request.
 *
 * Unusual input is handled as kube-apiserver does: of a repeated header the
 * first value names the user; an empty first value names no user; a key with
 * invalid escapes is used as it is.  One difference: an escaped NUL counts as
 * an invalid escape, because a truncated key would be another key.
 *
 *-------------------------------------------------------------------------
 */
#include "trust/request_header.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "codec/kube_json.h"
#include "engine/base/ascii.h"

bool
request_header_list(Arena *arena, const char *text, NameList *list)
{
	bool		empty = text == NULL || *text == '\0';
	json_auto_t *array = empty ? json_null() : kube_json_read(text, strlen(text));
	size_t		i;
	json_t	   *item;

	*list = (NameList) {.names = arena_alloc(arena, (json_array_size(array) + 1) * sizeof(char *))};
	json_array_foreach(array, i, item)
	{
		const char *name = kube_json_text(item, NULL);

		if (name == NULL || *name == '\0')
			return false;
		list->names[list->count++] = arena_strdup(arena, name);
	}
	return json_is_array(array) || json_is_null(array);
}

/* Returns the first value of the first listed header whose first value is not empty; NULL when there is none. */
static const char *
first_value(const NameList *names, const HttpHeader *headers, size_t count)
{
	for (size_t i = 0; i < names->count; i++)
	{
		for (size_t k = 0; k < count; k++)
		{
			if (strcasecmp(headers[k].name, names->names[i]) != 0)
				continue;
			if (headers[k].value[0] != '\0')
				return headers[k].value;
			break;
		}
	}
	return NULL;
}

static void
take_groups(Arena *arena, const NameList *names, const HttpHeader *headers, size_t count, User *user)
{
	user->groups = arena_alloc(arena, (names->count * count + 1) * sizeof(char *));
	user->group_count = 0;
	for (size_t i = 0; i < names->count; i++)
	{
		for (size_t k = 0; k < count; k++)
		{
			if (strcasecmp(headers[k].name, names->names[i]) == 0 && headers[k].value[0] != '\0')
				user->groups[user->group_count++] = headers[k].value;
		}
	}
}

/* Returns the key of an extra: converted to lower case, then unescaped, unless an escape is invalid. */
static const char *
extra_key(Arena *arena, const char *escaped)
{
	size_t		len = strlen(escaped);
	char	   *lower = arena_alloc(arena, len + 1);
	char	   *key = arena_alloc(arena, len + 1);
	size_t		key_len = 0;

	for (size_t i = 0; i <= len; i++)
		lower[i] = (char) tolower((unsigned char) escaped[i]);
	for (size_t i = 0; i < len; i++)
	{
		int			high;
		int			low;

		if (lower[i] != '%')
		{
			key[key_len++] = lower[i];
			continue;
		}
		high = len - i > 2 ? hex_digit(lower[i + 1]) : -1;
		low = len - i > 2 ? hex_digit(lower[i + 2]) : -1;
		if (high < 0 || low < 0 || high + low == 0)
			return lower;
		key[key_len++] = (char) (high * 16 + low);
		i += 2;
	}
	key[key_len] = '\0';
	return key;
}

typedef struct ExtraHeader
{
	const char *key;			/* NULL when take_extra_key() has taken it */
	const char *value;
} ExtraHeader;

/* Collects a key with the values of all headers that have this key. */
static void
take_extra_key(Arena *arena, ExtraHeader *headers, size_t count, UserExtra *extra)
{
	size_t		values = 0;

	extra->key = headers[0].key;
	for (size_t i = 0; i < count; i++)
		values += headers[i].key != NULL && strcmp(headers[i].key, extra->key) == 0;
	extra->values = arena_alloc(arena, values * sizeof(char *));
	extra->value_count = 0;
	for (size_t i = 0; extra->value_count < values; i++)
	{
		if (headers[i].key == NULL || strcmp(headers[i].key, extra->key) != 0)
			continue;
		extra->values[extra->value_count++] = headers[i].value;
		headers[i].key = NULL;
	}
}

static void
take_extra(Arena *arena, const NameList *prefixes, const HttpHeader *headers, size_t count, User *user)
{
	ExtraHeader *found = arena_alloc(arena, (prefixes->count * count + 1) * sizeof(ExtraHeader));
	size_t		found_count = 0;

	for (size_t i = 0; i < prefixes->count; i++)
	{
		size_t		prefix_len = strlen(prefixes->names[i]);

		for (size_t k = 0; k < count; k++)
		{
			if (strncasecmp(headers[k].name, prefixes->names[i], prefix_len) != 0)
				continue;
			found[found_count].key = extra_key(arena, headers[k].name + prefix_len);
			found[found_count++].value = headers[k].value;
		}
	}
	user->extra = arena_alloc(arena, (found_count + 1) * sizeof(UserExtra));
	user->extra_count = 0;
	for (size_t i = 0; i < found_count; i++)
	{
		if (found[i].key != NULL)
			take_extra_key(arena, found + i, found_count - i, &user->extra[user->extra_count++]);
		arena_checkpoint();
	}
}

bool
request_header_user(Arena *arena, const RequestHeaderNames *names, const HttpHeader *headers, size_t count, User *user)
{
	memset(user, 0, sizeof(*user));
	user->name = first_value(&names->username, headers, count);
	if (user->name == NULL)
		return false;
	user->uid = first_value(&names->uid, headers, count);
	take_groups(arena, &names->group, headers, count, user);
	take_extra(arena, &names->extra, headers, count, user);
	return true;
}

const char *
bearer_token(Arena *arena, const char *authorization, bool *spaced)
{
	const char *space;
	size_t		len;

	*spaced = false;
	while (isspace((unsigned char) *authorization))
		authorization++;
	space = strchr(authorization, ' ');
	if (space == NULL || space - authorization != 6 || strncasecmp(authorization, "bearer", 6) != 0)
		return NULL;
	len = strcspn(space + 1, " ");
	*spaced = len == 0 && space[1] == ' ';
	/* White space at the end belongs to the header, not to the token. */
	while (len > 0 && isspace((unsigned char) space[len]))
		len--;
	return len > 0 ? arena_strndup(arena, space + 1, len) : NULL;
}
