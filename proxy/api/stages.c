/*-------------------------------------------------------------------------
 *
 * stages.c
 *	  The stages that a request goes through, from the first to its answer.
 *
 * The proxy authenticates and authorizes a request before any answer says
 * whether the named object exists.  Then the verb selects the function that
 * does the work.
 *
 * Reference: k8s-conformance sections 5.1, 5.2, 6.3, 20.
 *
 *-------------------------------------------------------------------------
 */
#include "api/exchange.h"

#include <string.h>

#include "engine/api/metadata.h"
#include "api/api.h"
#include "api/body.h"
#include "api/collection.h"
#include "api/export.h"
#include "api/get.h"
#include "api/health.h"
#include "api/list.h"
#include "api/namespaces.h"
#include "api/registry_answer.h"
#include "api/reply.h"
#include "api/result_metrics.h"
#include "api/watch.h"
#include "api/batch.h"
#include "base/config.h"
#include "base/metrics.h"

typedef struct Stage
{
	void		(*begin) (Exchange *exchange);
} Stage;

static void authenticate(Exchange *exchange);
static void authorize(Exchange *exchange);
static void authorize_create(Exchange *exchange);
static void answer_apart(Exchange *exchange);
static void start_clock(Exchange *exchange);
static void export_results(Exchange *exchange);
static void know_registry(Exchange *exchange);
static void know_type(Exchange *exchange);
static void know_namespace(Exchange *exchange);
static void perform(Exchange *exchange);

/*
 * The stages in their order.  Each stage ends with exchange_next(), at once or after a wait, or with an answer.  A
 * stage also ends when the request ends, and, from start_clock on, when the deadline passes (504).
 */
static const Stage stages[] = {
	{authenticate},				/* waits for a TokenReview */
	{authorize},				/* waits for a SubjectAccessReview */
	{authorize_create},			/* an apply may create: waits for another SubjectAccessReview */
	{answer_apart},				/* health and metrics; refuses all other requests during a shutdown */
	{start_clock},
	{export_results},			/* waits for the database */
	{know_registry},			/* an unknown type may be new: waits for a reading of the registry */
	{know_type},				/* answers discovery */
	{body_take},				/* converts YAML to JSON: waits for a thread when the body is large */
	{know_namespace},			/* waits for kube-apiserver when the namespace is unknown */
	{perform},					/* waits for the database; batch.c may look up the namespace and repeat this stage */
};

void
api_request(HttpRequest *request)
{
	Exchange   *exchange = exchange_open(request, reply_bad_request);

	if (exchange != NULL)
		exchange_again(exchange);
}

void
exchange_again(Exchange *exchange)
{
	stages[exchange->stage].begin(exchange);
}

void
exchange_next(Exchange *exchange)
{
	exchange->stage++;
	exchange_again(exchange);
}

void
exchange_find_type_again(Exchange *exchange)
{
	registry_release(exchange->registry);
	exchange->registry = NULL;
	exchange->type = NULL;
	for (exchange->stage = 0; stages[exchange->stage].begin != know_registry;)
		exchange->stage++;
	registry_distrust();
	registry_refresh(exchange);
}

/* ---------- authentication and authorization ---------- */

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
	reply_status(exchange, 403, "Forbidden", identity_denial(&exchange->arena, exchange->user, access, reason),
				 &details);
}

/* Answers a request that could not be authorized: no decision was reached (AUTHZ-12). */
static void
answer_undecided(Exchange *exchange, Decision decision)
{
	if (decision == DECISION_BUSY)
		reply_too_many_requests(exchange);
	else
		reply_status(exchange, 500, "InternalError", "Internal error occurred: the request could not be authorized",
					 NULL);
}

static void
authenticated(void *state, Authentication outcome, const User *user)
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
			exchange_next(exchange);
			break;
	}
}

static void
authenticate(Exchange *exchange)
{
	exchange->question.basic = export_takes_basic(exchange->route);
	identity_authenticate(exchange->http, &exchange->arena, &exchange->question, authenticated, exchange);
}

static void
authorized(void *state, Decision decision, const char *reason)
{
	Exchange   *exchange = state;

	switch (decision)
	{
		case DECISION_ALLOW:
			exchange_next(exchange);
			break;
		case DECISION_DENY:
			answer_forbidden(exchange, &exchange->access, reason);
			break;
		case DECISION_ERROR:
		case DECISION_BUSY:
			answer_undecided(exchange, decision);
			break;
	}
}

static void
authorize(Exchange *exchange)
{
	identity_authorize(&exchange->arena, exchange->user, &exchange->access, &exchange->question, authorized, exchange);
}

static void
create_authorized(void *state, Decision decision, const char *reason)
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
	exchange_next(exchange);
}

/* AUTHZ-13.  The proxy asks before the write, because the database cannot ask kube-apiserver while it writes. */
static void
authorize_create(Exchange *exchange)
{
	AccessAttributes create = exchange->access;

	if (!exchange_applies(exchange))
	{
		exchange_next(exchange);
		return;
	}
	create.verb = "create";
	identity_authorize(&exchange->arena, exchange->user, &create, &exchange->question, create_authorized, exchange);
}

/* ---------- paths outside the API ---------- */

static void
metrics_ready(void *state)
{
	Exchange   *exchange = state;
	Reply		reply = {.code = 200, .content_type = METRICS_CONTENT_TYPE};
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
	exchange_hold(exchange, arena_alloc0(&exchange->arena, sizeof(ResultScrape)), metrics_closed, NULL);
	result_metrics_refresh(exchange->work, metrics_ready, exchange);
}

