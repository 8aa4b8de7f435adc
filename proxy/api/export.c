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
#include "api/reply.h"

bool
export_serves(const Route *route)
{
	return !route->resource && export_path(route->path);
}

void
export_start(Exchange *exchange)
{
	const Route *route = exchange->route;
	StatusDetails details = {0};
	const char *why = "";
	int			code;

	if (strcmp(route->method, "GET") != 0 && strcmp(route->method, "HEAD") != 0)
	{
		reply_method_not_allowed(exchange, "GET, HEAD");
		return;
	}
	exchange->request = export_request(&exchange->arena, route, http_header(exchange->http, "accept"), &code, &why);
	if (exchange->request.bytes == NULL)
	{
		reply_status(exchange, code, code == 406 ? "NotAcceptable" : "BadRequest", why, code == 406 ? &details : NULL);
		return;
	}
	exchange->verb = "export";
	list_start(exchange, PG_EXPORT);
}
