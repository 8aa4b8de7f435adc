/*-------------------------------------------------------------------------
 *
 * export.c
 *	  Results and events as JSON lines or CSV: /v1/export/...
 *
 * The query becomes a filter for api_export(), which answers in pieces; list.c
 * streams the pieces.  When a later piece fails, the connection is reset, so
 * that no client takes half an export for a whole one.
 *
 *-------------------------------------------------------------------------
 */
#include "api/export.h"

#include <string.h>

#include "api/export_request.h"
#include "api/list.h"
#include "api/namespace_selector.h"
#include "api/policy_reporter.h"
#include "api/reply.h"

bool
export_serves(const Route *route)
{
	return !route->resource && export_path(route->path);
}

bool
export_takes_basic(const Route *route)
{
	return !route->resource && reporter_prefix(route->path);
}

/* resolved as for export_request(). */
static void
export_ask(Exchange *exchange, JsonNode *resolved)
{
	StatusDetails details = {0};
	const char *why = "";
	int			code;

	exchange->request = export_request(&exchange->arena, exchange->route, http_header(exchange->http, "accept"),
									   resolved, &code, &why);
	if (exchange->request.bytes == NULL)
	{
		reply_status(exchange, code, code == 406 ? "NotAcceptable" : "BadRequest", why, code == 406 ? &details : NULL);
		return;
	}
	list_start(exchange, PG_EXPORT);
}

void
export_start(Exchange *exchange)
{
	const char *method = exchange->route->method;
	ReporterTarget target;

	if (reporter_target(exchange->route->path, &target) && target.selects)
	{
		if (strcmp(method, "POST") != 0)
			reply_method_not_allowed(exchange, "POST");
		else if (target.cluster.bytes != NULL)
			reply_status(exchange, 501, "NotImplemented", "this proxy does not know the labels of namespaces of "
						 "another cluster", NULL);
		else
		{
			exchange->verb = "export";
			namespace_selector_ask(exchange, export_ask);
		}
		return;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
	{
		reply_method_not_allowed(exchange, "GET, HEAD");
		return;
	}
	exchange->verb = "export";
	export_ask(exchange, NULL);
}
