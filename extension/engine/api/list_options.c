/*-------------------------------------------------------------------------
 *
 * list_options.c
 *	  The options of lists and watches, and continue tokens.
 *
 * Accepted options are complete: all defaults are filled in, and all selectors
 * are valid.  A token names a place inside the list that returned the token;
 * with it, no client reads another namespace.
 *
 * Reference: k8s-conformance LIST-10 to LIST-13, PAGE-01 to PAGE-06, sections
 * 10, 15.2 and 15.7.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/request.h"

#include <string.h>

#include "engine/api/selector.h"
#include "engine/base/base64.h"

#define TOKEN_VERSION "meta.k8s.io/v1"
#define TOKEN_BROKEN "continue key is not valid"

/* No valid token is longer: two names of 253 bytes need much less. */
#define TOKEN_MAX 4096

/* The timeout of a watch is an SQL integer, in seconds. */
#define TIMEOUT_MAX INT32_MAX

/*
 * Continue tokens
 */

char *
continue_token(Arena *arena, int64_t version, bool namespaced, const char *root_namespace,
			   const char *last_namespace, const char *last_name)
{
	StrBuf		start;
	StrBuf		json;

	strbuf_init(&start, arena);
	if (namespaced && root_namespace[0] == '\0')
	{
		strbuf_puts(&start, last_namespace);
		strbuf_putc(&start, '/');
	}
	strbuf_puts(&start, last_name);
	strbuf_putc(&start, '\0');

	strbuf_init(&json, arena);
	strbuf_printf(&json, "{\"v\":\"" TOKEN_VERSION "\",\"rv\":%lld,\"start\":", (long long) version);
	json_write_string(&json, start.bytes, start.len);
	strbuf_putc(&json, '}');
	return base64url_encode(arena, (JsonText) {json.bytes, json.len});
}

/* Whether Go's path.Clean would leave "/" + text as it is. */
static bool
is_clean_path(JsonText text)
{
	size_t		begin = 0;

	for (size_t i = 0; i <= text.len; i++)
	{
		size_t		len = i - begin;

		if (i < text.len && text.bytes[i] != '/')
			continue;
		if (len == 0 || (len == 1 && text.bytes[begin] == '.') ||
			(len == 2 && text.bytes[begin] == '.' && text.bytes[begin + 1] == '.'))
			return false;
		begin = i + 1;
	}
	return true;
}

/*
 * Turns a start key into the last key returned.  A start key has as many
 * parts as the keys of the listing.  continue_token() ends it with a NUL,
 * which means the place directly behind a key.  Without a NUL, it is the
 * first key to return.  The key before it is unknown; instead the function
 * decrements the last byte and appends '~', which sorts behind all bytes of
 * names.  No name sorts between the two.
 */
static bool
take_start(Arena *arena, JsonText start, bool with_namespace, ListOptions *options)
{
	const char *slash;
	JsonText	name;

	if (start.len > 0 && start.bytes[0] == '/')
	{
		start.bytes++;
		start.len--;
	}
	if (!is_clean_path(start))
		return false;
	name = start;
	if (start.bytes[start.len - 1] == '\0')
		name.len--;
	if (name.len == 0 || memchr(name.bytes, '\0', name.len) != NULL)
		return false;
	if (name.len == start.len)
	{
		char	   *before = arena_printf(arena, "%.*s~", (int) start.len, start.bytes);
		char	   *last = &before[start.len - 1];

		if (*last <= ' ' || *last > '~')
			return false;
		/* No key part has a slash in it. */
		*last -= *last == '/' + 1 ? 2 : 1;
		name.bytes = before;
		name.len++;
	}
	slash = memchr(name.bytes, '/', name.len);
	if ((slash != NULL) != with_namespace)
		return false;
	options->continue_namespace = "";
	if (slash != NULL)
	{
		size_t		len = (size_t) (slash - name.bytes);

		options->continue_namespace = arena_strndup(arena, name.bytes, len);
		name.bytes += len + 1;
		name.len -= len + 1;
		if (name.len == 0 || memchr(name.bytes, '/', name.len) != NULL)
			return false;
	}
	options->continue_name = arena_strndup(arena, name.bytes, name.len);
	return true;
}

/* The member if it is present and not null, otherwise NULL: Go's decoder ignores null. */
static const JsonNode *
given_member(const JsonNode *object, const char *key)
{
	const JsonNode *node = json_get(object, key);

	return node != NULL && node->kind != JSON_KIND_NULL ? node : NULL;
}

