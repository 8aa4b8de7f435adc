/*-------------------------------------------------------------------------
 *
 * backend.c
 *	  The Service that an APIService will name: whether it is ready, and which types it serves.
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

/* ---------- endpoints ---------- */

/* Whether a port of a Service or of a slice has a name; "": whether it has none. */
static bool
has_name(const json_t *port, const char *name)
{
	const json_t *value = json_object_get(port, "name");

	return (name[0] == '\0' && (value == NULL || json_is_null(value))) || kube_json_is(value, name);
}

/* Returns the port of a Service with that number, or NULL. */
static const json_t *
port_of(const json_t *service, int number)
{
	size_t		i;
	json_t	   *port;

	json_array_foreach(kube_json_at(service, "spec", "ports", NULL), i, port)
		if (json_integer_value(json_object_get(port, "port")) == number)
		return port;
	return NULL;
}

/* Returns HOST:PORT of a ready endpoint of a slice, or NULL. */
static const char *
ready_in(Arena *arena, const json_t *slice, const char *port_name)
{
	const json_t *number = NULL;
	size_t		i;
	json_t	   *port;
	json_t	   *endpoint;

	json_array_foreach(json_object_get(slice, "ports"), i, port)
		if (number == NULL && has_name(port, port_name))
		number = json_object_get(port, "port");
	if (!json_is_integer(number))
		return NULL;
	json_array_foreach(json_object_get(slice, "endpoints"), i, endpoint)
	{
		const char *address = kube_json_text(json_array_get(json_object_get(endpoint, "addresses"), 0), NULL);

		/* An unknown state counts as ready. */
		if (!json_is_false(kube_json_at(endpoint, "conditions", "ready", NULL)) && address != NULL)
			return arena_printf(arena, strchr(address, ':') != NULL ? "[%s]:%d" : "%s:%d", address,
								(int) json_integer_value(number));
	}
	return NULL;
}

static BackendState
look_for_endpoint(Asker *kube, Arena *arena, const ServiceAddress *service, const char *port_name, const char **address,
				  const char **why)
{
	Ask			question = {.answer_limit = SLICES_LIMIT};
	Answer		answer;
	json_auto_t *slices = NULL;
	size_t		i;
	json_t	   *slice;

	question.path = arena_printf(arena, "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?labelSelector=%s%s",
								 service->namespace, "kubernetes.io%2Fservice-name%3D", service->name);
	slices = ask_document(kube, arena, &question, &answer);
	if (answer.why != NULL)
	{
		*why = answer.why;
		return BACKEND_WRONG;
	}
	if (!kube_json_is_list(slices))
	{
		*why = "the answer of kube-apiserver for EndpointSlices is no list";
		return BACKEND_WRONG;
	}
	json_array_foreach(json_object_get(slices, "items"), i, slice)
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
	json_auto_t *document = NULL;
	const json_t *port;
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
	external = kube_json_text(document, "spec", "externalName", NULL);
	if (kube_json_is(kube_json_at(document, "spec", "type", NULL), "ExternalName") && external != NULL)
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
	port_name = kube_json_text(port, "name", NULL);
	return look_for_endpoint(kube, arena, service, port_name == NULL ? "" : port_name, address, why);
}

/* ---------- the served types ---------- */

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
	json_auto_t *list = ask_document(server, arena, &question, answer);
	size_t		capacity = 0;
	size_t		i;
	json_t	   *resource;

	memset(plurals, 0, sizeof(*plurals));
	if (answer->status == 404)
		return true;
	if (answer->why != NULL)
		return false;
	json_array_foreach(json_object_get(list, "resources"), i, resource)
	{
		const char *name = kube_json_text(resource, "name", NULL);

		if (name != NULL && strchr(name, '/') == NULL)
			add_name(arena, plurals, &capacity, arena_strdup(arena, name));
	}
	return true;
}

/* Returns a message of libpq without the newline at its end. */
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
