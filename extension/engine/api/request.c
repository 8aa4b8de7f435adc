/*-------------------------------------------------------------------------
 *
 * request.c
 *	  A request of the Kubernetes API as the proxy passes it.
 *
 * No string of a parsed request holds a NUL: other code uses them as C
 * strings, and a name or selector that a NUL cuts short would select other
 * objects than the client named.
 *
 * Reference: k8s-conformance section 7.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/request.h"

#include <string.h>

#include "engine/base/ascii.h"

static const char *const known_verbs[] = {
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"
};

static bool
has_nul(JsonText text)
{
	return text.len > 0 && memchr(text.bytes, '\0', text.len) != NULL;
}

/* Takes a member that is a string or absent. */
static bool
take_string(Arena *arena, const JsonNode *object, const char *key, const char **value)
{
	const JsonNode *node = json_get(object, key);

	*value = "";
	if (node == NULL)
		return true;
	if (node->kind != JSON_KIND_STRING || has_nul(node->u.string))
		return false;
	*value = arena_strndup(arena, node->u.string.bytes, node->u.string.len);
	return true;
}

static bool
is_strings(const JsonNode *values)
{
	if (values->kind != JSON_KIND_ARRAY)
		return false;
	for (size_t i = 0; i < values->u.array.count; i++)
		if (values->u.array.items[i]->kind != JSON_KIND_STRING || has_nul(values->u.array.items[i]->u.string))
			return false;
	return true;
}

static bool
check_query(const JsonNode *query)
{
	if (query->kind != JSON_KIND_OBJECT)
		return false;
	for (size_t i = 0; i < query->u.object.count; i++)
		if (!is_strings(query->u.object.members[i].value))
			return false;
	return true;
}

bool
request_read(Arena *arena, const JsonNode *root, ApiRequest *request)
{
	const JsonNode *user = json_get(root, "user");
	const JsonNode *may_create = json_get(root, "mayCreate");
	bool		known = false;

	if (root == NULL || root->kind != JSON_KIND_OBJECT || (user != NULL && user->kind != JSON_KIND_OBJECT) ||
		(may_create != NULL && may_create->kind != JSON_KIND_BOOL))
		return false;
	request->may_create = may_create == NULL || may_create->u.boolean;
	if (!take_string(arena, root, "verb", &request->verb) ||
		!take_string(arena, root, "group", &request->group) ||
		!take_string(arena, root, "version", &request->version) ||
		!take_string(arena, root, "resource", &request->resource) ||
		!take_string(arena, root, "namespace", &request->namespace_name) ||
		!take_string(arena, root, "name", &request->name) ||
		!take_string(arena, root, "subresource", &request->subresource) ||
		!take_string(arena, root, "accept", &request->accept) ||
		!take_string(arena, root, "contentType", &request->content_type) ||
		!take_string(arena, root, "userAgent", &request->user_agent) ||
		!take_string(arena, root, "decodeError", &request->decode_error) ||
		!take_string(arena, root, "namespaceState", &request->namespace_state) ||
		!take_string(arena, root, "createDenial", &request->create_denial) ||
		!take_string(arena, user, "username", &request->username))
		return false;
	for (size_t i = 0; i < sizeof(known_verbs) / sizeof(known_verbs[0]) && !known; i++)
		known = strcmp(request->verb, known_verbs[i]) == 0;
	request->query = json_get(root, "query");
	request->duplicates = json_get(root, "duplicates");
	return known && (request->query == NULL || check_query(request->query)) &&
		(request->duplicates == NULL || is_strings(request->duplicates));
}

bool
request_parse(Arena *arena, const char *text, size_t len, ApiRequest *request)
{
	JsonError	error;

	return request_read(arena, json_parse(arena, text, len, NULL, NULL, &error), request);
}

const char *
request_query(Arena *arena, const ApiRequest *request, const char *key)
{
	const JsonNode *values = json_get(request->query, key);

	if (values == NULL || values->u.array.count == 0)
		return NULL;
	return arena_strndup(arena, values->u.array.items[0]->u.string.bytes,
						 values->u.array.items[0]->u.string.len);
}

bool
request_query_bool(Arena *arena, const ApiRequest *request, const char *key)
{
	const char *value = request_query(arena, request, key);

	return value != NULL && strcmp(value, "0") != 0 && !(strlen(value) == 5 && ascii_same(value, "false", 5));
}

/* Go's message for a text that is not a number or is out of range. */
static const char *
number_error(Arena *arena, const char *function, const char *text, bool out_of_range)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	strbuf_printf(&buf, "strconv.%s: parsing ", function);
	quote_text(&buf, text, strlen(text));
	strbuf_puts(&buf, out_of_range ? ": value out of range" : ": invalid syntax");
	return buf.bytes;
}

bool
parse_go_int(Arena *arena, const char *text, int64_t *value, const char **error)
{
	const char *p = text;
	bool		negative = *p == '-';
	uint64_t	magnitude = 0;
	uint64_t	limit = negative ? (uint64_t) INT64_MAX + 1 : (uint64_t) INT64_MAX;
	bool		too_large = false;

	if (*p == '-' || *p == '+')
		p++;
	if (*p == '\0')
	{
		*error = number_error(arena, "ParseInt", text, false);
		return false;
	}
	for (; *p != '\0'; p++)
	{
		unsigned	digit = (unsigned) (*p - '0');

		if (*p < '0' || *p > '9')
		{
			*error = number_error(arena, "ParseInt", text, false);
			return false;
		}
		if (magnitude > (limit - digit) / 10)
			too_large = true;
		else
			magnitude = magnitude * 10 + digit;
	}
	if (too_large)
	{
		*error = number_error(arena, "ParseInt", text, true);
		return false;
	}
	*value = negative ? (int64_t) (0 - magnitude) : (int64_t) magnitude;
	return true;
}

bool
parse_go_version(Arena *arena, const char *text, int64_t *value, const char **error)
{
	uint64_t	version = 0;
	bool		too_large = false;

	if (text[0] == '\0')
	{
		*error = number_error(arena, "ParseUint", text, false);
		return false;
	}
	for (const char *p = text; *p != '\0'; p++)
	{
		unsigned	digit = (unsigned) (*p - '0');

		if (*p < '0' || *p > '9')
		{
			*error = number_error(arena, "ParseUint", text, false);
			return false;
		}
		if (version > (UINT64_MAX - digit) / 10)
			too_large = true;
		else
			version = version * 10 + digit;
	}
	if (too_large)
	{
		*error = number_error(arena, "ParseUint", text, true);
		return false;
	}

	/* No object has a version beyond int64: the largest int64 means "in the future". */
	*value = version > (uint64_t) INT64_MAX ? INT64_MAX : (int64_t) version;
	return true;
}