/* Reads a token into the options.  Returns NULL, or the reason why the token is invalid. */
static const char *
take_token(Arena *arena, const char *token, bool with_namespace, ListOptions *options)
{
	static const char wrong_type[] = TOKEN_BROKEN ": json: cannot unmarshal %s into Go %s";
	size_t		wrong;
	JsonText	text;
	JsonError	error;
	const JsonNode *root;
	const JsonNode *version;
	const JsonNode *rv;
	const JsonNode *start;

	if (strlen(token) > TOKEN_MAX)
		return TOKEN_BROKEN ": token is too long";
	if (!base64url_decode(arena, (JsonText) {token, strlen(token)}, &text, &wrong))
		return arena_printf(arena, TOKEN_BROKEN ": illegal base64 data at input byte %zu", wrong);
	root = json_parse(arena, text.bytes, text.len, NULL, NULL, &error);
	if (root == NULL)
		return arena_printf(arena, TOKEN_BROKEN ": %s", error.message);
	if (root->kind != JSON_KIND_OBJECT)
		return arena_printf(arena, wrong_type, json_go_kind_name(root->kind), "value of type storage.continueToken");

	version = given_member(root, "v");
	rv = given_member(root, "rv");
	start = given_member(root, "start");
	if (version != NULL && version->kind != JSON_KIND_STRING)
		return arena_printf(arena, wrong_type, json_go_kind_name(version->kind),
							"struct field continueToken.v of type string");
	if (rv != NULL && rv->kind != JSON_KIND_INTEGER)
		return arena_printf(arena, wrong_type, json_go_number_name(arena, rv),
							"struct field continueToken.rv of type int64");
	if (start != NULL && start->kind != JSON_KIND_STRING)
		return arena_printf(arena, wrong_type, json_go_kind_name(start->kind),
							"struct field continueToken.start of type string");

	if (!json_string_is(version, TOKEN_VERSION))
		return arena_printf(arena, TOKEN_BROKEN ": server does not recognize this encoded version %s",
							version != NULL ? json_get_cstring(arena, root, "v") : "");
	if (rv == NULL || rv->u.integer == 0)
		return TOKEN_BROKEN ": incorrect encoded start resourceVersion (version " TOKEN_VERSION ")";
	if (start == NULL || start->u.string.len == 0)
		return TOKEN_BROKEN ": encoded start key empty (version " TOKEN_VERSION ")";
	if (!take_start(arena, start->u.string, with_namespace, options))
		return arena_printf(arena, TOKEN_BROKEN ": %s", json_get_cstring(arena, root, "start"));

	options->has_continue = true;
	options->continue_version = rv->u.integer > 0 ? rv->u.integer : -1;
	return NULL;
}

/*
 * Options
 */

/* The parameters as received; "" when absent. */
typedef struct RawOptions
{
	const char *version;
	const char *match;
	const char *token;
	bool		bookmarks;
	bool		sends_initial_events;	/* sendInitialEvents is given */
	bool		initial_events;
} RawOptions;

static const char *
text_parameter(Arena *arena, const ApiRequest *request, const char *key)
{
	const char *value = request_query(arena, request, key);

	return value != NULL ? value : "";
}

static bool
refuse(const char *message, int *code, StrBuf *reply)
{
	*code = 400;
	status_bad_request(reply, message);
	return false;
}

/* Reads a parameter that is a number; 0 if absent. */
static bool
int_parameter(Arena *arena, const ApiRequest *request, const char *key, int64_t *value, int *code, StrBuf *reply)
{
	const char *text = request_query(arena, request, key);
	const char *error;

	*value = 0;
	if (text == NULL || parse_go_int(arena, text, value, &error))
		return true;
	return refuse(error, code, reply);
}

/*
 * Reads the selectors.  A watch with the name of an object in its URL is a watch of the list with a selector for this
 * name (SEL-13, W-61).
 */
