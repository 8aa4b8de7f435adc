/*-------------------------------------------------------------------------
 *
 * request_fuzz.c
 *	  Fuzz target: requests as the proxy passes them to the extension.
 *
 * The input is a request.  For any header and options, the format of the
 * answer is negotiated or the request is refused with a Status.  Negotiated
 * options survive being written as a token.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/api/request.h"

static void
check_refusal(Arena *arena, int code, const StrBuf *reply)
{
	JsonError	error;
	const JsonNode *status = json_parse(arena, reply->bytes, reply->len, NULL, NULL, &error);

	check(status != NULL && json_string_is(json_get(status, "kind"), "Status"));
	check(json_get(status, "code")->u.integer == code && code >= 400);
	check(reply->bytes[reply->len - 1] == '\n');
}

static void
check_negotiation(Arena *arena, const ApiRequest *request, bool list, bool watch)
{
	Transform	transform;
	Transform	again;
	StrBuf		reply;
	const char *token;
	int			code = 0;

	strbuf_init(&reply, arena);
	if (!request_negotiate(arena, request, list, watch, &transform, &code, &reply))
	{
		check_refusal(arena, code, &reply);
		return;
	}
	token = transform_token(arena, &transform);
	check(transform_parse(token, &again));
	check(strcmp(transform_token(arena, &again), token) == 0);
	check(!(watch && transform.pretty));
}

static void
check_options(Arena *arena, const ApiRequest *request, bool namespaced, bool watch)
{
	ListOptions options;
	StrBuf		reply;
	int			code = 0;

	strbuf_init(&reply, arena);
	if (!request_list_options(arena, request, namespaced, watch, &options, &code, &reply))
	{
		check_refusal(arena, code, &reply);
		return;
	}
	check(options.limit >= 0 && options.version >= 0 && options.timeout_seconds >= 0);
	check(!(options.initial_events && options.from_now));
	check(!options.initial_bookmark || (options.initial_events && options.bookmarks));
	check(watch || !(options.initial_events || options.from_now));
	check(!(watch && options.has_continue));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	ApiRequest	request;
	Transform	transform;
	Arena		arena;

	arena_init(&arena);
	transform_parse(arena_strndup(&arena, (const char *) bytes, size), &transform);
	if (request_parse(&arena, (const char *) bytes, size, &request))
	{
		check(request.verb[0] != '\0');
		for (int i = 0; i < 4; i++)
		{
			check_negotiation(&arena, &request, (i & 1) != 0, (i & 2) != 0);
			check_options(&arena, &request, (i & 1) != 0, (i & 2) != 0);
		}
	}
	arena_free(&arena);
	return 0;
}
