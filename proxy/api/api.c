/*-------------------------------------------------------------------------
 *
 * api.c
 *	  The API of a worker: from an HTTP request to whoever answers it.
 *
 * A request is routed, authenticated and authorized before anything is said
 * about whether what it names exists; then it is handed on by its verb.  This
 * file owns every Exchange: it is made here and ends when the HTTP request
 * does.
 *
 * Reference: k8s-conformance sections 5.1, 5.2, 6.3, 20.
 *
 *-------------------------------------------------------------------------
 */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/api/metadata.h"
#include "api/body.h"
#include "base/config.h"
#include "api/export.h"
#include "api/feed.h"
#include "api/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "api/namespaces.h"
#include "api/reply.h"
#include "api/result_metrics.h"
#include "http/server.h"
#include "base/wakeup.h"
#include "api/watch.h"
#include "api/write.h"

/* For how long reads may wait for locks in vain before readyz says so, and how often a worker then looks whether they still do. */
#define PROBE_MS 2000
#define PROBE_TIMEOUT_MS 5000
#define BLOCKED_MS 7000

static bool shutting_down;
static LoopTimer probe_timer;

static void exchange_closed(void *state);
static void exchange_authenticated(void *state, Authentication outcome, const User *user);
static void exchange_authorized(void *state, Decision decision, const char *reason);
static void exchange_expired(void *state);
static void probe(void *state);

/* ---------- the worker ---------- */

void
api_start(int worker)
{
	offload_start();
	identity_start();
	pg_start_worker(worker);
	watches_start();
	wakeup_attach(worker, feed_hear);
	namespaces_start(false);
	loop_timer_start(&probe_timer, PROBE_MS, probe, NULL);
}

bool
api_ready(const char **why)
{
	const char *reason = NULL;

	if (!pg_connected(&reason))
	{
		*why = reason;
		return false;
	}
	if (!registry_known())
	{
		*why = "the registry has not been read yet";
		return false;
	}
	if (!feed_database_answers())
	{
		*why = "the database does not answer";
		return false;
	}
	if (pg_blocked_ms() > BLOCKED_MS)
	{
		*why = "reads wait in vain for a lock in the database";
		return false;
	}
	return true;
}

static void
probed(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	pg_result_free(result);
	loop_timer_start(&probe_timer, PROBE_MS, probe, NULL);
}

/* What becomes of it pg.c notes, as of any read: nobody may send requests to a proxy that is not ready. */
static void
probe(void *state)
{
	Registry   *registry = pg_blocked_ms() > 0 ? registry_acquire() : NULL;
	size_t		count = 0;
	const RegistryType *types = registry != NULL ? registry_types(registry, &count) : NULL;

	if (count > 0)
	{
		PgCall	   *call = pg_call_new(PG_GET);
		Arena		arena;

		arena_init(&arena);
		pg_add_text(call, arena_printf(&arena, "{\"verb\":\"get\",\"group\":\"%s\",\"version\":\"%s\",\"resource\":\"%s\"%s,\"name\":\"readyz\"}",
									   types[0].group, types[0].version, types[0].resource,
									   types[0].namespaced ? ",\"namespace\":\"readyz\"" : ""));
		arena_free(&arena);
		pg_send(call, false, PROBE_TIMEOUT_MS, probed, NULL);
	}
	else
		loop_timer_start(&probe_timer, PROBE_MS, probe, NULL);
	registry_release(registry);
}

void
api_shutdown(void)
{
	shutting_down = true;
	/* The rest of the time is for clients that are slow to take what they have. */
	watches_end((uint64_t) config.shutdown_timeout * 750);
}

bool
api_shutting_down(void)
{
	return shutting_down;
}

/* ---------- a request ---------- */

uint64_t
exchange_time_left(const Exchange *exchange)
{
	uint64_t	now = loop_now();

	return exchange->deadline.due > now ? exchange->deadline.due - now : 1;
}

void
exchange_cancel_job(Exchange *exchange)
{
	OffloadJob *job = exchange->job;

	exchange->job = NULL;
	if (job != NULL)
		offload_cancel(job);
}

