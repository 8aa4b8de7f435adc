/*-------------------------------------------------------------------------
 *
 * route.c
 *	  Parses method, path and query of a request into a struct.
 *
 * A path is split before it is decoded, so that an encoded slash can never
 * move a border between segments.  A path with an encoded slash is refused.
 *
 *-------------------------------------------------------------------------
 */
#include "http/route.h"

#include <string.h>
#include <strings.h>

#include "engine/base/ascii.h"
#include "engine/base/go_duration.h"
#include "engine/base/json_skip.h"
#include "engine/api/status.h"
#include "engine/base/utf8.h"

#define PATH_LIMIT 4096
#define QUERY_LIMIT (256 * 1024)
#define PARAMETER_LIMIT 200
#define NS_PER_MS 1000000
#define DAY_NS (INT64_C(86400) * 1000 * NS_PER_MS)
#define SEGMENT_LIMIT 12		/* more than any served path has */

static bool parse_path(Arena *arena, const char *path, const char **segments, size_t *count, const char **error);
static bool parse_query(Arena *arena, const char *query, Route *route, const char **error);
static void classify(Route *route, const char **segments, size_t count);

bool
route_parse(Arena *arena, const char *method, const char *path, const char *query, Route *route, const char **error)
{
	const char *segments[SEGMENT_LIMIT];
	const char *ignored;
	bool		path_read;
	size_t		count;
	StrBuf		decoded;

	memset(route, 0, sizeof(*route));
	route->method = arena_strdup(arena, method);
	route->verb = route->group = route->version = route->resource_name = "";
	route->namespace_name = route->name = route->subresource = "";
	route->path = "/";

	/* Parse the query even after a bad path, because the answer needs it. */
	path_read = parse_path(arena, path, segments, &count, error);
	if (!parse_query(arena, query, route, path_read ? error : &ignored) || !path_read)
		return false;

	strbuf_init(&decoded, arena);
	for (size_t i = 0; i < count; i++)
	{
		strbuf_putc(&decoded, '/');
		strbuf_puts(&decoded, foreign_bytes_replace(arena, segments[i]));
	}
	if (count > 0)
		route->path = decoded.bytes;
	classify(route, segments, count);
	return true;
}

/* Returns the same bytes, or a copy in which U+FFFD replaces bad UTF-8. */
static JsonText
valid_utf8(Arena *arena, const char *bytes, size_t len)
{
	JsonText	text = {bytes, len};
	StrBuf		copy;
	size_t		good = 0;

	while (good < len)
	{
		size_t		width = utf8_length(bytes + good, bytes + len);

		if (width == 0)
			break;
		good += width;
	}
	if (good == len)
		return text;

	strbuf_init(&copy, arena);
	for (size_t i = 0; i < len;)
	{
		size_t		width = utf8_length(bytes + i, bytes + len);

		if (width == 0)
		{
			strbuf_puts(&copy, "\xEF\xBF\xBD");
			i++;
		}
		else
		{
			strbuf_append(&copy, bytes + i, width);
			i += width;
		}
	}
	text.bytes = copy.bytes;
	text.len = copy.len;
	return text;
}

/* Percent-decodes; false when an escape is bad.  The result is NUL-terminated. */
static bool
decode_bytes(Arena *arena, const char *bytes, size_t len, bool plus_is_space, JsonText *text)
{
	char	   *copy = arena_alloc(arena, len + 1);
	size_t		out = 0;

	for (size_t i = 0; i < len; i++)
	{
		if (bytes[i] == '%')
		{
			int			high = len - i > 2 ? hex_digit(bytes[i + 1]) : -1;
			int			low = len - i > 2 ? hex_digit(bytes[i + 2]) : -1;

			if (high < 0 || low < 0)
				return false;
			copy[out++] = (char) (high * 16 + low);
			i += 2;
		}
		else
			copy[out++] = bytes[i] == '+' && plus_is_space ? ' ' : bytes[i];
	}
	copy[out] = '\0';
	*text = (JsonText) {copy, out};
	return true;
}

/* Does the same as decode_bytes(), and makes the result valid UTF-8. */
static bool
decode(Arena *arena, const char *bytes, size_t len, bool plus_is_space, JsonText *text)
{
	if (!decode_bytes(arena, bytes, len, plus_is_space, text))
		return false;
	*text = valid_utf8(arena, text->bytes, text->len);
	return true;
}

