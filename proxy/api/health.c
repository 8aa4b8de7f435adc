/*-------------------------------------------------------------------------
 *
 * health.c
 *	  /livez, /readyz, /healthz and /metrics.
 *
 * Texts and codes are the same as kube-apiserver's.  livez and healthz check
 * only the process, because a restart of the process does not bring a database
 * back.  readyz fails when the database has been away for some seconds, and
 * from the first SIGTERM on.  The log says why a check fails.  The caller is
 * told the reason only at the path of a single check.
 *
 *-------------------------------------------------------------------------
 */
#include "api/health.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/termination.h"
#include "api/api.h"
#include "api/result_metrics.h"

/* How long the database may be away before readyz fails, in milliseconds. */
#define DATABASE_GRACE 3000

#define MAX_EXCLUDED 16

typedef struct Check
{
	const char *name;
	bool		for_ready_only;
	bool		(*passes) (const char **why);
} Check;

static bool always(const char **why);
static bool database_answers(const char **why);
static bool not_shutting_down(const char **why);

static const Check checks[] =
{
	{"ping", false, always},
	{"log", false, always},
	{"database", true, database_answers},
	{"shutdown", true, not_shutting_down},
};

#define CHECK_COUNT (sizeof(checks) / sizeof(checks[0]))

static bool
always(const char **why)
{
	return true;
}

static bool
database_answers(const char **why)
{
	static bool ever;
	static uint64_t last_at;

	if (api_ready(why))
	{
		ever = true;
		last_at = loop_now();
		return true;
	}
	return ever && loop_now() - last_at < DATABASE_GRACE;
}

static bool
not_shutting_down(const char **why)
{
	*why = "process is shutting down";
	return !termination_begun();
}

void
health_tick(void)
{
	static uint64_t born_at;
	static bool failing;
	const char *why = "unknown";
	bool		passes = database_answers(&why);

	/* Do not log failures of the first moments after the start. */
	if (born_at == 0)
		born_at = loop_now();
	if (loop_now() - born_at < DATABASE_GRACE)
		return;
	if (!passes && !failing)
		log_line(LOG_ERROR, "readyz fails: %s", why);
	else if (passes && failing)
		log_line(LOG_NOTICE, "readyz passes again");
	failing = !passes;
}

static void
send_text(HttpRequest *request, int status, const char *type, const char *text, size_t len)
{
	HttpHeader	headers[] = {{"content-type", type}, {"x-content-type-options", "nosniff"}};

	http_reply(request, status, headers, 2, text, len);
}

static void
send_plain(HttpRequest *request, int status, const char *text)
{
	send_text(request, status, "text/plain; charset=utf-8", text, strlen(text));
}

static int
compare_names(const void *left, const void *right)
{
	return strcmp(*(const char *const *) left, *(const char *const *) right);
}

/* Reads from the query whether verbose is set and which checks are excluded (each once, sorted). */
static size_t
read_query(HttpRequest *request, bool *verbose, const char **excluded)
{
	const char *query = http_query(request);
	size_t		count = 0;
	size_t		kept = 0;

	*verbose = false;
	while (*query != '\0')
	{
		size_t		len = strcspn(query, "&");

		if (strncmp(query, "verbose", 7) == 0 && (len == 7 || query[7] == '='))
			*verbose = true;
		else if (strncmp(query, "exclude=", 8) == 0 && count < MAX_EXCLUDED)
			excluded[count++] = arena_strndup(http_arena(request), query + 8, len - 8);
		query += len;
		query += strspn(query, "&");
	}
	if (count > 0)
		qsort(excluded, count, sizeof(*excluded), compare_names);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || strcmp(excluded[kept - 1], excluded[i]) != 0)
			excluded[kept++] = excluded[i];
	return kept;
}

/* Removes a name from the list; false when the list does not have it. */
static bool
take_excluded(const char **excluded, size_t *count, const char *name)
{
	for (size_t i = 0; i < *count; i++)
		if (strcmp(excluded[i], name) == 0)
		{
			memmove(&excluded[i], &excluded[i + 1], (*count - i - 1) * sizeof(*excluded));
			(*count)--;
			return true;
		}
	return false;
}

static void
append_quoted(StrBuf *buf, const char *text)
{
	strbuf_putc(buf, '"');
	for (; *text != '\0'; text++)
	{
		if (*text == '"' || *text == '\\')
			strbuf_putc(buf, '\\');
		strbuf_putc(buf, *text);
	}
	strbuf_putc(buf, '"');
}

