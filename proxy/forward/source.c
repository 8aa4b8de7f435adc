/*-------------------------------------------------------------------------
 *
 * source.c
 *	  The objects of one kind in a cluster: a list, then a watch.
 *
 * A watch begins after the last event in the queue, also after kill -9.  The
 * kind is listed only when the queue has no position, or when kube-apiserver
 * has forgotten the position (410).  Each page is compared with the receiver,
 * and differences are put into the queue.  At the end the keys of the list, in
 * order, are compared again in ranges: objects that only the receiver has are
 * put into the queue as deletions.  Before a comparison, the receiver must
 * have stored every earlier batch with objects of the kind.
 *
 * While the queue is full, watches end and nothing is read.  Later the watch
 * continues; if kube-apiserver has forgotten the position meanwhile, the kind
 * is listed again.
 *
 * Kubescape's own API server gives whole objects only in some lists (see
 * kubescape.c): its kinds are listed again after an interval, and not watched.
 * Such a list may lack objects because a read has failed: only objects that two
 * lists in a row lack are deleted.
 *
 * Documents are read with the engine's JSON, which keeps numbers as they are
 * written.
 *
 *-------------------------------------------------------------------------
 */
#include "forward/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/transfer.h"
#include "forward/builder.h"
#include "forward/key_list.h"
#include "forward/kubescape.h"
#include "forward/receiver.h"
#include "forward/queue.h"

#define PAGE_SIZE 250
#define WHOLE_PAGE_SIZE 20		/* objects of Kubescape, with megabytes of vulnerabilities each */
#define PAGE_LIMIT ((size_t) 64 * 1024 * 1024)
#define PAGE_TIMEOUT_MS 60000L
#define EVENT_LIMIT ((size_t) 64 * 1024 * 1024)
#define RANGE_KEYS 4000			/* keys of the list that are compared at a time; a batch has at most 5000 items */

#define WATCH_LEAST_S 300
#define WATCH_SPREAD_S 300
#define WATCH_GRACE_S 30

#define FIRST_DELAY_MS 100
#define LAST_DELAY_MS 10000
#define HELD_MS 5000

/* The position of a kind without events is made durable after this time. */
#define SAVE_MS 30000

typedef enum SourceStep
{
	STEP_WAIT,					/* waits for the timer */
	STEP_DRAIN,					/* waits until the receiver has stored the batch drained */
	STEP_PAGE,					/* a page is being read */
	STEP_COMPARE,				/* a page is being compared */
	STEP_QUEUE,					/* differences wait for room in the queue */
	STEP_SWEEP,					/* a range of keys is being compared */
	STEP_WATCH,
	STEP_FULL					/* the queue is full; the watch has ended because of that */
} SourceStep;

typedef struct Source
{
	KubeApi    *api;
	char	   *kind;			/* type, as in --kinds */
	char	   *name;			/* kind in a document, such as PolicyReport */
	char	   *path;
	char	   *api_version;
	SourceStep	step;
	Arena		arena;			/* memory of the present transfer or page */
	StrBuf		received;
	int			status;
	Transfer   *transfer;
	ReceiverQuestion *question;
	char	   *list_version;	/* version of the present list */
	char	   *next_page;
	KeyList		listed;			/* the present list */
	KeyList		before;			/* of a kind that is listed at an interval: the list before, in order */
	bool		before_named;	/* before has each object, by its name: what both lists lack is deleted */
	uint64_t	before_at;
	const Key **kept;			/* keys that the receiver keeps, in order */
	size_t		kept_count;
	size_t		swept;			/* keys before this one were compared */
	bool		keep_all;		/* the list does not tell which objects are missing: nothing is deleted */
	uint64_t	drained;		/* the receiver must have stored this batch before a comparison */
	const JsonNode *page;
	JsonNode   *wanted;			/* differences of the page or the range */
	size_t		wanted_next;
	bool		sweeping;		/* wanted are keys to delete */
	bool		more;			/* the receiver has more keys in the range than it answered */
	bool		lost;
	bool		resync;			/* list again when the watch has ended */
	bool		whole;			/* Kubescape's own API server gives the list, whole */
	bool		followed;		/* of a kind that is listed at an interval: the last list was compared */
	size_t		empty;			/* objects of the present list that came without their contents */
	size_t		nameless;		/* those of them without names: which objects are missing is unknown */
	uint64_t	begun_at;
	uint64_t	saved_at;
	uint64_t	delay;
	char	   *seen;			/* the newest version that the watch has shown */
	LoopTimer	timer;
	LoopTimer	lines_timer;
	struct Source *next;
} Source;

