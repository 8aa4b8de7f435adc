/*-------------------------------------------------------------------------
 *
 * request_header_fuzz.c
 *	  Fuzz target: the user in the headers of a front proxy, and bearer tokens.
 *
 * The input is: the names of headers as a flag has them (users, groups, uid
 * and extra, the same list for all), then as the ConfigMap has them, then
 * lines of headers, with the first colon between name and value.  Every part
 * of a user must come from a header of the right name.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

/* Every target links the document engine, but none links the proxy's files.  These need jansson alone. */
#include "base/name_list.c"
#include "codec/kube_json.c"
#include "trust/request_header.c"

#define HEADER_LIMIT 200

static bool
is_value(const HttpHeader *headers, size_t count, const char *value)
{
	for (size_t i = 0; i < count; i++)
	{
		if (headers[i].value == value)
			return true;
	}
	return false;
}

static void
check_user(const User *user, const HttpHeader *headers, size_t count)
{
	check(user->name[0] != '\0' && is_value(headers, count, user->name));
	check(user->uid == NULL || (user->uid[0] != '\0' && is_value(headers, count, user->uid)));
	for (size_t i = 0; i < user->group_count; i++)
		check(user->groups[i][0] != '\0' && is_value(headers, count, user->groups[i]));
	for (size_t i = 0; i < user->extra_count; i++)
	{
		check(user->extra[i].value_count > 0);
		for (size_t k = 0; k < user->extra[i].value_count; k++)
			check(is_value(headers, count, user->extra[i].values[k]));
		for (size_t k = 0; k < i; k++)
			check(strcmp(user->extra[i].key, user->extra[k].key) != 0);
	}
}

static void
check_list(const NameList *list)
{
	for (size_t i = 0; i < list->count; i++)
		check(list->names[i][0] != '\0' && name_list_has(list, list->names[i]));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *next = (const char *) bytes;
	size_t		left = size;
	HttpHeader	headers[HEADER_LIMIT];
	size_t		count = 0;
	NameList	split;
	NameList	parsed;
	Arena		arena;

	arena_init(&arena);
	if (!name_list_split(&arena, take_line(&arena, &next, &left), &split))
		split.count = 0;
	check_list(&split);
	if (!request_header_list(&arena, take_line(&arena, &next, &left), &parsed))
		parsed.count = 0;
	check_list(&parsed);
	while (left > 0 && count < HEADER_LIMIT)
	{
		const char *line = take_line(&arena, &next, &left);
		const char *colon = strchr(line, ':');
		const char *value = colon != NULL ? colon + 1 : line;
		const char *token;
		bool		spaced;

		headers[count].name = colon != NULL ? arena_strndup(&arena, line, (size_t) (colon - line)) : "";
		headers[count++].value = value;
		token = bearer_token(&arena, value, &spaced);
		check(token == NULL || (token[0] != '\0' && strpbrk(token, " \n") == NULL && !spaced &&
								strstr(value, token) != NULL));
	}
	for (int i = 0; i < 2; i++)
	{
		NameList	list = i == 0 ? split : parsed;
		RequestHeaderNames names = {list, list, list, list};
		User		user;

		if (request_header_user(&arena, &names, headers, count, &user))
			check_user(&user, headers, count);
		else
			check(user.name == NULL);
	}
	arena_free(&arena);
	return 0;
}
