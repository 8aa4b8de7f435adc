/*-------------------------------------------------------------------------
 *
 * export_request.c
 *	  Turns a request for an export into the request of api_export().
 *
 *-------------------------------------------------------------------------
 */
#include "api/export_request.h"

#include <string.h>
#include <strings.h>

#include "engine/api/accept.h"
#include "engine/api/metadata.h"
#include "api/policy_reporter.h"

static const char prefix[] = "/v1/export/";
static const char fleet_prefix[] = "/v1/fleet/";
static const char namespaces[] = "namespaces/";

/* The parts of an export path. */
typedef struct ExportTarget
{
	const char *what;			/* results, events, fleet/... or policy-reporter; a literal */
	bool		one_document;	/* small, so it is also offered as one JSON document */
	bool		events;
	JsonText	namespace_name; /* bytes NULL: the whole cluster */
	ReporterTarget reporter;	/* of policy-reporter */
} ExportTarget;

/* The paths about a fleet, after /v1/. */
static const char *const fleet_whats[] = {"fleet/clusters", "fleet/matrix", "fleet/scores", "fleet/score",
"fleet/drift", "fleet/remediations", "fleet/events"};

static bool
fleet_target_of(const char *path, ExportTarget *target)
{
	for (size_t i = 0; i < sizeof(fleet_whats) / sizeof(fleet_whats[0]); i++)
	{
		if (strcmp(path + strlen("/v1/"), fleet_whats[i]) == 0)
			target->what = fleet_whats[i];
	}
	if (target->what == NULL)
		return false;
	target->events = strcmp(target->what, "fleet/events") == 0;
	target->one_document = !target->events;
	return true;
}

static bool
target_of(const char *path, ExportTarget *target)
{
	static const char *const whats[] = {"results", "events"};

	*target = (ExportTarget) {0};
	if (reporter_target(path, &target->reporter))
	{
		target->what = "policy-reporter";
		target->namespace_name = target->reporter.namespace_name;
		return true;
	}
	if (strncmp(path, fleet_prefix, sizeof(fleet_prefix) - 1) == 0)
		return fleet_target_of(path, target);
	if (strncmp(path, prefix, sizeof(prefix) - 1) != 0)
		return false;
	path += sizeof(prefix) - 1;
	if (strncmp(path, namespaces, sizeof(namespaces) - 1) == 0)
	{
		path += sizeof(namespaces) - 1;
		target->namespace_name = (JsonText) {path, strcspn(path, "/")};
		path += target->namespace_name.len;
		if (!is_dns1123_label(target->namespace_name) || *path++ != '/')
			return false;
	}
	for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++)
	{
		if (strcmp(path, whats[i]) == 0)
			target->what = whats[i];
	}
	target->events = target->what != NULL && strcmp(target->what, "events") == 0;
	return target->what != NULL;
}

bool
export_path(const char *path)
{
	ExportTarget target;

	return target_of(path, &target);
}

/* ---------- the format ---------- */

typedef struct ExportFormat
{
	const char *media_type;		/* in the Accept header */
	const char *name;
} ExportFormat;

typedef struct ExportFormats
{
	const ExportFormat *formats;	/* the first one is the default */
	size_t		count;
	const char *accepted;		/* for messages */
	const char *names;
} ExportFormats;

static const ExportFormat line_formats[] = {
	{"application/x-ndjson", "jsonl"},
	{"application/jsonl", "jsonl"},
	{"text/csv", "csv"},
	{"application/*", "jsonl"},
	{"text/*", "csv"},
	{"*/*", "jsonl"},
};

static const ExportFormats of_lines = {
	line_formats, sizeof(line_formats) / sizeof(line_formats[0]),
	"only the following media types are accepted: application/x-ndjson, application/jsonl, text/csv",
	"parameter \"format\" is neither \"jsonl\" nor \"csv\""
};