static Source *sources;
static SourceCounts counts;
static uint64_t list_interval_ms;

static void go_on(void *state);
static void list_page(Source *source);
static void queue_wanted(Source *source);
static void sweep(Source *source);
static void lines_read(void *state);

static void
later(Source *source)
{
	uint64_t	delay = source->delay + arc4random_uniform((uint32_t) source->delay / 2 + 1);

	source->step = STEP_WAIT;
	loop_timer_stop(&source->lines_timer);
	loop_timer_start(&source->timer, delay, go_on, source);
	source->delay = source->delay * 2 > LAST_DELAY_MS ? LAST_DELAY_MS : source->delay * 2;
}

static void
begun(void *state, int status)
{
	Source	   *source = state;

	source->status = status;
	if (status == 200 && source->step == STEP_WATCH)
		loop_timer_start(&source->lines_timer, 0, lines_read, source);
}

/* Starts a transfer, which uses the arena of the source until its end. */
static void
transfer(Source *source, const char *path, long timeout_ms, size_t limit,
		 bool (*take) (void *state, int status, const char *bytes, size_t len),
		 void (*done) (void *state, int status, const char *why))
{
	source->status = 0;
	strbuf_init(&source->received, &source->arena);
	source->transfer = transfer_start(kubeapi_config(source->api),
									  &(TransferRequest) {.path = path, .timeout_ms = timeout_ms,
										  .received = &source->received, .limit = limit, .begun = begun, .take = take,
									  .done = done, .state = source});
}

static const char *
text_of(Arena *arena, const JsonNode *object, const char *key)
{
	const char *text = object == NULL ? NULL : json_get_cstring(arena, object, key);

	return text == NULL ? "" : text;
}

static const char *
object_key(Source *source, Arena *arena, const JsonNode *metadata)
{
	return arena_printf(arena, "%s/%s/%s", source->path, text_of(arena, metadata, "namespace"),
						text_of(arena, metadata, "name"));
}

/* A kind that is listed at an interval counts as watched while its lists can be compared. */
static void
set_followed(Source *source, bool followed)
{
	if (followed && !source->followed)
		counts.watching++;
	if (!followed && source->followed)
		counts.watching--;
	source->followed = followed;
}

/* ---------- the list ---------- */

static void
list_free(Source *source)
{
	source->empty = source->nameless = 0;
	replace_text(&source->list_version, NULL);
	replace_text(&source->next_page, NULL);
	key_list_free(&source->listed);
	source->kept = NULL;
	source->kept_count = source->swept = 0;
	source->keep_all = false;
}

static void
list_failed(Source *source, const char *why)
{
	log_line(LOG_WARNING, "the list of %s: %s", source->kind, why);
	set_followed(source, false);
	arena_free(&source->arena);
	list_free(source);
	later(source);
}

static void
note_listed(Source *source, const JsonNode *metadata)
{
	Arena	   *arena = &source->arena;

	key_list_add(&source->listed, text_of(arena, metadata, "namespace"), text_of(arena, metadata, "name"));
}

/*
 * Decides which keys the receiver keeps: those of the list, and of a kind that is listed at an interval those of the
 * list before, too.
 */
