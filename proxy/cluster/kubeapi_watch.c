/*-------------------------------------------------------------------------
 *
 * kubeapi_watch.c
 *	  The proxy as a client of kube-apiserver: long-lived watches.
 *
 * First comes a list of the newest state, in pages, then a watch from the
 * version of the list.  The list names no resourceVersion, so that it is never
 * answered from an old cache.  Bookmarks keep the version fresh while nothing
 * changes.  A watch that ends is resumed at its version.  When that version is
 * too old (410), or when kube-apiserver answers with another status than 200,
 * a new list comes first.  A handler with live() always gets a new list,
 * because a resumed watch does not tell when all missed events have arrived.
 *
 * Memory is limited to one page or one event: bytes are parsed as they arrive,
 * and a page or an event that is too large ends the transfer.
 *
 *-------------------------------------------------------------------------
 */
#include "cluster/kubeapi.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/transfer.h"

#define PAGE_SIZE 250
#define PAGE_LIMIT (64 * 1024 * 1024)
#define PAGE_TIMEOUT_MS 60000L
/* An object of etcd has at most 1.5 MiB. */
#define EVENT_LIMIT (8 * 1024 * 1024)

/* kube-apiserver ends a watch after a random time in this range; the proxy ends it a little later. */
#define WATCH_LEAST_S 300
#define WATCH_SPREAD_S 300
#define WATCH_GRACE_S 30

/* The delay before another attempt: doubled each time until a watch has lasted HELD_MS. */
#define FIRST_DELAY_MS 200
#define LAST_DELAY_MS 10000
#define HELD_MS 5000

typedef struct KubeWatch
{
	KubeApi    *api;
	char	   *path;
	char	   *query;			/* with a leading &, or "" */
	const KubeWatchHandler *handler;
	void	   *state;
	Arena		arena;			/* memory of the present transfer */
	StrBuf		received;		/* a page, or lines of a watch that were not read yet */
	int			status;			/* status of the present answer; 0 before the answer begins */
	char	   *version;		/* version from which to watch; NULL: list first */
	char	   *next_page;		/* token for the next page of the list; NULL for the first page */
	bool		lost;			/* the watch has lost its position */
	bool		live;			/* the last value that the handler's live() got */
	uint64_t	begun_at;
	uint64_t	delay;
	LoopTimer	timer;			/* fires at the next attempt */
	LoopTimer	lines_timer;	/* fires when lines wait to be read */
} KubeWatch;

static void lines_read(void *state);
static void watch_go_on(void *state);

/* ---------- one transfer after the other ---------- */

static void
answer_begun(void *state, int status)
{
	KubeWatch  *watch = state;

	watch->status = status;
	if (status == 200 && watch->version != NULL)
		loop_timer_start(&watch->lines_timer, 0, lines_read, watch);
}

static void
watch_transfer(KubeWatch *watch, const char *path, long timeout_ms, size_t limit,
			   bool (*take) (void *state, int status, const char *bytes, size_t len),
			   void (*done) (void *state, int status, const char *why))
{
	watch->status = 0;
	strbuf_init(&watch->received, &watch->arena);
	transfer_start(kubeapi_config(watch->api),
				   &(TransferRequest) {.path = path, .timeout_ms = timeout_ms, .received = &watch->received,
				   	.limit = limit, .begun = answer_begun, .take = take, .done = done, .state = watch});
}

static void
watch_later(KubeWatch *watch)
{
	/* A random delay: clients that lost the same server must not all return at once. */
	uint64_t	delay = watch->delay + arc4random_uniform((uint32_t) watch->delay / 2 + 1);

	arena_free(&watch->arena);
	loop_timer_stop(&watch->lines_timer);
	loop_timer_start(&watch->timer, delay, watch_go_on, watch);
	watch->delay = watch->delay * 2 > LAST_DELAY_MS ? LAST_DELAY_MS : watch->delay * 2;
}

static void
watch_failed(KubeWatch *watch, int status, const char *why)
{
	watch->handler->failed(watch->state, status, why);
	watch_later(watch);
}

static void
watch_set_live(KubeWatch *watch, bool live)
{
	if (watch->handler->live != NULL && watch->live != live)
	{
		watch->live = live;
		watch->handler->live(watch->state, live);
	}
}

/* ---------- the list ---------- */

static void
watch_free(KubeWatch *watch)
{
	loop_timer_stop(&watch->lines_timer);
	arena_free(&watch->arena);
	free(watch->path);
	free(watch->query);
	free(watch->version);
	free(watch->next_page);
	free(watch);
}

static void
page_done(void *state, int status, const char *why)
{
	KubeWatch  *watch = state;
	Arena	   *arena = &watch->arena;
	json_auto_t *page = NULL;
	json_t	   *items;
	json_t	   *item;
	size_t		i;
	const char *version;
	const char *next;

	if (status == 404 && watch->handler->absent != NULL)
	{
		watch->handler->absent(watch->state);
		watch_free(watch);
		return;
	}
	if (status != 200)
	{
		/* Pages expire too: begin the list again. */
		replace_text(&watch->next_page, NULL);
		watch_failed(watch, status, status == 0 ? why :
					 arena_printf(arena, "the list of %s was answered with status %d", watch->path, status));
		return;
	}
	page = kube_json_read(watch->received.bytes, watch->received.len);
	items = json_object_get(page, "items");
	version = kube_json_text(page, "metadata", "resourceVersion", NULL);
	if (!kube_json_is_list(page))
	{
		replace_text(&watch->next_page, NULL);
		watch_failed(watch, status, arena_printf(arena, "the answer to the list of %s is not a list", watch->path));
		return;
	}
	if (watch->next_page == NULL)
		watch->handler->begin(watch->state);
	json_array_foreach(items, i, item)
		watch->handler->item(watch->state, item);
	next = kube_json_text(page, "metadata", "continue", NULL);
	if (next != NULL && next[0] != '\0')
		replace_text(&watch->next_page, next);
	else
	{
		replace_text(&watch->next_page, NULL);
		replace_text(&watch->version, version);
		watch->handler->end(watch->state);
	}
	arena_free(arena);
	watch_go_on(watch);
}

