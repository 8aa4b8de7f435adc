/*-------------------------------------------------------------------------
 *
 * metadata_names.c
 *	  Names of objects, namespaces, labels and finalizers.
 *
 * For an invalid name, the functions return upstream's messages.  Checks and
 * messages never disagree, because both use the same match.
 *
 * Reference: k8s-conformance CRE-03, CRE-05, CRE-08.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/metadata_private.h"

#include <string.h>

#define LABEL_MAX 63
#define SUBDOMAIN_MAX 253
#define GENERATED_PREFIX_MAX 58

#define DNS_LABEL "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define DNS_LABEL_WORDS \
	"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start " \
	"and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '" \
	DNS_LABEL "')"
#define DNS_SUBDOMAIN_WORDS \
	"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start " \
	"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '" \
	DNS_LABEL "(\\." DNS_LABEL ")*')"
#define NAME_PART "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
#define NAME_PART_WORDS \
	"must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric " \
	"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '" NAME_PART "')"
#define LABEL_VALUE_WORDS \
	"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start " \
	"and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for " \
	"validation is '(" NAME_PART ")?')"

static bool
is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool
is_alnum(char c)
{
	return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

/* Matches a DNS label, or several joined by dots, of any length. */
static bool
matches_dns(JsonText text, bool dots)
{
	if (text.len == 0)
		return false;
	for (size_t i = 0; i < text.len; i++)
	{
		char		c = text.bytes[i];
		bool		edge = i == 0 || i + 1 == text.len ||
		text.bytes[i - 1] == '.' || text.bytes[i + 1] == '.';

		if (is_lower_alnum(c))
			continue;
		if (edge || !(c == '-' || (c == '.' && dots)))
			return false;
	}
	return true;
}

/* A short list of messages, ended by NULL. */
typedef struct MessageList
{
	const char *messages[6];
	int			count;
} MessageList;

static const char *const *
message_list(Arena *arena, const MessageList *list)
{
	const char **copy;

	if (list->count == 0)
		return NULL;
	copy = arena_alloc(arena, (list->count + 1) * sizeof(*copy));
	for (int i = 0; i < list->count; i++)
		copy[i] = list->messages[i];
	copy[list->count] = NULL;
	return copy;
}

static void
subdomain_messages(MessageList *list, JsonText text, const char *too_long, const char *pattern)
{
	if (text.len > SUBDOMAIN_MAX)
		list->messages[list->count++] = too_long;
	if (!matches_dns(text, true))
		list->messages[list->count++] = pattern;
}

const char *const *
subdomain_errors(Arena *arena, JsonText text)
{
	MessageList list = {.count = 0};

	subdomain_messages(&list, text, "must be no more than 253 characters", DNS_SUBDOMAIN_WORDS);
	return message_list(arena, &list);
}

const char *const *
namespace_errors(Arena *arena, JsonText text)
{
	MessageList list = {.count = 0};

	if (text.len > LABEL_MAX)
		list.messages[list.count++] = "must be no more than 63 characters";
	if (!matches_dns(text, false))
		list.messages[list.count++] = matches_dns(text, true) ? "must not contain dots" : DNS_LABEL_WORDS;
	return message_list(arena, &list);
}

bool
is_dns1123_label(JsonText text)
{
	return text.len <= LABEL_MAX && matches_dns(text, false);
}

bool
is_dns1123_subdomain(JsonText text)
{
	return text.len <= SUBDOMAIN_MAX && matches_dns(text, true);
}

/* Matches the name part of a label key, of any length. */
static bool
matches_name_part(JsonText text)
{
	if (text.len == 0 || !is_alnum(text.bytes[0]) || !is_alnum(text.bytes[text.len - 1]))
		return false;
	for (size_t i = 0; i < text.len; i++)
	{
		char		c = text.bytes[i];

		if (!is_alnum(c) && c != '-' && c != '_' && c != '.')
			return false;
	}
	return true;
}

const char *const *
qualified_name_errors(Arena *arena, JsonText key)
{
	MessageList list = {.count = 0};
	const char *slash = key.len > 0 ? memchr(key.bytes, '/', key.len) : NULL;
	JsonText	name = key;

	if (slash != NULL)
	{
		JsonText	prefix = {key.bytes, (size_t) (slash - key.bytes)};

		name.bytes = slash + 1;
		name.len = key.len - prefix.len - 1;
		if (name.len > 0 && memchr(name.bytes, '/', name.len) != NULL)
		{
			list.messages[list.count++] = "a valid label key " NAME_PART_WORDS
				" with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
			return message_list(arena, &list);
		}
		if (prefix.len == 0)
			list.messages[list.count++] = "prefix part must be non-empty";
		else
			subdomain_messages(&list, prefix, "prefix part must be no more than 253 bytes",
							   "prefix part " DNS_SUBDOMAIN_WORDS);
	}
	if (name.len == 0)
		list.messages[list.count++] = "name part must be non-empty";
	else if (name.len > LABEL_MAX)
		list.messages[list.count++] = "name part must be no more than 63 bytes";
	if (!matches_name_part(name))
		list.messages[list.count++] = "name part " NAME_PART_WORDS;
	return message_list(arena, &list);
}

const char *const *
label_value_errors(Arena *arena, JsonText value)
{
	MessageList list = {.count = 0};

	if (value.len > LABEL_MAX)
		list.messages[list.count++] = "must be no more than 63 bytes";
	if (value.len > 0 && !matches_name_part(value))
		list.messages[list.count++] = LABEL_VALUE_WORDS;
	return message_list(arena, &list);
}

char *
metadata_generate_name(Arena *arena, const char *prefix, const uint8_t random[5])
{
	static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
	size_t		len = strlen(prefix);
	char	   *name;

	if (len > GENERATED_PREFIX_MAX)
		len = GENERATED_PREFIX_MAX;
	name = arena_alloc(arena, len + 6);
	memcpy(name, prefix, len);
	for (int i = 0; i < 5; i++)
		name[len + i] = alphabet[random[i] % (sizeof(alphabet) - 1)];
	name[len + 5] = '\0';
	return name;
}