static bool
take_selectors(Arena *arena, const ApiRequest *request, ListOptions *options, int *code, StrBuf *reply)
{
	const char *error;
	const Selector *labels;
	const FieldSelector *fields;

	options->label_selector = text_parameter(arena, request, "labelSelector");
	options->field_selector = text_parameter(arena, request, "fieldSelector");
	labels = selector_parse(arena, options->label_selector, strlen(options->label_selector), &error);
	if (labels == NULL)
		return refuse(error, code, reply);
	fields = field_selector_parse(arena, options->field_selector, strlen(options->field_selector), &error);
	if (fields == NULL)
		return refuse(error, code, reply);

	/* A selector without terms selects everything, as if the parameter were absent. */
	if (labels->count == 0)
		options->label_selector = "";
	if (fields->count == 0)
		options->field_selector = "";
	for (size_t i = 0; i < fields->count && options->field_name == NULL; i++)
		if (!fields->terms[i].is_namespace && !fields->terms[i].negated)
			options->field_name = arena_strndup(arena, fields->terms[i].value.bytes, fields->terms[i].value.len);

	if (request->name[0] == '\0')
		return true;
	if (fields->count > 0)
	{
		if (options->field_name == NULL || strcmp(options->field_name, request->name) != 0)
			return refuse("fieldSelector metadata.name doesn't match requested name", code, reply);
	}
	else
	{
		StrBuf		buf;

		strbuf_init(&buf, arena);
		strbuf_puts(&buf, "metadata.name=");
		for (const char *p = request->name; *p != '\0'; p++)
		{
			if (*p == '\\' || *p == ',' || *p == '=')
				strbuf_putc(&buf, '\\');
			strbuf_putc(&buf, *p);
		}
		options->field_selector = buf.bytes;
		options->field_name = request->name;
	}
	return true;
}

static void
forbid(FieldErrorList *errors, const char *field, const char *detail)
{
	field_error_at(errors, FIELD_FORBIDDEN, field, NULL, detail);
}