static void
choose_kept(Source *source)
{
	KeyList    *listed = &source->listed;

	key_list_sort(listed);
	source->kept = listed->keys;
	source->kept_count = listed->count;
	if (!source->whole)
		return;
	/* An object without a name may be any that the receiver has. */
	source->keep_all = source->nameless > 0 || !source->before_named
		|| loop_now() - source->before_at < list_interval_ms / 2;
	source->kept = key_list_union(listed, &source->before, &source->kept_count);
	if (source->kept_count > listed->count)
		log_line(LOG_WARNING, "the list of %s lacks %zu objects that the list before had: they are deleted when the "
				 "next list lacks them, too", source->kind, source->kept_count - listed->count);
}

/* The present list was compared with the receiver. */
static void
list_done(Source *source)
{
	key_list_free(&source->before);
	source->before_named = source->whole && source->nameless == 0;
	source->before_at = loop_now();
	if (source->whole)
	{
		source->before = source->listed;
		key_list_init(&source->listed);
	}
	list_free(source);
}

static void
put_string(StrBuf *buf, const char *text)
{
	json_write_string(buf, text, strlen(text));
}

static StrBuf
question_begin(Source *source)
{
	StrBuf		buf;

	strbuf_init(&buf, &source->arena);
	strbuf_puts(&buf, "{\"apiVersion\":\"forward/v1\",\"type\":");
	put_string(&buf, source->kind);
	strbuf_puts(&buf, ",\"items\":[");
	return buf;
}

/* Reads an array of the receiver's answer; NULL when there is none. */
static JsonNode *
answer_array(Source *source, JsonText body, const char *key, bool *more)
{
	JsonError	error;
	JsonText	text = {arena_strndup(&source->arena, body.bytes, body.len), body.len};
	JsonNode   *answer = json_parse(&source->arena, text.bytes, text.len, NULL, NULL, &error);
	JsonNode   *array = answer == NULL ? NULL : json_get(answer, key);
	JsonNode   *flag = answer == NULL ? NULL : json_get(answer, "more");

	*more = flag != NULL && flag->kind == JSON_KIND_BOOL && flag->u.boolean;
	return array != NULL && array->kind == JSON_KIND_ARRAY ? array : NULL;
}

static void
page_compared(void *state, JsonText body)
{
	Source	   *source = state;
	bool		more;

	source->question = NULL;
	source->wanted = answer_array(source, body, "wanted", &more);
	if (source->wanted == NULL)
	{
		list_failed(source, "the receiver's answer cannot be read");
		return;
	}
	source->wanted_next = 0;
	source->sweeping = false;
	source->step = STEP_QUEUE;
	queue_wanted(source);
}

/*
 * Whether an object of a page is compared and sent.  One without its contents stays as the receiver has it: only its
 * key is noted.
 */
static bool
is_usable(Source *source, const JsonNode *object)
{
	const JsonNode *metadata = json_get(object, "metadata");

	if (!source->whole || kubescape_whole(source->kind, object))
		return true;
	source->empty++;
	if (text_of(&source->arena, metadata, "name")[0] == '\0')
		source->nameless++;
	else
		note_listed(source, metadata);
	return false;
}

/* Asks the receiver which objects of the page it does not have; those without their contents leave the page. */
static void
compare_page(Source *source, const JsonNode *items)
{
	Arena	   *arena = &source->arena;
	JsonNode   *page = json_new_array(arena);
	StrBuf		question = question_begin(source);

	for (size_t i = 0; items->kind == JSON_KIND_ARRAY && i < items->u.array.count; i++)
	{
		JsonNode   *metadata = json_get(items->u.array.items[i], "metadata");

		if (!is_usable(source, items->u.array.items[i]))
			continue;
		note_listed(source, metadata);
		strbuf_puts(&question, page->u.array.count > 0 ? ",[" : "[");
		put_string(&question, text_of(arena, metadata, "namespace"));
		strbuf_putc(&question, ',');
		put_string(&question, text_of(arena, metadata, "name"));
		strbuf_putc(&question, ',');
		put_string(&question, text_of(arena, metadata, "uid"));
		strbuf_putc(&question, ',');
		put_string(&question, text_of(arena, metadata, "resourceVersion"));
		strbuf_putc(&question, ']');
		json_append(arena, page, items->u.array.items[i]);
	}
	strbuf_puts(&question, "]}");
	source->page = page;
	source->step = STEP_COMPARE;
	source->question = receiver_ask("/v1/forward/sync", (JsonText) {question.bytes, question.len}, page_compared,
									source);
}