static bool
parse_path(Arena *arena, const char *path, const char **segments, size_t *count, const char **error)
{
	size_t		len = strlen(path);

	*count = 0;
	if (len > PATH_LIMIT)
	{
		*error = "the request path is too long";
		return false;
	}
	if (path[0] != '/')
	{
		*error = "the request path must begin with /";
		return false;
	}
	while (len > 0 && path[len - 1] == '/')
		len--;

	for (size_t at = 0; at < len;)
	{
		const char *begin = path + at + 1;
		const char *slash = memchr(begin, '/', len - at - 1);
		size_t		size = slash != NULL ? (size_t) (slash - begin) : len - at - 1;
		JsonText	text;

		at += size + 1;
		if (!decode_bytes(arena, begin, size, false, &text))
		{
			*error = "the request path has an invalid escape";
			return false;
		}
		if (memchr(text.bytes, '\0', text.len) != NULL)
		{
			*error = "the request path must not contain NUL";
			return false;
		}
		if (json_text_is(text, ".") || json_text_is(text, "..") || memchr(text.bytes, '/', text.len) != NULL ||
			memchr(text.bytes, '%', text.len) != NULL)
		{
			StrBuf		message;

			strbuf_init(&message, arena);
			strbuf_puts(&message, "Name parameter invalid: ");
			quote_text(&message, text.bytes, text.len);
			if (text.bytes[0] == '.' && text.len <= 2)
				strbuf_printf(&message, ": may not be '%s'", text.bytes);
			else
				strbuf_printf(&message, ": may not contain '%s'",
							  memchr(text.bytes, '/', text.len) != NULL ? "/" : "%");
			*error = message.bytes;
			return false;
		}

		/* Ignore segments after the last one stored: no served path is that deep. */
		if (*count < SEGMENT_LIMIT)
			segments[(*count)++] = foreign_bytes_encode(arena, text.bytes);
		arena_checkpoint();
	}
	return true;
}

static bool
parse_query(Arena *arena, const char *query, Route *route, const char **error)
{
	size_t		len = strlen(query);
	size_t		limit = 1;

	if (len > QUERY_LIMIT)
	{
		*error = "the query of the request is too long";
		return false;
	}
	for (size_t i = 0; i < len; i++)
		limit += query[i] == '&';
	if (limit > PARAMETER_LIMIT)
	{
		*error = "the query of the request has too many parameters";
		return false;
	}
	route->parameters = arena_alloc(arena, limit * sizeof(RouteParameter));

	for (const char *next = query; next < query + len;)
	{
		const char *end = memchr(next, '&', (size_t) (query + len - next));
		const char *equals;
		RouteParameter *parameter = &route->parameters[route->parameter_count];

		if (end == NULL)
			end = query + len;

		/* As in Go, a parameter with a raw semicolon is ignored. */
		if (end > next && memchr(next, ';', (size_t) (end - next)) == NULL)
		{
			equals = memchr(next, '=', (size_t) (end - next));
			if (!decode(arena, next, (size_t) ((equals != NULL ? equals : end) - next), true, &parameter->key) ||
				!decode(arena, equals != NULL ? equals + 1 : end, equals != NULL ? (size_t) (end - equals - 1) : 0,
						true, &parameter->value))
			{
				*error = "the query of the request has an invalid escape";
				return false;
			}
			if (memchr(parameter->key.bytes, '\0', parameter->key.len) != NULL ||
				memchr(parameter->value.bytes, '\0', parameter->value.len) != NULL)
			{
				*error = "the query of the request must not contain NUL";
				return false;
			}
			route->parameter_count++;
		}
		next = end + 1;
	}
	return true;
}

const JsonText *
route_parameter(const Route *route, const char *key)
{
	for (size_t i = 0; i < route->parameter_count; i++)
	{
		if (json_text_is(route->parameters[i].key, key))
			return &route->parameters[i].value;
	}
	return NULL;
}

/* Whether the query asks for a watch, as in RequestInfo: watch is present, and neither 0 nor false (ignoring case). */
static bool
asks_for_watch(const Route *route)
{
	const JsonText *watch = route_parameter(route, "watch");

	return watch != NULL && !json_text_is(*watch, "0") &&
		!(watch->len == strlen("false") && strncasecmp(watch->bytes, "false", watch->len) == 0);
}

static const char *
verb_of(const Route *route, bool watch)
{
	bool		named = route->name[0] != '\0';
	bool		get = strcmp(route->method, "GET") == 0;

	if (watch)
		return get && route->subresource[0] == '\0' ? "watch" : "";
	if (get && route->subresource[0] == '\0' && asks_for_watch(route))
		return "watch";
	if (get || strcmp(route->method, "HEAD") == 0)
		return named ? "get" : "list";
	if (strcmp(route->method, "POST") == 0)
		return "create";
	if (strcmp(route->method, "PUT") == 0)
		return "update";
	if (strcmp(route->method, "PATCH") == 0)
		return "patch";
	if (strcmp(route->method, "DELETE") == 0)
		return named ? "delete" : "deletecollection";
	return "";
}

