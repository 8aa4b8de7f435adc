/*-------------------------------------------------------------------------
 *
 * builder.c
 *	  Gathers items into the next batch of the queue.
 *
 * A batch goes into the queue when the next item would make it too large, when
 * an object would occur in it twice, or GATHER_MS after its first item.
 *
 *-------------------------------------------------------------------------
 */
#include "forward/builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "engine/base/hash.h"
#include "forward/queue.h"
#include "forward/receiver.h"

#define GATHER_MS 50
#define RETRY_MS 1000			/* time between two tries while the queue is full */
#define SLOTS 8192				/* more than twice the items of a batch */

static struct
{
	Arena		arena;
	StrBuf		items;
	size_t		count;
	size_t		most_items;
	size_t		most_bytes;
	uint64_t	keys[SLOTS];	/* open addressing; 0: free */
	bool		stuck;			/* the queue was full */
	LoopTimer	timer;
}			builder;

static void gathered(void *state);

static void
begin(void)
{
	arena_init(&builder.arena);
	strbuf_init(&builder.items, &builder.arena);
	memset(builder.keys, 0, sizeof(builder.keys));
	builder.count = 0;
}

void
builder_start(size_t most_items, size_t most_bytes)
{
	builder.most_items = most_items < SLOTS / 2 ? most_items : SLOTS / 2;
	builder.most_bytes = most_bytes;
	begin();
}

bool
builder_flush(void)
{
	if (builder.count == 0)
		return true;
	builder.stuck = queue_append((JsonText) {builder.items.bytes, builder.items.len}) == 0;
	loop_timer_stop(&builder.timer);
	if (builder.stuck)
	{
		loop_timer_start(&builder.timer, RETRY_MS, gathered, NULL);
		return false;
	}
	arena_free(&builder.arena);
	begin();
	receiver_look();
	return true;
}

bool
builder_ready(void)
{
	return !builder.stuck;
}

static void
gathered(void *state)
{
	builder_flush();
}

/* Adds a key; false: the batch has the key already, or one with the same hash, which only ends the batch early. */
static bool
note_key(const char *key)
{
	uint64_t	hash = hash_bytes(HASH_SEED, key, strlen(key)) | 1;
	size_t		slot = (size_t) (hash >> 7) % SLOTS;

	while (builder.keys[slot] != 0)
	{
		if (builder.keys[slot] == hash)
			return false;
		slot = (slot + 1) % SLOTS;
	}
	builder.keys[slot] = hash;
	return true;
}

/* A large object goes alone, so that the receiver needs no room for more than the object. */
static bool
has_room(size_t len)
{
	return builder.count == 0 ||
		(builder.count < builder.most_items && builder.items.len + len <= builder.most_bytes);
}

static bool
add_item(JsonText item, const char *key)
{
	if ((builder.stuck || !has_room(item.len)) && !builder_flush())
		return false;
	if (!note_key(key))
	{
		if (!builder_flush())
			return false;
		note_key(key);
	}
	if (builder.count > 0)
		strbuf_putc(&builder.items, ',');
	strbuf_append(&builder.items, item.bytes, item.len);
	return true;
}

bool
builder_add(const char *op, const char *key, const JsonNode *object, const char *kind, const char *version)
{
	Arena		arena;
	StrBuf		item;
	bool		good;

	arena_init(&arena);
	strbuf_init(&item, &arena);
	strbuf_printf(&item, "{\"op\":\"%s\",\"object\":", op);
	json_write(&item, object);
	strbuf_putc(&item, '}');
	good = add_item((JsonText) {item.bytes, item.len}, key);
	arena_free(&arena);
	if (!good)
		return false;
	if (builder.count++ == 0)
		loop_timer_start(&builder.timer, GATHER_MS, gathered, NULL);
	if (version != NULL)
		queue_stage_position(kind, version);
	return true;
}

bool
builder_move(const char *kind, const char *version)
{
	/* The position must follow the items that came before. */
	if (!builder_flush())
		return false;
	queue_set_position(kind, version);
	return true;
}