static void
page_done(void *state, int status, const char *why)
{
	Source	   *source = state;
	Arena	   *arena = &source->arena;
	JsonError	error;
	JsonNode   *page;
	JsonNode   *items;
	JsonNode   *metadata;

	source->transfer = NULL;
	if (status != 200)
	{
		list_failed(source, status == 0 ? why : arena_printf(arena, "is answered with status %d", status));
		return;
	}
	page = json_parse(arena, source->received.bytes, source->received.len, NULL, NULL, &error);
	items = page == NULL ? NULL : json_get(page, "items");
	if (items == NULL || (items->kind != JSON_KIND_ARRAY && items->kind != JSON_KIND_NULL))
	{
		list_failed(source, "is none");
		return;
	}
	metadata = json_get(page, "metadata");
	if (source->list_version == NULL && !source->whole && kubescape_type(source->kind) &&
		kubescape_list(arena, metadata))
	{
		source->whole = true;
		arena_free(arena);
		list_page(source);
		return;
	}
	if (source->list_version == NULL)
		replace_text(&source->list_version, text_of(arena, metadata, "resourceVersion"));
	replace_text(&source->next_page, text_of(arena, metadata, "continue"));
	compare_page(source, items);
}

static void
list_page(Source *source)
{
	const char *path;

	arena_init(&source->arena);
	source->step = STEP_PAGE;
	path = arena_printf(&source->arena, "%s?limit=%d%s%s%s", source->path, source->whole ? WHOLE_PAGE_SIZE : PAGE_SIZE,
						source->whole ? KUBESCAPE_WHOLE : "", source->next_page == NULL ? "" : "&continue=",
						source->next_page == NULL ? "" : transfer_escape(&source->arena, source->next_page));
	transfer(source, path, PAGE_TIMEOUT_MS, PAGE_LIMIT, NULL, page_done);
}

static void
list_begin(Source *source)
{
	counts.lists++;
	list_free(source);
	source->resync = false;
	source->whole = false;
	/* While the kind is compared, no batch may wait that has items of the kind. */
	if (!builder_flush())
	{
		source->step = STEP_FULL;
		return;
	}
	source->drained = queue_last();
	source->step = STEP_DRAIN;
	sources_go_on(queue_last() - queue_batches());
}

/* ---------- differences ---------- */

static JsonNode *
deletion(Source *source, Arena *arena, const char *namespace, const char *name, const char *uid)
{
	JsonNode   *object = json_new_object(arena);
	JsonNode   *metadata = json_new_object(arena);

	json_set(arena, object, "apiVersion", json_new_cstring(arena, source->api_version));
	json_set(arena, object, "kind", json_new_cstring(arena, source->name));
	if (namespace[0] != '\0')
		json_set(arena, metadata, "namespace", json_new_cstring(arena, namespace));
	json_set(arena, metadata, "name", json_new_cstring(arena, name));
	json_set(arena, metadata, "uid", json_new_cstring(arena, uid));
	json_set(arena, object, "metadata", metadata);
	return object;
}

static bool
queue_one(Source *source, const JsonNode *wanted)
{
	Arena	   *arena = &source->arena;

	if (source->sweeping)
	{
		const char *part[3] = {"", "", ""};

		for (size_t i = 0; i < 3 && wanted->kind == JSON_KIND_ARRAY && i < wanted->u.array.count; i++)
			if (wanted->u.array.items[i]->kind == JSON_KIND_STRING)
				part[i] = json_text_cstring(arena, wanted->u.array.items[i]->u.string);
		return builder_add("delete", arena_printf(arena, "%s/%s/%s", source->path, part[0], part[1]),
						   deletion(source, arena, part[0], part[1], part[2]), source->kind, NULL);
	}
	if (wanted->kind != JSON_KIND_INTEGER || wanted->u.integer < 0 ||
		(size_t) wanted->u.integer >= source->page->u.array.count)
		return true;
	else
	{
		JsonNode   *object = source->page->u.array.items[wanted->u.integer];

		/* The items of a list of built-in types have no apiVersion and kind. */
		json_set(arena, object, "apiVersion", json_new_cstring(arena, source->api_version));
		json_set(arena, object, "kind", json_new_cstring(arena, source->name));
		return builder_add("apply", object_key(source, arena, json_get(object, "metadata")), object, source->kind,
						   NULL);
	}
}