void
api_request(HttpRequest *request)
{
	Exchange   *exchange = calloc(1, sizeof(Exchange));
	const char *error = NULL;

	if (exchange == NULL)
		abort();
	exchange->http = request;
	exchange->verb = "";
	exchange->started = loop_now();
	exchange->head = strcmp(http_method(request), "HEAD") == 0;
	arena_init(&exchange->arena);
	http_on_close(request, exchange_closed, exchange);
	exchange->route = arena_alloc0(&exchange->arena, sizeof(Route));
	if (!route_parse(&exchange->arena, http_method(request), http_path(request), http_query(request), exchange->route, &error))
	{
		reply_status(exchange, 400, "BadRequest", error, NULL);
		return;
	}
	access_attributes(&exchange->arena, exchange->route, &exchange->access);
	http_set_verb(request, exchange->access.verb);
	identity_authenticate(request, &exchange->arena, &exchange->question, exchange_authenticated, exchange);
}

static void
exchange_closed(void *state)
{
	Exchange   *exchange = state;
	const RegistryType *type = exchange->type;

	identity_cancel(&exchange->question);
	if (exchange->closed != NULL)
		exchange->closed(exchange);
	if (exchange->call != NULL)
		pg_cancel(exchange->call);
	exchange_cancel_job(exchange);
	loop_timer_stop(&exchange->deadline);
	if (!exchange->counted_elsewhere)
		metrics_request(exchange->verb, type != NULL ? type->group : "", type != NULL ? type->version : "",
						type != NULL ? type->resource : "", exchange->code, (double) (loop_now() - exchange->started) / 1000);
	registry_release(exchange->registry);
	arena_free(&exchange->arena);
	free(exchange);
}

static void
answer_forbidden(Exchange *exchange, const AccessAttributes *access, const char *reason)
{
	StatusDetails details = {0};

	if (access->resource)
	{
		details.name = access->name;
		details.group = access->group;
		details.kind = access->resource_name;
	}
	reply_status(exchange, 403, "Forbidden", identity_denial(&exchange->arena, exchange->user, access, reason), &details);
}

/* AUTHZ-12: nobody said whether it is allowed. */
static void
answer_undecided(Exchange *exchange, Decision decision)
{
	if (decision == DECISION_BUSY)
		reply_too_many_requests(exchange);
	else
		reply_status(exchange, 500, "InternalError", "Internal error occurred: the request could not be authorized", NULL);
}

static void
exchange_authenticated(void *state, Authentication outcome, const User *user)
{
	Exchange   *exchange = state;
	AccessAttributes impersonated;

	if (user == NULL || identity_is_anonymous(user))
		http_last_of_http2(exchange->http);
	else if (!http_recognize(exchange->http))
		outcome = AUTHENTICATION_BUSY;
	switch (outcome)
	{
		case UNAUTHENTICATED:
			reply_status(exchange, 401, "Unauthorized", "Unauthorized", NULL);
			break;
		case AUTHENTICATION_BUSY:
			reply_too_many_requests(exchange);
			break;
		case AUTHENTICATED:
			exchange->user = user;
			exchange->exempt = identity_is_master(user);
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): AUTHENTICATED comes with a user */
			http_set_user(exchange->http, user->name, user->groups, user->group_count);
			if (identity_impersonates(exchange->http, &impersonated))
			{
				answer_forbidden(exchange, &impersonated, "impersonation is not offered here");
				break;
			}
			identity_authorize(&exchange->arena, user, &exchange->access, &exchange->question, exchange_authorized, exchange);
			break;
	}
}

/* ---------- what it is about ---------- */

static void
answer_not_served(Exchange *exchange)
{
	StatusDetails details = {0};

	reply_status(exchange, 404, "NotFound", "the server could not find the requested resource", &details);
}

/* A verb, or none, that the resource or its status does not have wherever it is asked for. */
static void
answer_not_supported(Exchange *exchange)
{
	const Route *route = exchange->route;
	StatusDetails details = {.group = route->group,.kind = route->resource_name};

	reply_status(exchange, 405, "MethodNotAllowed",
				 arena_printf(&exchange->arena, "%s is not supported on resources of kind \"%s.%s\"", route->verb,
							  route->resource_name, route->group), &details);
}

/*
 * Section 6.3.  False when the path names nothing that is served or the verb is not one for it: then that has been answered.
 */
