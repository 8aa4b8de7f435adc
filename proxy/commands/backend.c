/*-------------------------------------------------------------------------
 *
 * backend.c
 *	  The Service that an APIService will name: whether it is ready, and what it serves.
 *
 * Reference: k8s-conformance 1.1, and kube-aggregator's remote_available_controller.go.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/backend.h"

#include <libpq-fe.h>
#include <string.h>

#include "cluster/transfer.h"

/* A Service with hundreds of endpoints has them in slices of at most 1000. */
#define SLICES_LIMIT ((size_t) 16 * 1024 * 1024)

static const JsonNode *
item_of(const JsonNode *array, size_t i)
{
	return array != NULL && array->kind == JSON_KIND_ARRAY && i < array->u.array.count ? array->u.array.items[i] : NULL;
}

static bool
is_integer(const JsonNode *node, int value)
{
	return node != NULL && node->kind == JSON_KIND_INTEGER && node->u.integer == value;
}

/* ---------- endpoints ---------- */

/* Whether a port of a Service or of a slice has that name; "": no name. */
static bool
has_name(const JsonNode *port, const char *name)
{
	const JsonNode *node = json_get(port, "name");

	if (name[0] == '\0' && (node == NULL || node->kind == JSON_KIND_NULL))
		return true;
	return json_string_is(node, name);
}

/* The port of a Service with that number, or NULL. */
static const JsonNode *
port_of(const JsonNode *service, int number)
{
	const JsonNode *ports = json_path(service, "spec", "ports", NULL);
	const JsonNode *port;

	for (size_t i = 0; (port = item_of(ports, i)) != NULL; i++)
		if (is_integer(json_get(port, "port"), number))
			return port;
	return NULL;
}

/* HOST:PORT of a ready endpoint of a slice, or NULL. */
static const char *
ready_in(Arena *arena, const JsonNode *slice, const char *port_name)
{
	const JsonNode *ports = json_get(slice, "ports");
	const JsonNode *endpoints = json_get(slice, "endpoints");
	const JsonNode *port;
	const JsonNode *number = NULL;
	const JsonNode *endpoint;

	for (size_t i = 0; number == NULL && (port = item_of(ports, i)) != NULL; i++)
		if (has_name(port, port_name))
			number = json_get(port, "port");
	if (number == NULL || number->kind != JSON_KIND_INTEGER)
		return NULL;
	for (size_t i = 0; (endpoint = item_of(endpoints, i)) != NULL; i++)
	{
		const JsonNode *ready = json_path(endpoint, "conditions", "ready", NULL);
		const JsonNode *address = item_of(json_get(endpoint, "addresses"), 0);

		/* An unknown state counts as ready. */
		if ((ready != NULL && ready->kind == JSON_KIND_BOOL && !ready->u.boolean) || address == NULL ||
			address->kind != JSON_KIND_STRING)
			continue;
		return arena_printf(arena, memchr(address->u.string.bytes, ':', address->u.string.len) ? "[%s]:%d" : "%s:%d",
							json_text_cstring(arena, address->u.string), (int) number->u.integer);
	}
	return NULL;
}

static BackendState
look_for_endpoint(Asker *kube, Arena *arena, const ServiceAddress *service, const char *port_name, const char **address,
				  const char **why)
{
	Ask			question = {.answer_limit = SLICES_LIMIT};
	Answer		answer;
	const JsonNode *slices;
	const JsonNode *slice;

	question.path = arena_printf(arena, "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?labelSelector=%s%s",
								 service->namespace, "kubernetes.io%2Fservice-name%3D", service->name);
	slices = json_get(ask_document(kube, arena, &question, &answer), "items");
	if (answer.why != NULL)
	{
		*why = answer.why;
		return BACKEND_WRONG;
	}
	for (size_t i = 0; (slice = item_of(slices, i)) != NULL; i++)
	{
		*address = ready_in(arena, slice, port_name);
		if (*address != NULL)
			return BACKEND_READY;
	}
	*why = arena_printf(arena, "the Service %s/%s has no ready endpoint", service->namespace, service->name);
	return BACKEND_NOT_YET;
}