/* Finds the parts of a path below /apis/<group>/<version> or /api/<version> (section 5.1). */
static void
classify(Route *route, const char **segments, size_t count)
{
	bool		legacy = count >= 1 && strcmp(segments[0], "api") == 0;
	bool		watch = false;
	bool		proxied = false;
	size_t		prefix = legacy ? 2 : 3;

	if (count <= prefix || (!legacy && strcmp(segments[0], "apis") != 0))
		return;

	/* An empty segment would shift the meaning of later segments: such a path is not a resource. */
	for (size_t i = 0; i < count; i++)
	{
		if (segments[i][0] == '\0')
			return;
	}
	route->group = legacy ? "" : segments[1];
	route->version = segments[prefix - 1];
	segments += prefix;
	count -= prefix;

	/*
	 * The path may begin with the verb watch or proxy.  This server does not offer the verb proxy, but asks for its
	 * authorization, as kube-apiserver does.
	 */
	if (count > 1)
	{
		watch = strcmp(segments[0], "watch") == 0;
		proxied = strcmp(segments[0], "proxy") == 0;
		segments += watch || proxied;
		count -= watch || proxied;
	}
	if (strcmp(segments[0], "namespaces") == 0 && count > 1)
	{
		/* The namespace of a namespace, and of its subresources, is that namespace itself. */
		route->namespace_name = segments[1];
		if (count > 2 && strcmp(segments[2], "status") != 0 && strcmp(segments[2], "finalize") != 0)
		{
			segments += 2;
			count -= 2;
		}
	}
	route->resource = true;
	route->resource_name = segments[0];
	if (count > 1)
		route->name = segments[1];
	if (count > 2 && !proxied)
		route->subresource = segments[2];
	route->watch_path = watch;
	route->overlong = count > 3;
	route->verb = proxied ? "proxy" : verb_of(route, watch);
}

bool
route_timeout(Arena *arena, const Route *route, uint64_t *milliseconds, const char **error)
{
	const JsonText *value = route_parameter(route, "timeout");
	int64_t		nanoseconds;

	*milliseconds = 0;
	if (value == NULL || value->len == 0)
		return true;
	if (!go_duration_parse(*value, &nanoseconds))
	{
		StrBuf		message;

		strbuf_init(&message, arena);
		strbuf_puts(&message, "invalid timeout specified in the request URL - time: invalid duration ");
		quote_text(&message, value->bytes, value->len);
		*error = message.bytes;
		return false;
	}

	/* kube-apiserver treats a timeout that is not positive as absent. */
	if (nanoseconds <= 0)
		return true;

	/* A day is longer than any limit that applies. */
	*milliseconds = (uint64_t) (nanoseconds > DAY_NS ? DAY_NS : nanoseconds) / NS_PER_MS;
	if (*milliseconds == 0)
		*milliseconds = 1;
	return true;
}

/* ---------- metadata.name of a body ---------- */

static void
skip_space(JsonSkip *scan)
{
	while (scan->next < scan->end &&
		   (*scan->next == ' ' || *scan->next == '\t' || *scan->next == '\n' || *scan->next == '\r'))
		scan->next++;
}

static bool
take(JsonSkip *scan, char c)
{
	skip_space(scan);
	if (scan->next == scan->end || *scan->next != c)
		return false;
	scan->next++;
	return true;
}

/* Reads a string literal.  text: the bytes between the quotes; *plain: whether they have no escapes. */
static bool
take_string(JsonSkip *scan, JsonText *text, bool *plain)
{
	skip_space(scan);
	if (scan->next == scan->end || *scan->next != '"' || !json_skip_string(scan, text))
		return false;
	*plain = memchr(text->bytes, '\\', text->len) == NULL;
	return true;
}

/*
 * Finds a member of an object; of equal keys the last one counts.  inner: the member is the name, which is read;
 * otherwise it is metadata, whose members are searched.
 */
static BodyName
scan_member(JsonSkip *scan, const char *wanted, bool inner, JsonText *name)
{
	BodyName	found = BODY_NAME_ABSENT;

	if (!take(scan, '{'))
		return BODY_NAME_UNKNOWN;
	if (take(scan, '}'))
		return found;
	do
	{
		JsonText	key;
		bool		plain;

		if (!take_string(scan, &key, &plain) || !plain || !take(scan, ':'))
			return BODY_NAME_UNKNOWN;
		skip_space(scan);
		if (!json_text_is(key, wanted))
		{
			if (!json_skip_value(scan))
				return BODY_NAME_UNKNOWN;
		}
		else if (inner)
		{
			if (!take_string(scan, name, &plain) || !plain)
				return BODY_NAME_UNKNOWN;
			found = name->len > 0 ? BODY_NAME_GIVEN : BODY_NAME_ABSENT;
		}
		else
		{
			found = scan_member(scan, "name", true, name);
			if (found == BODY_NAME_UNKNOWN)
				return found;
		}
	}
	while (take(scan, ','));
	return take(scan, '}') ? found : BODY_NAME_UNKNOWN;
}

BodyName
route_body_name(const char *body, size_t len, JsonText *name)
{
	JsonSkip	scan = {body, body + len};

	return scan_member(&scan, "metadata", false, name);
}
