/*-------------------------------------------------------------------------
 *
 * negotiate.c
 *	  The form of an answer: the Accept header, includeObject, pretty.
 *
 * The first clause wins whose media type and parameters the server supports.
 * A clause with a transform that the endpoint does not support is skipped;
 * the endpoint never answers it with another form.
 *
 * Reference: k8s-conformance section 11.1; TAB-01, PART-02, REQ-10, WL-06.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/request.h"

#include <string.h>

#include "engine/api/accept.h"

/* The media types that can be written, in the order of preference. */
static const struct
{
	const char *type;
	const char *subtype;
	MediaType	media;
}			output_types[] = {
	{"application", "json", MEDIA_JSON},
	{"application", "yaml", MEDIA_YAML},
};

#define OUTPUT_TYPES (sizeof(output_types) / sizeof(output_types[0]))

/* A clause with a media range. */
typedef struct MediaRange
{
	JsonText	type;
	JsonText	subtype;
	JsonText	parameters;
	double		quality;
} MediaRange;

typedef struct Endpoint
{
	bool		list;
	bool		watch;
	bool		initial_events; /* sendInitialEvents is set: such a watch has no tables */
	bool		failure;		/* a Status: no transforms */
} Endpoint;

/* Whether b is preferred to a; equal clauses keep their order. */
static bool
comes_after(const MediaRange *a, const MediaRange *b)
{
	if (a->quality != b->quality)
		return a->quality < b->quality;
	if (json_text_is(a->type, "*") != json_text_is(b->type, "*"))
		return json_text_is(a->type, "*");
	return json_text_is(a->subtype, "*") && !json_text_is(b->subtype, "*");
}

/* Splits the header into media ranges, the preferred ones first. */
static size_t
parse_accept(const char *header, MediaRange *ranges)
{
	JsonText	rest = {header, strlen(header)};
	AcceptClause clause;
	size_t		count = 0;

	while (count < ACCEPT_CLAUSES_MAX && accept_clause(&rest, &clause))
	{
		MediaRange	range = {.parameters = clause.parameters, .quality = clause.quality};
		size_t		at;

		range.type = accept_trim(accept_cut(clause.range, '/', &range.subtype));
		if (range.subtype.bytes == NULL)
		{
			if (!json_text_is(range.type, "*"))
				continue;
			range.subtype = range.type;
		}
		range.subtype = accept_trim(range.subtype);

		for (at = count++; at > 0 && comes_after(&ranges[at - 1], &range); at--)
			ranges[at] = ranges[at - 1];
		ranges[at] = range;
	}
	return count;
}

/* Whether the endpoint can answer with this kind of meta.k8s.io; fills in the transform. */
static bool
accept_transform(JsonText kind, JsonText group, JsonText version, const Endpoint *endpoint, Transform *transform)
{
	if (!json_text_is(group, "meta.k8s.io"))
		return false;
	if (json_text_is(version, "v1beta1"))
		transform->beta = true;
	else if (!json_text_is(version, "v1"))
		return false;

	if (json_text_is(kind, "Table"))
	{
		transform->kind = TRANSFORM_TABLE;
		return !(endpoint->watch && endpoint->initial_events);
	}
	transform->kind = TRANSFORM_PARTIAL;
	return json_text_is(kind, endpoint->list &&
						!endpoint->watch ? "PartialObjectMetadataList" : "PartialObjectMetadata");
}

/* Whether the parameters of a clause can be satisfied. */
static bool
accept_parameters(JsonText parameters, const Endpoint *endpoint, Transform *transform)
{
	JsonText	kind = {"", 0};
	JsonText	group = {"", 0};
	JsonText	version = {"", 0};
	JsonText	name;
	JsonText	value;
	bool		converts = false;

	memset(transform, 0, sizeof(*transform));
	while (accept_parameter(&parameters, &name, &value))
	{
		if (json_text_is(name, "as"))
		{
			kind = value;
			converts = true;
		}
		else if (json_text_is(name, "g"))
		{
			group = value;
			converts = true;
		}
		else if (json_text_is(name, "v"))
		{
			version = value;
			converts = true;
		}
		else if (json_text_is(name, "stream"))
		{
			if (value.len > 0 && !json_text_is(value, "watch"))
				return false;
		}
		else if (json_text_is(name, "sv"))
		{
			if (value.len > 0 && !json_text_is(value, "v1"))
				return false;
		}
		else if (json_text_is(name, "pretty"))
			transform->pretty = json_text_is(value, "1");
	}
	return !converts || (!endpoint->failure && accept_transform(kind, group, version, endpoint, transform));
}