static void
queue_wanted(Source *source)
{
	while (source->wanted_next < source->wanted->u.array.count)
	{
		/* If the queue is full, sources_go_on() calls this function again. */
		if (!queue_one(source, source->wanted->u.array.items[source->wanted_next]))
			return;
		source->wanted_next++;
	}
	if (source->sweeping)
	{
		bool		more = source->more;

		arena_free(&source->arena);
		if (!more)
			source->swept += RANGE_KEYS;
		/* The receiver must have deleted these keys before the range is compared again. */
		if (more)
		{
			if (!builder_flush())
			{
				arena_init(&source->arena);
				return;
			}
			source->drained = queue_last();
		}
		source->step = STEP_SWEEP;
		sources_go_on(queue_last() - queue_batches());
		return;
	}
	arena_free(&source->arena);
	if (source->next_page != NULL && source->next_page[0] != '\0')
	{
		list_page(source);
		return;
	}
	if (source->empty > 0)
	{
		if (source->empty == source->listed.count + source->nameless)
		{
			arena_init(&source->arena);
			list_failed(source, "the server gives no object with its contents: none is sent");
			return;
		}
		log_line(LOG_WARNING, "the list of %s: %zu objects came without their contents and are not sent",
				 source->kind, source->empty);
	}
	choose_kept(source);
	source->step = STEP_SWEEP;
	sweep(source);
}

static void
swept(void *state, JsonText body)
{
	Source	   *source = state;

	source->question = NULL;
	source->wanted = answer_array(source, body, "surplus", &source->more);
	if (source->wanted == NULL)
	{
		list_failed(source, "the receiver's answer cannot be read");
		return;
	}
	source->wanted_next = 0;
	source->sweeping = true;
	source->step = STEP_QUEUE;
	queue_wanted(source);
}

static void
put_edge(StrBuf *buf, const Key *key)
{
	if (key == NULL)
	{
		strbuf_puts(buf, "null");
		return;
	}
	strbuf_putc(buf, '[');
	put_string(buf, key);
	strbuf_putc(buf, ',');
	put_string(buf, key + strlen(key) + 1);
	strbuf_putc(buf, ']');
}

/* Compares the next range of keys; after the last one the watch begins. */
static void
sweep(Source *source)
{
	size_t		end = source->swept + RANGE_KEYS;
	StrBuf		question;

	if (source->keep_all || (source->swept > 0 && source->swept >= source->kept_count))
	{
		/* All differences are in the queue: the position moves to that of the list, unless another list is due. */
		if (!builder_move(source->kind, source->resync || source->whole ? "" : source->list_version))
			return;
		replace_text(&source->seen, source->whole ? NULL : source->list_version);
		list_done(source);
		source->delay = FIRST_DELAY_MS;
		queue_save();
		source->step = STEP_WAIT;
		set_followed(source, source->whole);
		loop_timer_start(&source->timer, source->whole && !source->resync ? list_interval_ms : 0, go_on, source);
		return;
	}
	arena_init(&source->arena);
	question = question_begin(source);
	for (size_t i = source->swept; i < end && i < source->kept_count; i++)
	{
		const Key  *key = source->kept[i];

		strbuf_puts(&question, i > source->swept ? ",[" : "[");
		put_string(&question, key);
		strbuf_putc(&question, ',');
		put_string(&question, key + strlen(key) + 1);
		strbuf_puts(&question, ",\"\",\"\"]");
	}
	strbuf_puts(&question, "],\"range\":{\"after\":");
	put_edge(&question, source->swept == 0 ? NULL : source->kept[source->swept - 1]);
	strbuf_puts(&question, ",\"to\":");
	put_edge(&question, end >= source->kept_count ? NULL : source->kept[end - 1]);
	strbuf_puts(&question, "}}");
	source->question = receiver_ask("/v1/forward/sync", (JsonText) {question.bytes, question.len}, swept, source);
}