static const ExportFormat document_formats[] = {
	{"application/json", "json"},
	{"application/x-ndjson", "jsonl"},
	{"application/jsonl", "jsonl"},
	{"text/csv", "csv"},
	{"application/*", "json"},
	{"text/*", "csv"},
	{"*/*", "json"},
};

static const ExportFormats of_documents = {
	document_formats, sizeof(document_formats) / sizeof(document_formats[0]),
	"only the following media types are accepted: application/json, application/x-ndjson, application/jsonl, text/csv",
	"parameter \"format\" is none of \"json\", \"jsonl\" and \"csv\""
};

static const ExportFormat json_formats[] = {
	{"application/json", "json"},
	{"application/*", "json"},
	{"*/*", "json"},
};

static const ExportFormats of_json = {
	json_formats, sizeof(json_formats) / sizeof(json_formats[0]),
	"only the following media types are accepted: application/json", NULL
};

/*
 * Returns the offered format that an Accept header prefers: the highest weight wins, then the first range.  NULL when
 * the header allows no offered format.
 */
static const char *
accepted_format(const ExportFormats *offered, const char *accept)
{
	JsonText	rest = {accept, accept != NULL ? strlen(accept) : 0};
	AcceptClause clause;
	const char *best = NULL;
	double		best_weight = 0;

	/* kube-apiserver treats an empty header like no header. */
	if (accept_trim(rest).len == 0)
		return offered->formats[0].name;
	while (accept_clause(&rest, &clause))
		for (size_t i = 0; i < offered->count; i++)
		{
			const ExportFormat *format = &offered->formats[i];

			if (clause.quality > best_weight && strlen(format->media_type) == clause.range.len &&
				strncasecmp(format->media_type, clause.range.bytes, clause.range.len) == 0)
			{
				best = format->name;
				best_weight = clause.quality;
			}
		}
	return best;
}

/* Returns the format that the parameter names, else the header.  On failure NULL, with *code and *why. */
static const char *
wanted_format(const ExportFormats *offered, const Route *route, const char *accept, int *code, const char **why)
{
	const JsonText *parameter = route_parameter(route, "format");

	if (parameter == NULL)
	{
		*code = 406;
		*why = offered->accepted;
		return accepted_format(offered, accept);
	}
	*code = 400;
	*why = offered->names;
	for (size_t i = 0; i < offered->count; i++)
	{
		if (json_text_is(*parameter, offered->formats[i].name))
			return offered->formats[i].name;
	}
	return NULL;
}

/* ---------- the filter ---------- */

/*
 * Returns the key as a literal when the parameter may be given only once, else NULL.  Parameters whose values are
 * neither texts nor arrays of texts may be given only once.
 */