static bool
exchange_resolve(Exchange *exchange)
{
	const Route *route = exchange->route;
	bool		collection = route->name[0] == '\0';
	bool		version_known = false;

	exchange->registry = registry_acquire();
	if (exchange->registry == NULL)
	{
		registry_answer_unknown(exchange);
		return false;
	}
	exchange->type = registry_find(exchange->registry, route->group, route->version, route->resource_name, &version_known);
	if (exchange->type == NULL)
	{
		if (version_known)
			answer_not_served(exchange);
		else
			reply_plain(exchange, 404, "404 page not found\n", 0);
		return false;
	}
	/* Across all namespaces there are only lists and watches (ERR-22, ERR-23); a watch of a name is one of the list. */
	if (exchange->type->namespaced != (route->namespace_name[0] != '\0') &&
		!(exchange->type->namespaced && (strcmp(route->verb, "list") == 0 || strcmp(route->verb, "watch") == 0)))
	{
		answer_not_served(exchange);
		return false;
	}
	if (route->subresource[0] != '\0' &&
		!(exchange->type->status && strcmp(route->subresource, "status") == 0 && !route->overlong))
	{
		StrBuf		name;

		strbuf_init(&name, &exchange->arena);
		strbuf_printf(&name, "%s.%s \"%s\" not found", route->resource_name, route->group, route->name);
		reply_status(exchange, 404, "NotFound", name.bytes,
					 &(StatusDetails) {.name = route->name,.group = route->group,.kind = route->resource_name});
		return false;
	}
	if (route->verb[0] == '\0' || strcmp(route->verb, "proxy") == 0 ||
		(route->subresource[0] != '\0' && (strcmp(route->verb, "create") == 0 || strcmp(route->verb, "delete") == 0)))
	{
		answer_not_supported(exchange);
		return false;
	}
	if ((strcmp(route->verb, "create") == 0) != (strcmp(route->method, "POST") == 0 && collection) ||
		(collection && (strcmp(route->verb, "update") == 0 || strcmp(route->verb, "patch") == 0)))
	{
		reply_method_not_allowed(exchange, NULL);
		return false;
	}
	exchange->verb = route->verb;
	return true;
}

static void
answer_known_namespace(Exchange *exchange)
{
	const Route *route = exchange->route;
	const char *state = exchange->namespace_state;
	Reply		reply = {.code = 200,.content_type = "application/json"};
	StrBuf		buf;

	strbuf_init(&buf, &exchange->arena);
	if (state != NULL && strcmp(state, "missing") == 0)
	{
		status_not_found(&buf, "", "namespaces", route->name);
		reply.code = 404;
	}
	else
		strbuf_printf(&buf, "{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\"},\"status\":{\"phase\":\"%s\"}}\n",
					  route->name, state != NULL ? "Terminating" : "Active");
	reply.body.bytes = buf.bytes;
	reply.body.len = buf.len;
	reply_send(exchange, &reply, NULL);
}

/*
 * kubectl asks for a namespace when it did not find an object in it, and prints what it hears.  Behind the aggregator this path never
 * comes here.  Without a cluster any valid namespace exists.
 */
static bool
answer_namespace(Exchange *exchange)
{
	const Route *route = exchange->route;
	JsonText	name = {route->name, strlen(route->name)};

	if (route->group[0] != '\0' || strcmp(route->version, "v1") != 0 || strcmp(route->resource_name, "namespaces") != 0 ||
		strcmp(route->verb, "get") != 0 || route->subresource[0] != '\0' || !is_dns1123_label(name))
		return false;
	if (namespaces_followed())
		namespaces_ask(exchange, route->name, answer_known_namespace);
	else
		answer_known_namespace(exchange);
	return true;
}

static void
set_text(Arena *arena, JsonNode *object, const char *key, const char *value)
{
	if (value != NULL && value[0] != '\0')
		json_set(arena, object, key, json_new_cstring(arena, value));
}