static void
validate_list(Arena *arena, const RawOptions *raw, FieldErrorList *errors)
{
	bool		exact = strcmp(raw->match, "Exact") == 0;

	if (raw->match[0] != '\0')
	{
		if (raw->version[0] == '\0')
			forbid(errors, "resourceVersionMatch",
				   "resourceVersionMatch is forbidden unless resourceVersion is provided");
		if (raw->token[0] != '\0')
			forbid(errors, "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
		if (!exact && strcmp(raw->match, "NotOlderThan") != 0)
			field_error_at(errors, FIELD_NOT_SUPPORTED, "resourceVersionMatch", json_new_cstring(arena, raw->match),
						   "supported values: \"Exact\", \"NotOlderThan\", \"\"");
		if (exact && strcmp(raw->version, "0") == 0)
			forbid(errors, "resourceVersionMatch",
				   "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
	}
	if (raw->sends_initial_events)
		forbid(errors, "sendInitialEvents", "sendInitialEvents is forbidden for list");
}

static void
validate_watch(Arena *arena, const RawOptions *raw, FieldErrorList *errors)
{
	bool		not_older = strcmp(raw->match, "NotOlderThan") == 0;

	if (raw->sends_initial_events && !not_older)
		forbid(errors, "resourceVersionMatch",
			   "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
	if (raw->match[0] == '\0')
		return;
	if (!raw->sends_initial_events)
		forbid(errors, "resourceVersionMatch",
			   "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
	if (!not_older)
		field_error_at(errors, FIELD_NOT_SUPPORTED, "resourceVersionMatch", json_new_cstring(arena, raw->match),
					   "supported values: \"NotOlderThan\"");
	if (raw->token[0] != '\0')
		forbid(errors, "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
}

/* The number in resourceVersion, 0 when empty.  Any other text is a bad request (GET-02, LIST-11, W-10). */
static bool
take_version(Arena *arena, const char *text, bool list, int64_t *version, int *code, StrBuf *reply)
{
	const char *error;
	StrBuf		message;

	*version = 0;
	if (text[0] == '\0' || parse_go_version(arena, text, version, &error))
		return true;
	strbuf_init(&message, arena);
	strbuf_printf(&message, "%sresourceVersion: Invalid value: ", list ? "invalid resource version: " : "");
	quote_text(&message, text, strlen(text));
	strbuf_puts(&message, ": ");
	strbuf_puts(&message, error);
	return refuse(message.bytes, code, reply);
}

bool
request_get_version(Arena *arena, const ApiRequest *request, int64_t *version, int *code, StrBuf *reply)
{
	if (request_query_bool(arena, request, "export"))
		return refuse("the export parameter, deprecated since v1.14, is no longer supported", code, reply);
	return take_version(arena, text_parameter(arena, request, "resourceVersion"), false, version, code, reply);
}

/* Completes the options of a list (LIST-10).  A single object has no pages: a limit does not make its version exact. */
static bool
settle_list(Arena *arena, const ApiRequest *request, bool namespaced, const RawOptions *raw,
			ListOptions *options, int *code, StrBuf *reply)
{
	bool		single = options->field_name != NULL && options->field_name[0] != '\0' &&
	(!namespaced || request->namespace_name[0] != '\0');

	if (raw->token[0] != '\0')
	{
		const char *why = take_token(arena, raw->token, namespaced && request->namespace_name[0] == '\0', options);

		if (why != NULL)
			return refuse(arena_printf(arena, "invalid continue token: %s", why), code, reply);
		if (raw->version[0] != '\0' && strcmp(raw->version, "0") != 0)
			return refuse("specifying resource version is not allowed when using continue", code, reply);
		options->match = options->continue_version > 0 ? VERSION_EXACT : VERSION_MOST_RECENT;
		options->version = options->continue_version > 0 ? options->continue_version : 0;
		return true;
	}

	if (!take_version(arena, raw->version, true, &options->version, code, reply))
		return false;
	if (raw->version[0] == '\0')
		options->match = VERSION_MOST_RECENT;
	else if (options->version == 0)
		options->match = VERSION_ANY;
	else if (strcmp(raw->match, "Exact") == 0 || (raw->match[0] == '\0' && options->limit > 0 && !single))
		options->match = VERSION_EXACT;
	else
		options->match = VERSION_NOT_OLDER;
	return true;
}

/* Completes the options of a watch (sections 15.2 and 15.7). */
static bool
settle_watch(Arena *arena, RawOptions *raw, ListOptions *options, int *code, StrBuf *reply)
{
	bool		anywhere;

	if (!take_version(arena, raw->version, false, &options->version, code, reply))
		return false;
	anywhere = options->version == 0;
	options->bookmarks = raw->bookmarks;
	options->initial_events = raw->initial_events;
	options->initial_bookmark = raw->initial_events && raw->bookmarks;
	options->from_now = anywhere && !raw->initial_events;
	if (raw->version[0] == '\0')
		options->match = VERSION_MOST_RECENT;
	else
		options->match = anywhere ? VERSION_ANY : VERSION_NOT_OLDER;
	return true;
}

bool
request_list_options(Arena *arena, const ApiRequest *request, bool namespaced, bool watch,
					 ListOptions *options, int *code, StrBuf *reply)
{
	RawOptions	raw;
	FieldErrorList errors;

	memset(options, 0, sizeof(*options));
	options->continue_namespace = "";
	options->continue_name = "";
	if (!int_parameter(arena, request, "timeoutSeconds", &options->timeout_seconds, code, reply) ||
		!int_parameter(arena, request, "limit", &options->limit, code, reply) ||
		!take_selectors(arena, request, options, code, reply))
		return false;

	/* Lists and watches ignore negative numbers; a watch has no pages. */
	if (options->limit < 0 || watch)
		options->limit = 0;
	if (options->timeout_seconds < 0)
		options->timeout_seconds = 0;
	if (options->timeout_seconds > TIMEOUT_MAX)
		options->timeout_seconds = TIMEOUT_MAX;

	raw.version = text_parameter(arena, request, "resourceVersion");
	raw.match = text_parameter(arena, request, "resourceVersionMatch");
	raw.token = text_parameter(arena, request, "continue");
	raw.bookmarks = request_query_bool(arena, request, "allowWatchBookmarks");
	raw.sends_initial_events = request_query(arena, request, "sendInitialEvents") != NULL;
	raw.initial_events = request_query_bool(arena, request, "sendInitialEvents");

	/* WL-07: a watch that gives neither a version nor the newer options is a watch with initial events. */
	if (watch && !raw.sends_initial_events && raw.match[0] == '\0' &&
		(raw.version[0] == '\0' || strcmp(raw.version, "0") == 0))
	{
		raw.sends_initial_events = true;
		raw.initial_events = true;
		raw.match = "NotOlderThan";
	}

	field_errors_init(&errors, arena);
	if (watch)
		validate_watch(arena, &raw, &errors);
	else
		validate_list(arena, &raw, &errors);
	if (errors.count > 0)
	{
		*code = 422;
		status_invalid(reply, "ListOptions", "meta.k8s.io", "", &errors);
		return false;
	}
	return watch ? settle_watch(arena, &raw, options, code, reply) :
		settle_list(arena, request, namespaced, &raw, options, code, reply);
}