static const char *
single_key(JsonText key)
{
	static const char *const keys[] = {"format", "after", "exempted", "score_from", "score_to", "properties",
		"since_from", "since_to",
	"first_seen_from", "first_seen_to", "text", "from", "to", "cluster_labels", "a", "b"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
	{
		if (json_text_is(key, keys[i]))
			return keys[i];
	}
	return NULL;
}

/*
 * Returns the query as a filter; NULL with *why when the query is not a filter.  The database checks the names of the
 * members.
 */
static JsonNode *
query_filter(Arena *arena, const Route *route, const char **why)
{
	JsonNode   *filter = json_new_object(arena);

	for (size_t i = 0; i < route->parameter_count; i++)
	{
		const RouteParameter *parameter = &route->parameters[i];
		const char *single = single_key(parameter->key);
		JsonNode   *given = json_get_text(filter, parameter->key);
		JsonNode   *value = json_new_string(arena, parameter->value.bytes, parameter->value.len);
		JsonError	error;

		if (single != NULL && route_parameter(route, single) != &parameter->value)
		{
			*why = arena_printf(arena, "parameter \"%s\" is given more than once", single);
			return NULL;
		}
		if (json_text_is(parameter->key, "format") || json_text_is(parameter->key, "after") ||
			json_text_is(parameter->key, "timeout"))
			continue;
		if (json_text_is(parameter->key, "properties"))
		{
			value = json_parse(arena, parameter->value.bytes, parameter->value.len, NULL, NULL, &error);
			if (value == NULL)
			{
				*why = arena_printf(arena, "parameter \"properties\": %s", error.message);
				return NULL;
			}
			json_set_text(arena, filter, parameter->key, value);
		}
		else if (single != NULL)
			json_set_text(arena, filter, parameter->key, value);
		else
		{
			if (given == NULL)
			{
				given = json_new_array(arena);
				json_set_text(arena, filter, parameter->key, given);
			}
			json_append(arena, given, value);
		}
	}
	return filter;
}

/* The query of Policy Reporter's API: an array of texts for each parameter. */
static JsonNode *
reporter_filter(Arena *arena, const Route *route)
{
	JsonNode   *filter = json_new_object(arena);

	for (size_t i = 0; i < route->parameter_count; i++)
	{
		const RouteParameter *parameter = &route->parameters[i];
		JsonNode   *given = json_get_text(filter, parameter->key);

		if (given == NULL)
		{
			given = json_new_array(arena);
			json_set_text(arena, filter, parameter->key, given);
		}
		json_append(arena, given, json_new_string(arena, parameter->value.bytes, parameter->value.len));
	}
	return filter;
}

/* ---------- the request ---------- */

static void
set_part(Arena *arena, JsonNode *request, const char *key, JsonText part)
{
	if (part.bytes != NULL)
		json_set(arena, request, key, json_new_string(arena, part.bytes, part.len));
}

static JsonText
reporter_request(Arena *arena, const Route *route, const ReporterTarget *target, const char *accept,
				 JsonNode *resolved, int *code, const char **why)
{
	JsonNode   *request = json_new_object(arena);

	*code = 406;
	*why = of_json.accepted;
	if (accepted_format(&of_json, accept) == NULL)
		return (JsonText) {NULL, 0};
	json_set(arena, request, "what", json_new_cstring(arena, "policy-reporter"));
	json_set(arena, request, "format", json_new_cstring(arena, "json"));
	json_set(arena, request, "answer", json_new_cstring(arena, target->answer));
	set_part(arena, request, "argument", target->argument);
	set_part(arena, request, "cluster", target->cluster);
	set_part(arena, request, "namespace", target->namespace_name);
	if (resolved != NULL)
		json_set(arena, request, "resolved", resolved);
	json_set(arena, request, "filter", reporter_filter(arena, route));
	return json_text_of(arena, request);
}

JsonText
export_request(Arena *arena, const Route *route, const char *accept, JsonNode *resolved, int *code, const char **why)
{
	const JsonText *after = route_parameter(route, "after");
	const char *format;
	JsonNode   *request = json_new_object(arena);
	JsonNode   *filter;
	ExportTarget target;

	target_of(route->path, &target);
	if (target.reporter.answer != NULL)
		return reporter_request(arena, route, &target.reporter, accept, resolved, code, why);
	format = wanted_format(target.one_document ? &of_documents : &of_lines, route, accept, code, why);
	if (format == NULL)
		return (JsonText) {NULL, 0};
	*code = 400;
	filter = query_filter(arena, route, why);
	if (filter == NULL)
		return (JsonText) {NULL, 0};
	if (after != NULL && !target.events)
	{
		*why = "parameter \"after\" is for events only";
		return (JsonText) {NULL, 0};
	}
	json_set(arena, request, "what", json_new_cstring(arena, target.what));
	json_set(arena, request, "format", json_new_cstring(arena, format));
	set_part(arena, request, "namespace", target.namespace_name);
	if (after != NULL)
		json_set(arena, request, "after", json_new_string(arena, after->bytes, after->len));
	json_set(arena, request, "filter", filter);
	return json_text_of(arena, request);
}