BackendState
backend_look(Asker *kube, Arena *arena, const ServiceAddress *service, const char **address, const char **why)
{
	Ask			question = {0};
	Answer		answer;
	const JsonNode *document;
	const JsonNode *port;
	const char *external;
	const char *port_name;

	question.path = arena_printf(arena, "/api/v1/namespaces/%s/services/%s", service->namespace, service->name);
	document = ask_document(kube, arena, &question, &answer);
	if (document == NULL && answer.status == 404)
	{
		*why = arena_printf(arena, "there is no Service %s/%s", service->namespace, service->name);
		return BACKEND_NOT_YET;
	}
	if (document == NULL)
	{
		*why = answer.why;
		return BACKEND_WRONG;
	}

	/*
	 * A Service of type ExternalName has no endpoints: kube-apiserver connects to its name and the APIService's port.
	 */
	external = json_get_cstring(arena, json_get(document, "spec"), "externalName");
	if (json_string_is(json_path(document, "spec", "type", NULL), "ExternalName") && external != NULL)
	{
		*address = arena_printf(arena, "%s:%d", external, service->port);
		return BACKEND_READY;
	}
	port = port_of(document, service->port);
	if (port == NULL)
	{
		*why = arena_printf(arena, "the Service %s/%s has no port %d", service->namespace, service->name,
							service->port);
		return BACKEND_WRONG;
	}
	port_name = json_get_cstring(arena, port, "name");
	return look_for_endpoint(kube, arena, service, port_name == NULL ? "" : port_name, address, why);
}

/* ---------- what is served ---------- */

static void
add_name(Arena *arena, NameList *list, size_t *capacity, const char *name)
{
	list->names = arena_grow(arena, list->names, list->count, sizeof(*list->names), capacity);
	list->names[list->count++] = name;
}

bool
backend_served(Asker *server, Arena *arena, const char *group, const char *version, NameList *plurals, Answer *answer)
{
	Ask			question = {.path = arena_printf(arena, "/apis/%s/%s", group, version), .attempts = 2};
	const JsonNode *resources = json_get(ask_document(server, arena, &question, answer), "resources");
	const JsonNode *resource;
	size_t		capacity = 0;

	memset(plurals, 0, sizeof(*plurals));
	if (answer->status == 404)
		return true;
	if (answer->why != NULL)
		return false;
	for (size_t i = 0; (resource = item_of(resources, i)) != NULL; i++)
	{
		const char *name = json_get_cstring(arena, resource, "name");

		if (name != NULL && strchr(name, '/') == NULL)
			add_name(arena, plurals, &capacity, name);
	}
	return true;
}

/* libpq's messages end with a newline. */
static const char *
pg_message(Arena *arena, const char *message)
{
	size_t		len = strlen(message);

	while (len > 0 && message[len - 1] == '\n')
		len--;
	return arena_strndup(arena, message, len);
}

static bool
read_registered(PGconn *connection, Arena *arena, const char *const *parameters, NameList *plurals, const char **why)
{
	static const char query[] = "SELECT r.resource FROM kube_reports_internal.api_registry($1::uuid) r "
	"WHERE r.\"group\" = $2 AND r.version = $3";
	size_t		capacity = 0;
	PGresult   *result;
	bool		good;

	PQclear(PQexec(connection, "SET statement_timeout = '10s'"));
	result = PQexecParams(connection, query, 3, NULL, parameters, NULL, NULL, 0);
	good = PQresultStatus(result) == PGRES_TUPLES_OK;
	for (int row = 0; good && row < PQntuples(result); row++)
		add_name(arena, plurals, &capacity, arena_strdup(arena, PQgetvalue(result, row, 0)));
	if (!good)
		*why = pg_message(arena, PQresultErrorMessage(result));
	PQclear(result);
	return good;
}

bool
backend_registered(Arena *arena, const char *database, const char *cluster, const char *group, const char *version,
				   NameList *plurals, const char **why)
{
	static const char *const keywords[] =
	{"dbname", "connect_timeout", "tcp_user_timeout", "fallback_application_name", NULL};
	const char *const values[] = {database, "10", "10000", "kube-reports-proxy apiservice", NULL};
	const char *parameters[] = {cluster, group, version};
	PGconn	   *connection = PQconnectdbParams(keywords, values, 1);
	bool		good = PQstatus(connection) == CONNECTION_OK;

	memset(plurals, 0, sizeof(*plurals));
	if (good)
		good = read_registered(connection, arena, parameters, plurals, why);
	else
		*why = pg_message(arena, PQerrorMessage(connection));
	PQfinish(connection);
	return good;
}
