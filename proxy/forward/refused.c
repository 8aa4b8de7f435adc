/*-------------------------------------------------------------------------
 *
 * refused.c
 *	  The items of the oldest batch that the receiver can never store.
 *
 * One object must not hold up all others.  An answer 400 names the places of
 * items, and these are left out; the next answer may name others.  A batch that
 * the receiver cannot even read (a text with U+0000, JSON that is too deep) is
 * refused without a place.  Then parts of it are sent as probes, in halves,
 * until each such item is found.  A probe has a number that no stream expects:
 * 409 says that the receiver can read the part, and it stores none of it.
 *
 *-------------------------------------------------------------------------
 */
#include "forward/refused.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define MAX_RANGES 32			/* halves of halves: a batch has at most 4096 items */

typedef struct Range
{
	size_t		first;
	size_t		count;
} Range;

static struct
{
	Arena		arena;			/* of the two arrays */
	bool		begun;			/* an item of the batch was refused */
	size_t		count;			/* of items of the batch */
	bool	   *left_out;
	size_t	   *sent;			/* the places in the batch of those that were sent */
	size_t		sent_count;
	Range		ranges[MAX_RANGES]; /* to be probed, the next one last */
	size_t		range_count;
	bool		found;			/* by the probes of this round */
}			refused;

static JsonNode *
parse_items(Arena *arena, JsonText items)
{
	const char *text = arena_printf(arena, "[%.*s]", (int) items.len, items.bytes);
	JsonError	error;

	return json_parse(arena, text, items.len + 2, NULL, NULL, &error);
}

/* False: the file of the batch is damaged. */
static bool
begin(JsonText items)
{
	Arena		arena;
	const JsonNode *array;

	if (refused.begun)
		return true;
	arena_init(&arena);
	array = parse_items(&arena, items);
	refused.count = array == NULL ? 0 : array->u.array.count;
	arena_free(&arena);
	if (refused.count == 0)
		return false;
	arena_init(&refused.arena);
	refused.left_out = arena_alloc0(&refused.arena, refused.count);
	refused.sent = arena_alloc0(&refused.arena, refused.count * sizeof(*refused.sent));
	/* This far the whole batch was sent. */
	for (size_t i = 0; i < refused.count; i++)
		refused.sent[i] = i;
	refused.sent_count = refused.count;
	refused.range_count = 0;
	refused.begun = true;
	return true;
}

void
refused_forget(void)
{
	if (!refused.begun)
		return;
	refused.begun = false;
	refused.range_count = 0;
	arena_free(&refused.arena);
}

bool
refused_probing(void)
{
	return refused.begun && refused.range_count > 0;
}

JsonText
refused_rest(Arena *arena, JsonText items)
{
	Range		range = {0, refused.count};
	const JsonNode *array;
	StrBuf		buf;

	if (!refused.begun)
		return items;
	if (refused_probing())
		range = refused.ranges[refused.range_count - 1];
	array = parse_items(arena, items);
	refused.sent_count = 0;
	strbuf_init(&buf, arena);
	for (size_t i = range.first; array != NULL && i < range.first + range.count && i < array->u.array.count; i++)
	{
		if (refused.left_out[i])
			continue;
		if (refused.sent_count > 0)
			strbuf_putc(&buf, ',');
		refused.sent[refused.sent_count++] = i;
		json_write(&buf, array->u.array.items[i]);
	}
	return (JsonText) {buf.bytes, buf.len};
}

/* ---------- answers ---------- */

static void
leave_out(size_t place, const char *where, const char *message, uint64_t *count)
{
	if (refused.left_out[place])
		return;
	refused.left_out[place] = true;
	refused.found = true;
	++*count;
	log_line(LOG_ERROR, "the receiver refuses an object, which is left out: %s: %s", where,
			 message != NULL ? message : "without a reason");
}

/* Leaves out the items whose places a Status has.  *unplaced: the Status refuses the body, and names no place. */
static bool
read_causes(JsonText items, JsonText answer, bool *unplaced, uint64_t *count)
{
	static const char prefix[] = "/items/";
	Arena		arena;
	JsonError	error;
	const JsonNode *status;
	const JsonNode *causes;
	bool		placed = false;

	arena_init(&arena);
	status = json_parse(&arena, answer.bytes, answer.len, NULL, NULL, &error);
	causes = status == NULL ? NULL : json_path(status, "details", "causes", NULL);
	*unplaced = causes != NULL && causes->kind == JSON_KIND_ARRAY && causes->u.array.count > 0;
	for (size_t i = 0; causes != NULL && causes->kind == JSON_KIND_ARRAY && i < causes->u.array.count; i++)
	{
		const JsonNode *cause = causes->u.array.items[i];
		const char *field = json_get_cstring(&arena, cause, "field");
		char	   *end;
		unsigned long place;

		if (field == NULL || field[0] == '\0')
			continue;
		*unplaced = false;
		if (strncmp(field, prefix, sizeof(prefix) - 1) != 0)
			continue;
		place = strtoul(field + sizeof(prefix) - 1, &end, 10);
		if (end == field + sizeof(prefix) - 1 || !begin(items) || place >= refused.sent_count)
			continue;
		leave_out(refused.sent[place], field, json_get_cstring(&arena, cause, "message"), count);
		placed = true;
	}
	arena_free(&arena);
	return placed;
}

/* 413 of the receiver itself, not of a proxy before it: this body is too large for it. */
static bool
is_too_large(int status, JsonText answer)
{
	Arena		arena;
	JsonError	error;
	const JsonNode *parsed;
	bool		own;

	if (status != 413)
		return false;
	arena_init(&arena);
	parsed = json_parse(&arena, answer.bytes, answer.len, NULL, NULL, &error);
	own = parsed != NULL && json_string_is(json_get(parsed, "reason"), "RequestEntityTooLarge");
	arena_free(&arena);
	return own;
}

static void
add_range(size_t first, size_t count)
{
	if (count > 0 && refused.range_count < MAX_RANGES)
		refused.ranges[refused.range_count++] = (Range) {first, count};
}

/* The answer to a probe of the last range. */
static bool
read_probe(JsonText items, int status, JsonText answer, uint64_t *count)
{
	Range		range = refused.ranges[refused.range_count - 1];
	bool		unplaced = false;

	if (status != 409 && (status != 400 || (!read_causes(items, answer, &unplaced, count) && !unplaced)))
		return false;
	refused.range_count--;
	if (unplaced && range.count == 1)
		leave_out(range.first, "the receiver cannot read it", "U+0000, or JSON that is too deep", count);
	else if (unplaced)
	{
		add_range(range.first + range.count / 2, range.count - range.count / 2);
		add_range(range.first, range.count / 2);
	}
	/* A round that finds nothing is no reason to begin another one at once. */
	return refused.range_count > 0 || refused.found;
}

bool
refused_read(JsonText items, int status, JsonText answer, uint64_t *count)
{
	bool		unplaced = false;

	if (refused_probing())
		return read_probe(items, status, answer, count);
	refused.found = false;
	if (is_too_large(status, answer) && begin(items) && refused.sent_count == 1)
		leave_out(refused.sent[0], "the body is too large", "see --max-request-body-bytes of the receiver", count);
	else if (status == 400 && !read_causes(items, answer, &unplaced, count) && unplaced && begin(items))
	{
		add_range(0, refused.count);
		return true;
	}
	return refused.found;
}