static bool
negotiate_accept(const char *header, const Endpoint *endpoint, Transform *transform, MediaType *media)
{
	MediaRange	ranges[ACCEPT_CLAUSES_MAX];
	size_t		count;

	memset(transform, 0, sizeof(*transform));
	*media = MEDIA_JSON;
	if (header[0] == '\0')
		return true;
	count = parse_accept(header, ranges);
	for (size_t i = 0; i < count; i++)
	{
		for (size_t t = 0; t < OUTPUT_TYPES; t++)
		{
			bool		any_type = json_text_is(ranges[i].type, "*");
			bool		any_subtype = json_text_is(ranges[i].subtype, "*");
			bool		type_fits = json_text_is(ranges[i].type, output_types[t].type);

			if (!(any_type && any_subtype) &&
				!(type_fits && (any_subtype || json_text_is(ranges[i].subtype, output_types[t].subtype))))
				continue;
			/* W-05: watch events are never YAML. */
			if (endpoint->watch && output_types[t].media == MEDIA_YAML)
				continue;
			if (!accept_parameters(ranges[i].parameters, endpoint, transform))
				continue;
			*media = output_types[t].media;
			return true;
		}
	}
	return false;
}

/* REQ-10: the parameter decides if it has a value, otherwise the user agent. */
static bool
wants_pretty(const char *parameter, const char *user_agent)
{
	static const char *const true_words[] = {"1", "t", "T", "TRUE", "true", "True"};

	if (parameter != NULL && parameter[0] != '\0')
	{
		for (size_t i = 0; i < sizeof(true_words) / sizeof(true_words[0]); i++)
			if (strcmp(parameter, true_words[i]) == 0)
				return true;
		return false;
	}
	return user_agent != NULL && (strncmp(user_agent, "curl", 4) == 0 || strncmp(user_agent, "Wget", 4) == 0 ||
								  strncmp(user_agent, "Mozilla/5.0", 11) == 0);
}

/* Reads includeObject, a parameter of tables only; 400 for an unknown value (TAB-01). */
static bool
take_include_object(Arena *arena, const ApiRequest *request, Transform *transform, int *code, StrBuf *reply)
{
	const char *value = request_query(arena, request, "includeObject");
	StrBuf		message;

	if (value == NULL || value[0] == '\0' || strcmp(value, "Metadata") == 0)
		transform->include = INCLUDE_METADATA;
	else if (strcmp(value, "Object") == 0)
		transform->include = INCLUDE_OBJECT;
	else if (strcmp(value, "None") == 0)
		transform->include = INCLUDE_NONE;
	else
	{
		strbuf_init(&message, arena);
		strbuf_puts(&message, "Unable to convert to Table as requested: includeObject: Invalid value: ");
		quote_text(&message, value, strlen(value));
		strbuf_puts(&message, ": must be 'Metadata', 'Object', 'None', or empty");
		*code = 400;
		status_bad_request(reply, message.bytes);
		return false;
	}
	return true;
}

MediaType
request_media_type(const char *accept, bool list, bool failure)
{
	Endpoint	endpoint = {.list = list, .failure = failure};
	Transform	transform;
	MediaType	media;

	return negotiate_accept(accept, &endpoint, &transform, &media) ? media : MEDIA_JSON;
}

bool
request_is_pretty(const char *accept, bool list, bool failure, const char *parameter, const char *user_agent)
{
	Endpoint	endpoint = {.list = list, .failure = failure};
	Transform	transform;
	MediaType	media;
	bool		chosen = negotiate_accept(accept != NULL ? accept : "", &endpoint, &transform, &media);

	return media != MEDIA_YAML && ((chosen && transform.pretty) || wants_pretty(parameter, user_agent));
}