/* extension/engine/api/request.h */
static JsonText
exchange_request_text(Exchange *exchange)
{
	Arena	   *arena = &exchange->arena;
	const Route *route = exchange->route;
	JsonNode   *request = json_new_object(arena);
	JsonNode   *query = json_new_object(arena);
	JsonNode   *user = json_new_object(arena);
	JsonNode   *groups = json_new_array(arena);
	StrBuf		buf;
	JsonText	text;

	set_text(arena, request, "verb", route->verb);
	set_text(arena, request, "group", route->group);
	set_text(arena, request, "version", route->version);
	set_text(arena, request, "resource", route->resource_name);
	set_text(arena, request, "namespace", route->namespace_name);
	set_text(arena, request, "name", route->name);
	set_text(arena, request, "subresource", route->subresource);
	set_text(arena, request, "accept", http_header(exchange->http, "accept"));
	set_text(arena, request, "contentType", http_header(exchange->http, "content-type"));
	set_text(arena, request, "userAgent", http_header(exchange->http, "user-agent"));
	for (size_t i = 0; i < route->parameter_count; i++)
	{
		const RouteParameter *parameter = &route->parameters[i];
		JsonNode   *values = json_get_text(query, parameter->key);

		if (values == NULL)
		{
			values = json_new_array(arena);
			json_set_text(arena, query, parameter->key, values);
		}
		json_append(arena, values, json_new_string(arena, parameter->value.bytes, parameter->value.len));
	}
	json_set(arena, request, "query", query);
	set_text(arena, request, "decodeError", exchange->body_error);
	if (exchange->body_duplicates != NULL)
		json_set(arena, request, "duplicates", exchange->body_duplicates);
	set_text(arena, user, "username", exchange->user->name);
	for (size_t i = 0; i < exchange->user->group_count; i++)
		json_append(arena, groups, json_new_cstring(arena, exchange->user->groups[i]));
	json_set(arena, user, "groups", groups);
	set_text(arena, user, "uid", exchange->user->uid);
	json_set(arena, request, "user", user);
	if (exchange->create_denied)
	{
		json_set(arena, request, "mayCreate", json_new_bool(arena, false));
		set_text(arena, request, "createDenial", exchange->create_denial);
	}
	set_text(arena, request, "namespaceUid", exchange->namespace_uid);
	set_text(arena, request, "namespaceState", exchange->namespace_state);

	strbuf_init(&buf, arena);
	json_write(&buf, request);
	text.bytes = buf.bytes;
	text.len = buf.len;
	return text;
}

/* ---------- who answers ---------- */

static void
get_done(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Exchange   *exchange = state;
	Reply		reply;

	exchange->call = NULL;
	if (outcome != PG_OK)
	{
		reply_outcome(exchange, outcome, error);
		return;
	}
	reply = reply_read(&exchange->arena, result, 0);
	reply_send(exchange, &reply, result);
}

static void
get_start(Exchange *exchange)
{
	exchange->call = pg_call_new(PG_GET);
	pg_add_bytes(exchange->call, exchange->request.bytes, exchange->request.len);
	pg_answer_for(exchange->call, http_user_number(exchange->http));
	if (exchange->exempt)
		pg_exempt(exchange->call);
	pg_send(exchange->call, false, exchange_time_left(exchange), get_done, exchange);
}

static void
list_objects(Exchange *exchange)
{
	list_start(exchange, PG_LIST);
}

static void
delete_objects(Exchange *exchange)
{
	list_start(exchange, PG_DELETE_COLLECTION);
}

static void
metrics_ready(void *state)
{
	Exchange   *exchange = state;
	Reply		reply = {.code = 200,.content_type = METRICS_CONTENT_TYPE};
	StrBuf		buf;

	strbuf_init(&buf, &exchange->arena);
	metrics_write(&buf);
	result_metrics_write(&buf);
	reply.body.bytes = buf.bytes;
	reply.body.len = buf.len;
	reply_send(exchange, &reply, NULL);
}

static void
metrics_closed(Exchange *exchange)
{
	result_metrics_cancel(exchange->work);
}

static void
answer_metrics(Exchange *exchange)
{
	exchange->work = arena_alloc0(&exchange->arena, sizeof(ResultScrape));
	exchange->closed = metrics_closed;
	result_metrics_refresh(exchange->work, metrics_ready, exchange);
}

typedef struct VerbStart
{
	const char *verb;
	void		(*start) (Exchange *exchange);
} VerbStart;

static const VerbStart verb_starts[] = {
	{"get", get_start},
	{"list", list_objects},
	{"watch", watch_start},
	{"create", write_start},
	{"update", write_start},
	{"patch", write_start},
	{"delete", write_start},
	{"deletecollection", delete_objects},
};