static void
answer_apart(Exchange *exchange)
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
	if (api_shutting_down())
		reply_plain(exchange, 429, "The apiserver is shutting down, please try again later.\n", 5);
	else
		exchange_next(exchange);
}

/* Starts the deadline of the request.  A watch ignores the parameter timeout (W-03). */
static void
start_clock(Exchange *exchange)
{
	uint64_t	most = (uint64_t) config.request_timeout * 1000;
	uint64_t	timeout = 0;
	const char *error = NULL;

	if (strcmp(exchange->route->verb, "watch") != 0 &&
		!route_timeout(&exchange->arena, exchange->route, &timeout, &error))
	{
		reply_bad_request(exchange, error);
		return;
	}
	exchange_set_deadline(exchange, timeout == 0 || timeout > most ? most : timeout, reply_timeout);
	exchange_next(exchange);
}

static void
export_results(Exchange *exchange)
{
	if (export_serves(exchange->route))
		export_start(exchange);
	else
		exchange_next(exchange);
}

/* ---------- the type and the namespace ---------- */

static void
answer_not_served(Exchange *exchange)
{
	StatusDetails details = {0};

	reply_status(exchange, 404, "NotFound", "the server could not find the requested resource", &details);
}

/* Answers a request whose method is no verb that the resource or its status has. */
static void
answer_not_supported(Exchange *exchange)
{
	const Route *route = exchange->route;
	StatusDetails details = {.group = route->group, .kind = route->resource_name};

	reply_status(exchange, 405, "MethodNotAllowed",
				 arena_printf(&exchange->arena, "%s is not supported on resources of kind \"%s.%s\"", route->verb,
							  route->resource_name, route->group), &details);
}

/* Finds the type (section 6.3).  When the path or the verb is not served, answers and returns false. */
static bool
find_type(Exchange *exchange)
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
	exchange->type = registry_find(exchange->registry, route->group, route->version, route->resource_name,
								   &version_known);
	if (exchange->type == NULL)
	{
		if (version_known)
			answer_not_served(exchange);
		else
			reply_plain(exchange, 404, "404 page not found\n", 0);
		return false;
	}
	/* Only lists and watches work across all namespaces (ERR-22, ERR-23).  A watch of a name is a watch of the list. */
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
		strbuf_printf(&name, "%s.%s %s not found", route->resource_name, route->group,
					  quoted(&exchange->arena, route->name));
		reply_status(exchange, 404, "NotFound", name.bytes,
					 &(StatusDetails) {.name = route->name, .group = route->group, .kind = route->resource_name});
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
	Reply		reply = {.code = 200, .content_type = "application/json"};
	StrBuf		buf;

	strbuf_init(&buf, &exchange->arena);
	if (state != NULL && strcmp(state, "missing") == 0)
	{
		status_not_found(&buf, "", "namespaces", route->name);
		reply.code = 404;
	}
	else
		strbuf_printf(&buf, "{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\"},"
					  "\"status\":{\"phase\":\"%s\"}}\n",
					  route->name, state != NULL ? "Terminating" : "Active");
	reply.body.bytes = buf.bytes;
	reply.body.len = buf.len;
	reply_send(exchange, &reply, NULL);
}

/*
 * Answers a get of a namespace.  kubectl sends it when it did not find an object in the namespace, and prints the
 * answer.  Behind the aggregator this request never reaches the proxy.  Without a cluster every valid namespace exists.
 */
static bool
answer_namespace(Exchange *exchange)
{
	const Route *route = exchange->route;
	JsonText	name = {route->name, strlen(route->name)};

	if (route->group[0] != '\0' || strcmp(route->version, "v1") != 0 ||
		strcmp(route->resource_name, "namespaces") != 0 ||
		strcmp(route->verb, "get") != 0 || route->subresource[0] != '\0' || !is_dns1123_label(name))
		return false;
	if (namespaces_followed())
		namespaces_ask(exchange, route->name, answer_known_namespace);
	else
		answer_known_namespace(exchange);
	return true;
}

static void
know_registry(Exchange *exchange)
{
	if (registry_serves(exchange->route))
		exchange_next(exchange);
	else
		registry_refresh(exchange);
}

static void
know_type(Exchange *exchange)
{
	if (!exchange->route->resource)
		registry_answer(exchange);
	else if (!answer_namespace(exchange) && find_type(exchange))
		exchange_next(exchange);
}

static void
know_namespace(Exchange *exchange)
{
	if (namespaces_needed(exchange))
		namespaces_ask(exchange, exchange->route->namespace_name, exchange_next);
	else if (namespaces_followed() && exchange->type->namespaced &&
			 strcmp(exchange->route->verb, "deletecollection") == 0)
		namespaces_refresh(exchange, exchange->route->namespace_name, exchange_next);
	else
		exchange_next(exchange);
}

/* ---------- the work ---------- */

static void
set_text(Arena *arena, JsonNode *object, const char *key, const char *value)
{
	if (value != NULL && value[0] != '\0')
		json_set(arena, object, key, json_new_cstring(arena, value));
}

/* Returns the request as the JSON object of extension/engine/api/request.h. */
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

static void
list_objects(Exchange *exchange)
{
	list_start(exchange, PG_LIST);
}

static void
delete_objects(Exchange *exchange)
{
	if (exchange->type->served != NULL)
		collection_start(exchange);
	else
		list_start(exchange, PG_DELETE_COLLECTION);
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
	{"create", batch_write},
	{"update", batch_write},
	{"patch", batch_write},
	{"delete", batch_write},
	{"deletecollection", delete_objects},
};

static void
perform(Exchange *exchange)
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