/* ---------- the watch ---------- */

static void
watch_done(void *state, int status, const char *why)
{
	Source	   *source = state;

	source->transfer = NULL;
	if (source->status == 200 && !source->lost && source->step == STEP_WATCH)
		lines_read(source);
	if (source->status == 200)
		counts.watching--;
	arena_free(&source->arena);
	loop_timer_stop(&source->lines_timer);
	if (source->step == STEP_FULL)
		return;
	if (loop_now() - source->begun_at >= HELD_MS || (status == 200 && !source->lost))
		source->delay = FIRST_DELAY_MS;
	if (source->lost || source->resync || status == 410)
	{
		builder_flush();
		queue_set_position(source->kind, "");
		queue_save();
		replace_text(&source->seen, NULL);
	}
	else if (status != 200)
		log_line(LOG_WARNING, "the watch of %s has ended: %s", source->kind,
				 status == 0 ? why : "it was answered with an error");
	later(source);
}

/* Ends the watch, because the queue takes no more events. */
static void
watch_stop(Source *source)
{
	transfer_cancel(source->transfer);
	source->transfer = NULL;
	loop_timer_stop(&source->lines_timer);
	counts.watching--;
	arena_free(&source->arena);
	source->step = STEP_FULL;
}

/* Reads one event; false: the queue is full, and the event was not taken. */
static bool
event_read(Source *source, const char *line, size_t len)
{
	Arena		arena;
	JsonError	error;
	JsonNode   *event;
	JsonNode   *object;
	JsonNode   *metadata;
	const char *type;
	const char *version;
	bool		taken = true;

	arena_init(&arena);
	event = json_parse(&arena, line, len, NULL, NULL, &error);
	type = text_of(&arena, event, "type");
	object = event == NULL ? NULL : json_get(event, "object");
	metadata = object == NULL ? NULL : json_get(object, "metadata");
	version = text_of(&arena, metadata, "resourceVersion");
	if (version[0] == '\0' || strcmp(type, "ERROR") == 0)
	{
		log_line(LOG_WARNING, "the watch of %s has ended with %.*s", source->kind, (int) (len < 200 ? len : 200), line);
		source->lost = true;
	}
	else if (strcmp(type, "BOOKMARK") == 0)
	{
		if (loop_now() - source->saved_at >= SAVE_MS)
		{
			source->saved_at = loop_now();
			taken = builder_move(source->kind, version) && queue_save();
		}
	}
	else
	{
		const char *key = object_key(source, &arena, metadata);

		counts.events++;
		if (strcmp(type, "DELETED") == 0)
			taken = builder_add("delete", key, deletion(source, &arena, text_of(&arena, metadata, "namespace"),
														text_of(&arena, metadata, "name"),
														text_of(&arena, metadata, "uid")), source->kind, version);
		else if (kubescape_type(source->kind) && !kubescape_whole(source->kind, object))
			source->lost = true;	/* the group has gone from CRDs to Kubescape's server */
		else
			taken = builder_add("apply", key, object, source->kind, version);
	}
	if (taken && !source->lost)
		replace_text(&source->seen, version);
	arena_free(&arena);
	return taken;
}