/* Answers with all checks of a path. */
static void
answer_all(HttpRequest *request, const char *name, bool ready)
{
	const char *excluded[MAX_EXCLUDED];
	bool		verbose;
	size_t		excluded_count = read_query(request, &verbose, excluded);
	bool		healthy = true;
	StrBuf		buf;

	strbuf_init(&buf, http_arena(request));
	for (size_t i = 0; i < CHECK_COUNT; i++)
	{
		const Check *check = &checks[i];
		const char *why = "unknown";

		if (check->for_ready_only && !ready)
			continue;
		if (take_excluded(excluded, &excluded_count, check->name))
			strbuf_printf(&buf, "[+]%s excluded: ok\n", check->name);
		else if (check->passes(&why))
			strbuf_printf(&buf, "[+]%s ok\n", check->name);
		else
		{
			strbuf_printf(&buf, "[-]%s failed: reason withheld\n", check->name);
			log_line(LOG_INFO, "%s check failed: %s: %s", name, check->name, why);
			healthy = false;
		}
	}
	if (excluded_count > 0)
	{
		strbuf_puts(&buf, "warn: some health checks cannot be excluded: no matches for ");
		for (size_t i = 0; i < excluded_count; i++)
		{
			if (i > 0)
				strbuf_putc(&buf, ',');
			append_quoted(&buf, excluded[i]);
		}
		strbuf_putc(&buf, '\n');
	}
	if (!healthy)
	{
		strbuf_printf(&buf, "%s check failed\n", name);
		send_plain(request, 500, buf.bytes);
	}
	else if (verbose)
	{
		strbuf_printf(&buf, "%s check passed\n", name);
		send_plain(request, 200, buf.bytes);
	}
	else
		send_plain(request, 200, "ok");
}

/* /readyz/<check> */
static void
answer_one(HttpRequest *request, const char *check_name, bool ready)
{
	for (size_t i = 0; i < CHECK_COUNT; i++)
	{
		const char *why = "unknown";

		if (strcmp(checks[i].name, check_name) != 0 || (checks[i].for_ready_only && !ready))
			continue;
		if (checks[i].passes(&why))
			send_plain(request, 200, "ok");
		else
			send_plain(request, 500, arena_printf(http_arena(request), "internal server error: %s\n", why));
		return;
	}
	send_plain(request, 404, "404 page not found\n");
}

/* Answers 405 and returns true unless the method is GET or HEAD. */
static bool
refuse_method(HttpRequest *request)
{
	const char *method = http_method(request);
	HttpHeader	headers[] = {{"content-type", "text/plain; charset=utf-8"}, {"allow", "GET, HEAD"}};
	static const char text[] = "405 method not allowed\n";

	if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
		return false;
	http_reply(request, 405, headers, 2, text, strlen(text));
	return true;
}

bool
health_answer(HttpRequest *request)
{
	static const char *const names[] = {"healthz", "livez", "readyz"};
	const char *path = http_path(request);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		size_t		len = strlen(names[i]);
		bool		ready = strcmp(names[i], "readyz") == 0;

		if (path[0] != '/' || strncmp(path + 1, names[i], len) != 0)
			continue;
		if (path[len + 1] != '\0' && path[len + 1] != '/')
			continue;
		if (refuse_method(request))
			return true;
		if (path[len + 1] == '\0' || path[len + 2] == '\0')
			answer_all(request, names[i], ready);
		else
			answer_one(request, path + len + 2, ready);
		return true;
	}
	return false;
}

typedef struct MetricsAnswer
{
	HttpRequest *request;
	ResultScrape scrape;
} MetricsAnswer;

static void
answer_metrics(void *state)
{
	MetricsAnswer *answer = state;
	StrBuf		buf;

	strbuf_init(&buf, http_arena(answer->request));
	metrics_write(&buf);
	result_metrics_write(&buf);
	send_text(answer->request, 200, METRICS_CONTENT_TYPE, buf.bytes, buf.len);
}

static void
metrics_closed(void *state)
{
	MetricsAnswer *answer = state;

	result_metrics_cancel(&answer->scrape);
}

void
health_request(HttpRequest *request)
{
	MetricsAnswer *answer;

	if (health_answer(request))
		return;
	if (strcmp(http_path(request), "/metrics") != 0)
	{
		send_plain(request, 404, "404 page not found\n");
		return;
	}
	if (refuse_method(request))
		return;
	answer = arena_alloc0(http_arena(request), sizeof(MetricsAnswer));
	answer->request = request;
	http_on_close(request, metrics_closed, answer);
	result_metrics_refresh(&answer->scrape, answer_metrics, answer);
}