/* False when the timeout parameter is not one: then that has been answered.  For a watch it means nothing (W-03). */
static bool
exchange_start_clock(Exchange *exchange)
{
	uint64_t	most = (uint64_t) config.request_timeout * 1000;
	uint64_t	timeout = 0;
	const char *error = NULL;

	if (strcmp(exchange->route->verb, "watch") != 0 && !route_timeout(&exchange->arena, exchange->route, &timeout, &error))
	{
		reply_status(exchange, 400, "BadRequest", error, NULL);
		return false;
	}
	loop_timer_start(&exchange->deadline, timeout == 0 || timeout > most ? most : timeout, exchange_expired, exchange);
	return true;
}

/* The body is at hand. */
static void
exchange_prepare(Exchange *exchange)
{
	if (namespaces_concern(exchange))
		namespaces_ask(exchange, exchange->route->namespace_name, exchange_perform);
	else if (namespaces_followed() && exchange->type->namespaced && strcmp(exchange->route->verb, "deletecollection") == 0)
		namespaces_refresh(exchange, exchange->route->namespace_name, exchange_perform);
	else
		exchange_perform(exchange);
}

static void
exchange_serve(Exchange *exchange)
{
	if (!exchange->route->resource)
	{
		registry_answer(exchange);
		return;
	}
	if (answer_namespace(exchange) || !exchange_resolve(exchange))
		return;
	body_take(exchange, exchange_prepare);
}

void
exchange_perform(Exchange *exchange)
{
	exchange->request = exchange_request_text(exchange);
	for (size_t i = 0; i < sizeof(verb_starts) / sizeof(verb_starts[0]); i++)
	{
		if (strcmp(exchange->route->verb, verb_starts[i].verb) == 0)
		{
			verb_starts[i].start(exchange);
			return;
		}
	}
}

static void
exchange_allowed(Exchange *exchange)
{
	const Route *route = exchange->route;

	if (!route->resource)
	{
		exchange->counted_elsewhere = health_answer(exchange->http);
		if (exchange->counted_elsewhere)
			return;
		if (strcmp(route->path, "/metrics") == 0)
		{
			answer_metrics(exchange);
			return;
		}
	}
	if (shutting_down)
	{
		reply_plain(exchange, 429, "The apiserver is shutting down, please try again later.\n", 5);
		return;
	}
	if (!exchange_start_clock(exchange))
		return;
	if (export_serves(route))
	{
		export_start(exchange);
		return;
	}
	if (registry_serves(route))
		exchange_serve(exchange);
	else
		registry_refresh(exchange, exchange_serve);
}

bool
exchange_applies(const Exchange *exchange)
{
	static const char apply[] = "application/apply-patch+";
	const char *content_type = http_header(exchange->http, "content-type");

	return strcmp(exchange->route->verb, "patch") == 0 && content_type != NULL &&
		strncasecmp(content_type, apply, sizeof(apply) - 1) == 0;
}

/* AUTHZ-13.  Asked ahead, because nobody can be asked while the database writes. */
static void
exchange_create_authorized(void *state, Decision decision, const char *reason)
{
	Exchange   *exchange = state;
	AccessAttributes create = exchange->access;

	if (decision != DECISION_ALLOW && decision != DECISION_DENY)
	{
		answer_undecided(exchange, decision);
		return;
	}
	create.verb = "create";
	exchange->create_denied = decision == DECISION_DENY;
	if (exchange->create_denied)
		exchange->create_denial = identity_denial(&exchange->arena, exchange->user, &create, reason);
	exchange_allowed(exchange);
}

static void
exchange_authorized(void *state, Decision decision, const char *reason)
{
	Exchange   *exchange = state;
	const AccessAttributes *access = &exchange->access;
	AccessAttributes create;

	switch (decision)
	{
		case DECISION_ALLOW:
			if (!exchange_applies(exchange))
			{
				exchange_allowed(exchange);
				break;
			}
			create = *access;
			create.verb = "create";
			identity_authorize(&exchange->arena, exchange->user, &create, &exchange->question, exchange_create_authorized, exchange);
			break;
		case DECISION_DENY:
			answer_forbidden(exchange, access, reason);
			break;
		case DECISION_ERROR:
		case DECISION_BUSY:
			answer_undecided(exchange, decision);
			break;
	}
}

static void
exchange_expired(void *state)
{
	Exchange   *exchange = state;

	if (exchange->expired != NULL)
		exchange->expired(exchange);
	else
		reply_timeout(exchange);
}
