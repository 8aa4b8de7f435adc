/*-------------------------------------------------------------------------
 *
 * export_fuzz.c
 *	  Fuzz target: requests for exports.
 *
 * The input is a path, a query and an Accept header, each on a line.  For any
 * query, the request to the database asks for what the path names, and is
 * JSON of the form that api_export() reads.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

/* As in route_fuzz.c: these files of the proxy need no library. */
#include "http/route.c"
#include "api/policy_reporter.c"
#include "api/export_request.c"

/* The path, put together again from the parts that the request has. */
static void
check_reporter(Arena *arena, const Route *route, const JsonNode *request)
{
	const char *only = json_get_cstring(arena, request, "namespace");
	const char *cluster = json_get_cstring(arena, request, "cluster");
	const char *argument = json_get_cstring(arena, request, "argument");
	const char *begin = "/v1/policy-reporter/";
	bool		found = false;

	if (cluster != NULL)
		begin = arena_printf(arena, "%sclusters/%s/", begin, cluster);
	if (only != NULL)
		begin = arena_printf(arena, "%snamespaces/%s/", begin, only);
	check(strncmp(route->path, begin, strlen(begin)) == 0);
	for (size_t i = 0; i < sizeof(reporter_routes) / sizeof(reporter_routes[0]); i++)
	{
		const char *pattern = reporter_routes[i].pattern;
		const char *star = strchr(pattern, '*');
		const char *rest = route->path + strlen(begin);

		if (strcmp(json_get_cstring(arena, request, "answer"), reporter_routes[i].answer) != 0 ||
			(star != NULL) != (argument != NULL))
			continue;
		if (star == NULL)
			found |= strcmp(rest, pattern) == 0;
		else
			found |= strcmp(rest, arena_printf(arena, "%.*s%s%s", (int) (star - pattern), pattern, argument,
											   star + 1)) == 0;
	}
	check(found);
}

static void
check_request(Arena *arena, const Route *route, JsonText text)
{
	static const char whole[] = "/v1/export/";
	static const char part[] = "/v1/export/namespaces/";
	JsonError	error;
	const JsonNode *request = json_parse(arena, text.bytes, text.len, NULL, NULL, &error);
	const char *what = json_get_cstring(arena, request, "what");
	const char *format = json_get_cstring(arena, request, "format");
	const char *only = json_get_cstring(arena, request, "namespace");

	check(request != NULL && json_get(request, "filter") != NULL);
	if (strcmp(what, "policy-reporter") == 0)
	{
		check(strcmp(format, "json") == 0);
		check_reporter(arena, route, request);
		return;
	}
	check(strcmp(what, "results") == 0 || strcmp(what, "events") == 0);
	check(strcmp(format, "jsonl") == 0 || strcmp(format, "csv") == 0);
	if (strncmp(route->path, part, sizeof(part) - 1) == 0)
		check(strcmp(route->path, arena_printf(arena, "%s%s/%s", part, only, what)) == 0);
	else
		check(only == NULL && strcmp(route->path, arena_printf(arena, "%s%s", whole, what)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *next = (const char *) bytes;
	size_t		left = size;
	const char *path;
	const char *query;
	const char *accept;
	const char *error = NULL;
	Route		route;
	Arena		arena;

	arena_init(&arena);
	path = take_line(&arena, &next, &left);
	query = take_line(&arena, &next, &left);
	accept = take_line(&arena, &next, &left);
	if (route_parse(&arena, "GET", path, query, &route, &error) && !route.resource && export_path(route.path))
	{
		const char *why = NULL;
		int			code = 0;
		JsonText	text = export_request(&arena, &route, accept[0] != '\0' ? accept : NULL, NULL, &code,
										  &why);

		if (text.bytes != NULL)
			check_request(&arena, &route, text);
		else
			check((code == 400 || code == 406) && why != NULL);
	}
	arena_free(&arena);
	return 0;
}