static void
lines_read(void *state)
{
	Source	   *source = state;
	StrBuf	   *received = &source->received;
	size_t		from = 0;
	char	   *newline;

	while (from < received->len && !source->lost &&
		   (newline = memchr(received->bytes + from, '\n', received->len - from)) != NULL)
	{
		size_t		len = (size_t) (newline - received->bytes) - from;

		if (!event_read(source, received->bytes + from, len))
		{
			if (source->transfer != NULL)
				watch_stop(source);
			else
				source->step = STEP_FULL;
			return;
		}
		from += len + 1;
	}
	if (from == 0)
		return;
	memmove(received->bytes, received->bytes + from, received->len - from);
	received->len -= from;
}

static bool
event_take(void *state, int status, const char *bytes, size_t len)
{
	Source	   *source = state;

	if (status == 200 && memchr(bytes, '\n', len) != NULL)
		loop_timer_start(&source->lines_timer, 0, lines_read, source);
	return true;
}

static void
watch_begun(void *state, int status)
{
	if (status == 200)
		counts.watching++;
	begun(state, status);
}

static void
watch_begin(Source *source)
{
	int			seconds = WATCH_LEAST_S + (int) arc4random_uniform(WATCH_SPREAD_S);
	const char *path;

	arena_init(&source->arena);
	path = arena_printf(&source->arena, "%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
						source->path, seconds, transfer_escape(&source->arena, source->seen));
	source->step = STEP_WATCH;
	source->lost = false;
	source->begun_at = source->saved_at = loop_now();
	source->status = 0;
	strbuf_init(&source->received, &source->arena);
	source->transfer = transfer_start(kubeapi_config(source->api),
									  &(TransferRequest) {.path = path, .timeout_ms = (seconds + WATCH_GRACE_S) * 1000L,
										  .received = &source->received, .limit = EVENT_LIMIT, .begun = watch_begun,
									  .take = event_take, .done = watch_done, .state = source});
}

static void
go_on(void *state)
{
	Source	   *source = state;

	if (source->seen == NULL || source->resync)
		list_begin(source);
	else
		watch_begin(source);
}

/* ---------- all ---------- */

void
sources_go_on(uint64_t stored)
{
	for (Source *source = sources; source != NULL; source = source->next)
	{
		if (source->step == STEP_DRAIN && stored >= source->drained)
			list_page(source);
		else if (source->step == STEP_SWEEP && source->question == NULL && stored >= source->drained)
			sweep(source);
		else if (source->step == STEP_QUEUE && builder_ready())
			queue_wanted(source);
		else if (source->step == STEP_FULL && builder_ready() && !queue_is_full())
		{
			source->delay = FIRST_DELAY_MS;
			later(source);
		}
	}
}

void
sources_resync(void)
{
	for (Source *source = sources; source != NULL; source = source->next)
	{
		source->resync = true;
		if (source->step == STEP_WATCH)
			watch_stop(source);
		else if (source->step != STEP_WAIT || !source->followed)
			continue;
		later(source);
	}
}

SourceCounts
source_counts(void)
{
	return counts;
}

void
sources_list_every(int seconds)
{
	list_interval_ms = (uint64_t) seconds * 1000;
}

void
source_start(KubeApi *api, const char *kind, const char *name)
{
	Source	   *source = allocate(sizeof(*source));
	const char *dot = strchr(kind, '.');
	const char *slash = strchr(kind, '/');
	Arena		arena;

	arena_init(&arena);
	source->api = api;
	replace_text(&source->kind, kind);
	replace_text(&source->name, name);
	replace_text(&source->api_version, dot + 1);
	replace_text(&source->path, arena_printf(&arena, "/apis/%.*s/%s/%.*s", (int) (slash - dot - 1), dot + 1, slash + 1,
											 (int) (dot - kind), kind));
	arena_free(&arena);
	key_list_init(&source->listed);
	key_list_init(&source->before);
	source->delay = FIRST_DELAY_MS;
	/* Only a list tells whether Kubescape's own server gives its kinds: a watch would give objects without contents. */
	if (queue_position(kind)[0] != '\0' && !kubescape_type(kind))
		replace_text(&source->seen, queue_position(kind));
	source->next = sources;
	sources = source;
	counts.kinds++;
	loop_timer_start(&source->timer, 0, go_on, source);
}
