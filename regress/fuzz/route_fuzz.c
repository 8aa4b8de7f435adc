/*-------------------------------------------------------------------------
 *
 * route_fuzz.c
 *	  Fuzz target: the request line, and the name in a body.
 *
 * The input is a method, a path, a query and a body, each ended by a newline
 * but for the last; absent lines are empty.  An accepted request is safe to
 * pass on: no segment is "." or ".." or can be split again, nothing is longer
 * than the input, all of it is valid UTF-8.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/api/status.h"

/*
 * Every target links the document engine, but none links the proxy's files.  This one needs no library.
 */
#include "engine/base/utf8.h"
#include "http/route.c"

static void
check_text(JsonText text)
{
	uint32_t	rune;
	size_t		width;

	for (size_t i = 0; i < text.len; i += width)
	{
		width = utf8_decode(text.bytes + i, text.len - i, &rune);
		check(width > 0);
	}
}

static void
check_segment(const char *segment)
{
	JsonText	text = {segment, strlen(segment)};

	check_text(text);
	check(strcmp(segment, ".") != 0 && strcmp(segment, "..") != 0);
	check(strpbrk(segment, "/%") == NULL);
}

static void
check_route(Arena *arena, const Route *route)
{
	static const char *const verbs[] = {
		"", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy"
	};
	bool		known = false;
	const char *error = NULL;
	uint64_t	timeout;

	check(route->path[0] == '/');
	check_segment(route->group);
	check_segment(route->version);
	check_segment(route->resource_name);
	check_segment(route->namespace_name);
	check_segment(route->name);
	check_segment(route->subresource);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		known = known || strcmp(route->verb, verbs[i]) == 0;
	check(known);

	/* A route without a resource has no parts of one. */
	check(route->resource == (route->resource_name[0] != '\0'));
	check(route->resource || route->name[0] == '\0');
	check(route->name[0] != '\0' || route->subresource[0] == '\0');
	/* A path that names an object never deletes a collection. */
	check(strcmp(route->verb, "deletecollection") != 0 ||
		  (route->name[0] == '\0' && strcmp(route->method, "DELETE") == 0));

	for (size_t i = 0; i < route->parameter_count; i++)
	{
		check_text(route->parameters[i].key);
		check_text(route->parameters[i].value);
	}
	if (route_timeout(arena, route, &timeout, &error))
		check(timeout <= 86400000);
	else
		check(error != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *next = (const char *) bytes;
	size_t		left = size;
	const char *method;
	const char *path;
	const char *query;
	const char *error = NULL;
	JsonText	name;
	Route		route;
	Arena		arena;

	arena_init(&arena);
	method = take_line(&arena, &next, &left);
	path = take_line(&arena, &next, &left);
	query = take_line(&arena, &next, &left);
	if (route_parse(&arena, method, path, query, &route, &error))
		check_route(&arena, &route);
	else
		check(error != NULL);

	/* The found name stands in the body unchanged. */
	if (route_body_name(next, left, &name) == BODY_NAME_GIVEN)
		check(name.len > 0 && name.bytes > next && name.bytes + name.len < next + left &&
			  memchr(name.bytes, '\\', name.len) == NULL);
	arena_free(&arena);
	return 0;
}
