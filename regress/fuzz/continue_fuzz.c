/*-------------------------------------------------------------------------
 *
 * continue_fuzz.c
 *	  Fuzz target: continue tokens.
 *
 * The input is a token, or the contents of a token (starting with a brace),
 * or a namespace, a newline and a name to make a token from.  An accepted
 * token names a place within the listing, and a token made here is always
 * accepted.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/api/metadata.h"
#include "engine/api/request.h"

/* Reads a token in a listing; false when it is refused. */
static bool
read_token(Arena *arena, JsonText token, bool namespaced, const char *root_namespace, ListOptions *options)
{
	JsonNode   *query = json_new_object(arena);
	JsonNode   *values = json_new_array(arena);
	ApiRequest	request = {
		.verb = "list", .group = "", .version = "", .resource = "", .namespace_name = root_namespace, .name = "",
		.subresource = "", .accept = "", .content_type = "", .user_agent = "", .username = "", .query = query
	};
	StrBuf		reply;
	int			code = 0;

	json_append(arena, values, json_new_string(arena, token.bytes, token.len));
	json_set(arena, query, "continue", values);
	strbuf_init(&reply, arena);
	if (request_list_options(arena, &request, namespaced, false, options, &code, &reply))
		return true;
	check(code == 400 && reply.len > 0);
	return false;
}

static void
check_token(Arena *arena, JsonText token, bool namespaced, const char *root_namespace)
{
	bool		with_namespace = namespaced && root_namespace[0] == '\0';
	ListOptions options;
	ListOptions again;
	char	   *made;

	if (!read_token(arena, token, namespaced, root_namespace, &options) || !options.has_continue)
		return;
	check(options.continue_version > 0 || options.continue_version == -1);
	check(options.continue_name[0] != '\0' && strchr(options.continue_name, '/') == NULL);
	check((options.continue_namespace[0] != '\0') == with_namespace);

	made = continue_token(arena, options.continue_version, namespaced, root_namespace,
						  options.continue_namespace, options.continue_name);
	check(read_token(arena, (JsonText) {made, strlen(made)}, namespaced, root_namespace, &again));
	check(again.continue_version == options.continue_version);
	check(strcmp(again.continue_namespace, options.continue_namespace) == 0);
	check(strcmp(again.continue_name, options.continue_name) == 0);
}

static void
check_names(Arena *arena, JsonText namespace_name, JsonText name)
{
	ListOptions options;
	const char *space;
	const char *last;
	char	   *made;

	if (!is_dns1123_label(namespace_name) || !is_dns1123_subdomain(name))
		return;
	space = arena_strndup(arena, namespace_name.bytes, namespace_name.len);
	last = arena_strndup(arena, name.bytes, name.len);
	made = continue_token(arena, 42, true, "", space, last);
	check(read_token(arena, (JsonText) {made, strlen(made)}, true, "", &options));
	check(strcmp(options.continue_namespace, space) == 0 && strcmp(options.continue_name, last) == 0);
	check(!read_token(arena, (JsonText) {made, strlen(made)}, true, space, &options));
	check(!read_token(arena, (JsonText) {made, strlen(made)}, false, "", &options));
}

/* Writes text as base64url, so that mutations of a corpus reach the contents of a token. */
static JsonText
encode(Arena *arena, const char *bytes, size_t size)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	StrBuf		buf;
	uint32_t	bits = 0;
	int			held = 0;

	strbuf_init(&buf, arena);
	for (size_t i = 0; i < size; i++)
	{
		bits = (bits << 8) | (unsigned char) bytes[i];
		for (held += 8; held >= 6; held -= 6)
			strbuf_putc(&buf, digits[(bits >> (held - 6)) & 63]);
	}
	if (held > 0)
		strbuf_putc(&buf, digits[(bits << (6 - held)) & 63]);
	return (JsonText) {buf.bytes, buf.len};
}

int
LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	const char *bytes = (const char *) input;
	const char *newline = size > 0 ? memchr(bytes, '\n', size) : NULL;
	JsonText	token = {bytes, size};
	Arena		arena;

	arena_init(&arena);
	if (newline != NULL)
		check_names(&arena, (JsonText) {bytes, (size_t) (newline - bytes)},
					(JsonText) {newline + 1, size - (size_t) (newline + 1 - bytes)});
	else if (size > 0)
	{
		if (bytes[0] == '{')
			token = encode(&arena, bytes, size);
		check_token(&arena, token, true, "");
		check_token(&arena, token, true, "default");
		check_token(&arena, token, false, "");
	}
	arena_free(&arena);
	return 0;
}