bool
request_negotiate(Arena *arena, const ApiRequest *request, bool list, bool watch,
				  Transform *transform, int *code, StrBuf *reply)
{
	Endpoint	endpoint = {.list = list, .watch = watch};
	MediaType	media;

	endpoint.initial_events = watch && request_query_bool(arena, request, "sendInitialEvents");
	if (!negotiate_accept(request->accept, &endpoint, transform, &media))
	{
		StrBuf		message;

		strbuf_init(&message, arena);
		strbuf_puts(&message, "only the following media types are accepted: ");
		for (size_t t = 0; t < OUTPUT_TYPES; t++)
			strbuf_printf(&message, "%s%s/%s", t > 0 ? ", " : "", output_types[t].type, output_types[t].subtype);
		*code = 406;
		status_failure(reply, 406, "NotAcceptable", message.bytes, NULL);
		return false;
	}

	/* An event of a watch is one line; the proxy converts the JSON to YAML anyway. */
	if (watch || media == MEDIA_YAML)
		transform->pretty = false;
	else if (!transform->pretty)
		transform->pretty = wants_pretty(request_query(arena, request, "pretty"), request->user_agent);

	if (transform->kind != TRANSFORM_TABLE)
		return true;
	transform->columns = true;
	return take_include_object(arena, request, transform, code, reply);
}

/*
 * Tokens: object, partial/VERSION or table/VERSION/INCLUDE, then +columns and
 * +pretty, each at most once and in this order.
 */

static const char *const include_names[] = {
	[INCLUDE_METADATA] = "Metadata",
	[INCLUDE_OBJECT] = "Object",
	[INCLUDE_NONE] = "None",
};

char *
transform_token(Arena *arena, const Transform *transform)
{
	const char *version = transform->beta ? "v1beta1" : "v1";
	const char *pretty = transform->pretty ? "+pretty" : "";

	switch (transform->kind)
	{
		case TRANSFORM_PARTIAL:
			return arena_printf(arena, "partial/%s%s", version, pretty);
		case TRANSFORM_TABLE:
			return arena_printf(arena, "table/%s/%s%s%s", version, include_names[transform->include],
								transform->columns ? "+columns" : "", pretty);
		case TRANSFORM_DELETED:
			return arena_printf(arena, "deleted%s", pretty);
		case TRANSFORM_OBJECT:
			break;
	}
	return arena_printf(arena, "object%s", pretty);
}

/* Moves over a word at the start of *token. */
static bool
skip_word(const char **token, const char *word)
{
	size_t		len = strlen(word);

	if (strncmp(*token, word, len) != 0)
		return false;
	*token += len;
	return true;
}

bool
transform_parse(const char *token, Transform *transform)
{
	memset(transform, 0, sizeof(*transform));
	if (skip_word(&token, "partial/"))
		transform->kind = TRANSFORM_PARTIAL;
	else if (skip_word(&token, "table/"))
		transform->kind = TRANSFORM_TABLE;
	else if (skip_word(&token, "deleted"))
		transform->kind = TRANSFORM_DELETED;
	else if (!skip_word(&token, "object"))
		return false;

	if (transform->kind == TRANSFORM_PARTIAL || transform->kind == TRANSFORM_TABLE)
	{
		transform->beta = skip_word(&token, "v1beta1");
		if (!transform->beta && !skip_word(&token, "v1"))
			return false;
	}
	if (transform->kind == TRANSFORM_TABLE)
	{
		if (skip_word(&token, "/Metadata"))
			transform->include = INCLUDE_METADATA;
		else if (skip_word(&token, "/Object"))
			transform->include = INCLUDE_OBJECT;
		else if (skip_word(&token, "/None"))
			transform->include = INCLUDE_NONE;
		else
			return false;
		transform->columns = skip_word(&token, "+columns");
	}
	transform->pretty = skip_word(&token, "+pretty");
	return *token == '\0';
}