static void
list_page(KubeWatch *watch)
{
	const char *path = arena_printf(&watch->arena, "%s?limit=%d%s%s%s", watch->path, PAGE_SIZE, watch->query,
									watch->next_page == NULL ? "" : "&continue=",
									watch->next_page == NULL ? "" : transfer_escape(&watch->arena, watch->next_page));

	watch_transfer(watch, path, PAGE_TIMEOUT_MS, PAGE_LIMIT, NULL, page_done);
}

/* ---------- the watch ---------- */

/* Reads one event: {"type":"ADDED","object":{...}}. */
static void
event_read(KubeWatch *watch, const char *line, size_t len)
{
	json_auto_t *event = kube_json_read(line, len);
	const json_t *object = json_object_get(event, "object");
	const char *type = kube_json_text(event, "type", NULL);
	const char *version = kube_json_text(object, "metadata", "resourceVersion", NULL);

	if (type == NULL || version == NULL || strcmp(type, "ERROR") == 0)
	{
		int			status = (int) json_integer_value(json_object_get(object, "code"));

		watch_set_live(watch, false);
		if (status != 410)
			watch->handler->failed(watch->state, status,
								   arena_printf(&watch->arena, "the watch of %s has ended with %.*s", watch->path,
												(int) (len < 200 ? len : 200), line));
		watch->lost = true;
	}
	else
	{
		replace_text(&watch->version, version);
		if (strcmp(type, "BOOKMARK") != 0)
			watch->handler->event(watch->state, type, object);
	}
}

static void
lines_take(KubeWatch *watch)
{
	StrBuf	   *received = &watch->received;
	size_t		from = 0;
	char	   *newline;

	while (from < received->len && !watch->lost &&
		   (newline = memchr(received->bytes + from, '\n', received->len - from)) != NULL)
	{
		size_t		len = (size_t) (newline - received->bytes) - from;

		event_read(watch, received->bytes + from, len);
		from += len + 1;
	}
	if (from == 0)
		return;
	memmove(received->bytes, received->bytes + from, received->len - from);
	received->len -= from;
}

/* Reads the waiting lines.  Called from the loop, not by libcurl, because the handler may start calls. */
static void
lines_read(void *state)
{
	KubeWatch  *watch = state;

	lines_take(watch);
	if (!watch->lost)
		watch_set_live(watch, true);
}

static bool
event_take(void *state, int status, const char *bytes, size_t len)
{
	KubeWatch  *watch = state;

	if (status == 200 && memchr(bytes, '\n', len) != NULL)
		loop_timer_start(&watch->lines_timer, 0, lines_read, watch);
	return true;
}

static void
watch_done(void *state, int status, const char *why)
{
	KubeWatch  *watch = state;

	/* Read also the lines that came before a connection broke. */
	if (watch->status == 200)
		lines_take(watch);
	watch_set_live(watch, false);
	if (loop_now() - watch->begun_at >= HELD_MS)
		watch->delay = FIRST_DELAY_MS;
	/* After anything but a normal end or a broken connection, the version itself may be invalid. */
	if (watch->lost || (status != 0 && status != 200) || watch->handler->live != NULL)
		replace_text(&watch->version, NULL);
	if (status == 0)
		watch_failed(watch, status, why);
	else if (status != 200 && status != 410)
		watch_failed(watch, status, arena_printf(&watch->arena, "the watch of %s was answered with status %d",
												 watch->path, status));
	else
		watch_later(watch);
}

static void
watch_begin(KubeWatch *watch)
{
	int			seconds = WATCH_LEAST_S + (int) arc4random_uniform(WATCH_SPREAD_S);
	const char *path = arena_printf(&watch->arena,
									"%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s%s",
									watch->path, seconds, transfer_escape(&watch->arena, watch->version), watch->query);

	watch->lost = false;
	watch->begun_at = loop_now();
	watch_transfer(watch, path, (seconds + WATCH_GRACE_S) * 1000L, EVENT_LIMIT, event_take, watch_done);
}

static void
watch_go_on(void *state)
{
	KubeWatch  *watch = state;

	arena_init(&watch->arena);
	if (watch->version == NULL)
		list_page(watch);
	else
		watch_begin(watch);
}

void
kubeapi_watch(KubeApi *api, const char *path, const char *query, const KubeWatchHandler *handler, void *state)
{
	KubeWatch  *watch = allocate(sizeof(*watch));
	StrBuf		escaped;

	watch->api = api;
	watch->handler = handler;
	watch->state = state;
	watch->delay = FIRST_DELAY_MS;
	replace_text(&watch->path, path);
	arena_init(&watch->arena);
	strbuf_init(&escaped, &watch->arena);
	if (query != NULL)
		strbuf_printf(&escaped, "&%s", query);
	replace_text(&watch->query, escaped.len > 0 ? escaped.bytes : "");
	arena_free(&watch->arena);
	watch_go_on(watch);
}
