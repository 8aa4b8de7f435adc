/*-------------------------------------------------------------------------
 *
 * exchange.c
 *	  The life of an exchange: begins and ends with its HTTP request.
 *
 *-------------------------------------------------------------------------
 */
#include "api/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/allocate.h"
#include "base/metrics.h"

static void exchange_closed(void *state);

static void
count_under_way(Exchange *exchange)
{
	const char *method = http_method(exchange->http);

	if (strcmp(exchange->access.verb, "watch") == 0)
		return;
	exchange->under_way = true;
	exchange->gauge = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ? GAUGE_READING : GAUGE_MUTATING;
	metrics_gauge_add(exchange->gauge, 1);
}

static void
set_target(Exchange *exchange)
{
	const AccessAttributes *access = &exchange->access;
	HttpTarget	target = {.verb = access->verb};

	if (access->resource)
	{
		target.group = access->group;
		target.version = access->version;
		target.resource = access->resource_name;
		target.subresource = access->subresource;
		target.namespace_name = access->namespace_name;
		target.name = access->name;
	}
	http_set_target(exchange->http, &target);
}

Exchange *
exchange_open(HttpRequest *request, void (*refuse) (Exchange *exchange, const char *why))
{
	Exchange   *exchange = allocate(sizeof(Exchange));
	const char *error = NULL;

	exchange->http = request;
	exchange->verb = "";
	exchange->started = loop_now();
	exchange->head = strcmp(http_method(request), "HEAD") == 0;
	arena_init(&exchange->arena);
	http_on_close(request, exchange_closed, exchange);
	exchange->route = arena_alloc0(&exchange->arena, sizeof(Route));
	if (!route_parse(&exchange->arena, http_method(request), http_path(request), http_query(request), exchange->route,
					 &error))
	{
		refuse(exchange, error);
		return NULL;
	}
	access_attributes(&exchange->arena, exchange->route, &exchange->access);
	set_target(exchange);
	count_under_way(exchange);
	return exchange;
}

void
exchange_hold(Exchange *exchange, void *work, void (*let_go) (Exchange *exchange), void (*expired) (Exchange *exchange))
{
	exchange->work = work;
	exchange->let_go = let_go;
	exchange->expired = expired;
}

void
exchange_release(Exchange *exchange)
{
	exchange_hold(exchange, NULL, NULL, NULL);
}

uint64_t
exchange_time_left(const Exchange *exchange)
{
	uint64_t	now = loop_now();

	return exchange->deadline.due > now ? exchange->deadline.due - now : 1;
}

void
exchange_note_database(Exchange *exchange)
{
	PgTimes		times = pg_times();

	http_add_database_time(exchange->http, times.waited, times.taken);
}

void
exchange_cancel_job(Exchange *exchange)
{
	OffloadJob *job = exchange->job;

	exchange->job = NULL;
	if (job != NULL)
		offload_cancel(job);
}

bool
exchange_applies(const Exchange *exchange)
{
	static const char apply[] = "application/apply-patch+";
	const char *content_type = http_header(exchange->http, "content-type");

	return strcmp(exchange->route->verb, "patch") == 0 && content_type != NULL &&
		strncasecmp(content_type, apply, sizeof(apply) - 1) == 0;
}

static void
exchange_closed(void *state)
{
	Exchange   *exchange = state;
	const RegistryType *type = exchange->type;

	identity_cancel(&exchange->question);
	if (exchange->let_go != NULL)
		exchange->let_go(exchange);
	if (exchange->call != NULL)
		pg_cancel(exchange->call);
	exchange_cancel_job(exchange);
	loop_timer_stop(&exchange->deadline);
	if (exchange->under_way)
		metrics_gauge_add(exchange->gauge, -1);
	if (!exchange->counted_elsewhere)
		metrics_request(exchange->verb, type != NULL ? type->group : "", type != NULL ? type->version : "",
						type != NULL ? type->resource : "", exchange->code,
						(double) (loop_now() - exchange->started) / 1000);
	registry_release(exchange->registry);
	arena_free(&exchange->arena);
	free(exchange);
}

static void
exchange_expired(void *state)
{
	Exchange   *exchange = state;

	if (exchange->expired != NULL)
	{
		exchange->expired(exchange);
		return;
	}
	if (exchange->let_go != NULL)
		exchange->let_go(exchange);
	exchange_release(exchange);
	exchange->late(exchange);
}

void
exchange_set_deadline(Exchange *exchange, uint64_t milliseconds, void (*late) (Exchange *exchange))
{
	exchange->late = late;
	loop_timer_start(&exchange->deadline, milliseconds, exchange_expired, exchange);
}
