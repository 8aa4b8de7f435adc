/*-------------------------------------------------------------------------
 *
 * arena.c
 *	  Memory and text building for the document engine.
 *
 * Pieces are cut from chunks that grow with the arena, so that a small
 * document costs one allocation and a large one a few.  Before arena_free(),
 * only two functions give memory back: arena_discard() frees a large piece,
 * and arena_return_to() frees all that was taken since a mark.  A text under
 * construction grows in place if it is the last piece of its chunk.
 *
 * Under AddressSanitizer every piece is a chunk of its own, so that the
 * sanitizer detects an access beyond its end.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/arena.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes of the first chunk and of the largest one; larger pieces get a chunk of their own. */
#define CHUNK_FIRST ((size_t) 8 * 1024 - 64)
#define CHUNK_LARGEST ((size_t) 512 * 1024)

/* A larger request is cut to this size, which every allocator refuses; so sums of sizes cannot wrap around. */
#define ALLOCATION_LIMIT (SIZE_MAX / 4)

#define STRBUF_FIRST 128

/* The first capacity of a growing array, in elements. */
#define FIRST_CAPACITY 4

#if defined(__SANITIZE_ADDRESS__)
#define ONE_CHUNK_EACH true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONE_CHUNK_EACH true
#endif
#endif
#ifndef ONE_CHUNK_EACH
#define ONE_CHUNK_EACH false
#endif

/* A piece of this size or larger always has a chunk of its own. */
#define OWN_CHUNK (CHUNK_LARGEST / 4 + 1)

struct ArenaChunk
{
	ArenaChunk *older;
	ArenaChunk *newer;
	size_t		size;			/* without this header */
	size_t		shared;			/* 1: for several pieces; 0: for one piece */
};

/* The place to which leave_run() jumps. */
typedef struct Guard
{
	struct Guard *outer;
	jmp_buf		place;
	ArenaLimit	limit;
} Guard;

static void *allocate_or_abort(size_t size);
static void no_interrupt(void);
static void leave_run(ArenaLimit limit, uint64_t allowed);
static void append_formatted(StrBuf *buf, const char *format, va_list arguments)
			__attribute__((format(printf, 2, 0), nonnull(2)));

void	   *(*arena_allocate) (size_t size) = allocate_or_abort;
void		(*arena_release) (void *pointer) = free;
void		(*arena_interrupt) (void) = no_interrupt;
void		(*arena_exceeded) (ArenaLimit limit, uint64_t allowed) = leave_run;
const size_t arena_chunk_header = sizeof(ArenaChunk);
arena_local uint64_t arena_steps_left = UINT64_MAX;

/* The initial value of arena_steps_left. */
static arena_local uint64_t steps_allowed = UINT64_MAX;

static arena_local Guard *innermost = NULL;

static void *
allocate_or_abort(size_t size)
{
	void	   *pointer = malloc(size);

	if (pointer == NULL)
		abort();
	return pointer;
}

static void
no_interrupt(void)
{
}

/* The default of arena_exceeded, for programs in which only arena_run() sets limits. */
static void
leave_run(ArenaLimit limit, uint64_t allowed)
{
	if (innermost == NULL)
		abort();
	innermost->limit = limit;
	longjmp(innermost->place, 1);
}

static size_t
bytes_for(size_t input)
{
	if (input > (ALLOCATION_LIMIT - ARENA_BYTES_FLOOR) / ARENA_BYTES_PER_BYTE)
		return ALLOCATION_LIMIT;
	return ARENA_BYTES_FLOOR + input * ARENA_BYTES_PER_BYTE;
}

static uint64_t
steps_for(size_t input)
{
	return ARENA_STEPS_FLOOR + (uint64_t) input * ARENA_STEPS_PER_BYTE;
}

void
arena_begin_work(size_t input)
{
	steps_allowed = steps_for(input);
	arena_steps_left = steps_allowed;
}

void
arena_spend(uint64_t steps)
{
	if (steps > arena_steps_left)
	{
		uint64_t	allowed = steps_allowed;

		/* Lift the limit, because arena_exceeded() may need steps. */
		steps_allowed = UINT64_MAX;
		arena_steps_left = UINT64_MAX;
		arena_exceeded(ARENA_WORK, allowed);
	}
	arena_steps_left -= steps;
	arena_interrupt();
}

void
arena_init(Arena *arena)
{
	arena->chunks = NULL;
	arena->next = NULL;
	arena->end = NULL;
	arena->taken = 0;
	arena->limit = SIZE_MAX;
}

void
arena_init_for(Arena *arena, size_t input)
{
	arena_init(arena);
	arena->limit = bytes_for(input);
	arena_begin_work(input);
}

ArenaLimit
arena_run(Arena *arena, size_t input, void (*run) (void *state), void *state)
{
	Guard		guard = {.outer = innermost, .limit = ARENA_WITHIN};
	size_t		outer_limit = arena->limit;
	uint64_t	outer_allowed = steps_allowed;
	uint64_t	outer_left = arena_steps_left;
	size_t		allowance = bytes_for(input);

	if (allowance < outer_limit - arena->taken)
		arena->limit = arena->taken + allowance;
	arena_begin_work(input);
	innermost = &guard;
	if (setjmp(guard.place) == 0)
		run(state);
	innermost = guard.outer;
	arena->limit = outer_limit;
	steps_allowed = outer_allowed;
	arena_steps_left = outer_left;
	return guard.limit;
}

void
arena_free(Arena *arena)
{
	ArenaMark	nothing = {NULL, NULL, NULL, NULL};

	arena_return_to(arena, &nothing);
}

static void
release_chunk(Arena *arena, ArenaChunk *chunk)
{
	if (chunk->newer != NULL)
		chunk->newer->older = chunk->older;
	else
		arena->chunks = chunk->older;
	if (chunk->older != NULL)
		chunk->older->newer = chunk->newer;
	arena->taken -= chunk->size;
	arena_release(chunk);
}

ArenaMark
arena_mark(const Arena *arena)
{
	ArenaMark	mark = {arena->chunks, arena->chunks != NULL ? arena->chunks->older : NULL, arena->next, arena->end};

	return mark;
}

void
arena_return_to(Arena *arena, const ArenaMark *mark)
{
	while (arena->chunks != mark->newest)
		release_chunk(arena, arena->chunks);
	/* Chunks of large pieces were linked behind the chunk that was newest. */
	while (mark->newest != NULL && mark->newest->older != mark->older)
		release_chunk(arena, mark->newest->older);
	arena->next = mark->next;
	arena->end = mark->end;
}

void
arena_discard(Arena *arena, void *piece, size_t size)
{
	ArenaChunk *chunk = (ArenaChunk *) piece - 1;

	/* A shared chunk may hold the free space of the arena. */
	if (size >= OWN_CHUNK && chunk->shared == 0)
		release_chunk(arena, chunk);
}

static ArenaChunk *
take_chunk(Arena *arena, size_t size, bool shared)
{
	ArenaChunk *chunk;

	if (size > arena->limit - arena->taken)
	{
		size_t		allowed = arena->limit;

		/* Lift the limit, because arena_exceeded() may need memory. */
		arena->limit = SIZE_MAX;
		arena_exceeded(ARENA_MEMORY, allowed);
	}
	chunk = arena_allocate(sizeof(ArenaChunk) + size);
	chunk->size = size;
	chunk->shared = shared;
	arena->taken += size;
	return chunk;
}

/*
 * Takes size bytes, a multiple of 8, when the newest chunk has no room for them.
 */
static void *
allocate_from_new_chunk(Arena *arena, size_t size)
{
	ArenaChunk *newest = arena->chunks;
	ArenaChunk *chunk;
	size_t		chunk_size = CHUNK_FIRST;

	if (newest != NULL && newest->shared)
		chunk_size = newest->size * 2;
	if (chunk_size > CHUNK_LARGEST)
		chunk_size = CHUNK_LARGEST;

	/* The chunk of a large piece is linked behind the newest chunk, whose free space stays in use. */
	if (size > chunk_size / 4 || ONE_CHUNK_EACH)
	{
		chunk = take_chunk(arena, size, false);
		chunk->newer = newest;
		chunk->older = newest != NULL ? newest->older : NULL;
		if (newest != NULL)
			newest->older = chunk;
		else
			arena->chunks = chunk;
	}
	else
	{
		chunk = take_chunk(arena, chunk_size, true);
		chunk->newer = NULL;
		chunk->older = newest;
		if (newest != NULL)
			newest->newer = chunk;
		arena->chunks = chunk;
		arena->next = (char *) (chunk + 1) + size;
		arena->end = (char *) (chunk + 1) + chunk_size;
	}
	if (chunk->older != NULL)
		chunk->older->newer = chunk;
	return chunk + 1;
}

void *
arena_alloc(Arena *arena, size_t size)
{
	char	   *piece = arena->next;

	if (size > ALLOCATION_LIMIT)
		size = ALLOCATION_LIMIT;
	size = (size + 7) & ~(size_t) 7;
	if (size > (size_t) (arena->end - piece) || piece == NULL || size >= OWN_CHUNK)
	{
		/* Even an empty piece has an address of its own. */
		return allocate_from_new_chunk(arena, size > 0 ? size : 8);
	}
	arena->next = piece + size;
	return piece;
}

void *
arena_alloc0(Arena *arena, size_t size)
{
	return memset(arena_alloc(arena, size), 0, size);
}

char *
arena_strndup(Arena *arena, const char *bytes, size_t len)
{
	char	   *copy = arena_alloc(arena, len + 1);

	if (len > 0)
		memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

char *
arena_strdup(Arena *arena, const char *string)
{
	return arena_strndup(arena, string, strlen(string));
}

char *
arena_printf(Arena *arena, const char *format,...)
{
	va_list		arguments;
	StrBuf		buf;

	strbuf_init(&buf, arena);
	va_start(arguments, format);
	append_formatted(&buf, format, arguments);
	va_end(arguments);
	return strbuf_finish(&buf);
}

void *
arena_grow(Arena *arena, void *elements, size_t count, size_t size, size_t *capacity)
{
	void	   *larger;

	if (count < *capacity)
		return elements;
	*capacity = *capacity == 0 ? FIRST_CAPACITY : *capacity * 2;
	larger = arena_alloc(arena, *capacity * size);
	if (count > 0)
		memcpy(larger, elements, count * size);
	return larger;
}

void
strbuf_init(StrBuf *buf, Arena *arena)
{
	buf->arena = arena;
	buf->bytes = NULL;
	buf->len = 0;
	buf->capacity = 0;
}

/* Makes room for more bytes, and for the NUL behind them. */
void
strbuf_reserve(StrBuf *buf, size_t more)
{
	Arena	   *arena = buf->arena;
	size_t		wanted;
	char	   *bytes;

	if (more < buf->capacity - buf->len)
		return;

	if (more > ALLOCATION_LIMIT / 2)
		more = ALLOCATION_LIMIT / 2;
	wanted = buf->len + more + 1;
	if (wanted < buf->capacity * 2)
		wanted = buf->capacity * 2;
	if (wanted < STRBUF_FIRST)
		wanted = STRBUF_FIRST;
	wanted = (wanted + 7) & ~(size_t) 7;

	if (buf->bytes != NULL && buf->bytes + buf->capacity == arena->next && wanted < OWN_CHUNK &&
		wanted - buf->capacity <= (size_t) (arena->end - arena->next))
	{
		arena->next += wanted - buf->capacity;
		buf->capacity = wanted;
		return;
	}

	bytes = arena_alloc(arena, wanted);
	if (buf->bytes != NULL)
		memcpy(bytes, buf->bytes, buf->len);
	bytes[buf->len] = '\0';
	if (buf->bytes != NULL)
		arena_discard(arena, buf->bytes, buf->capacity);
	buf->bytes = bytes;
	buf->capacity = wanted;
}

void
strbuf_append(StrBuf *buf, const char *bytes, size_t len)
{
	strbuf_reserve(buf, len);
	if (len > 0)
		memcpy(buf->bytes + buf->len, bytes, len);
	buf->len += len;
	buf->bytes[buf->len] = '\0';
}

void
strbuf_puts(StrBuf *buf, const char *string)
{
	strbuf_append(buf, string, strlen(string));
}

void
strbuf_putc(StrBuf *buf, char c)
{
	strbuf_reserve(buf, 1);
	buf->bytes[buf->len++] = c;
	buf->bytes[buf->len] = '\0';
}

void
strbuf_printf(StrBuf *buf, const char *format,...)
{
	va_list		arguments;

	va_start(arguments, format);
	append_formatted(buf, format, arguments);
	va_end(arguments);
}

char *
strbuf_finish(StrBuf *buf)
{
	size_t		needed = (buf->len + 1 + 7) & ~(size_t) 7;

	strbuf_reserve(buf, 0);
	if (buf->bytes + buf->capacity == buf->arena->next)
	{
		buf->arena->next = buf->bytes + needed;
		buf->capacity = needed;
	}
	return buf->bytes;
}

/*
 * Most texts fit into the free space of the buffer; the others are printed twice.
 */
static void
append_formatted(StrBuf *buf, const char *format, va_list arguments)
{
	va_list		again;
	size_t		space;
	int			len;

	strbuf_reserve(buf, 0);
	space = buf->capacity - buf->len;
	va_copy(again, arguments);
	len = vsnprintf(buf->bytes + buf->len, space, format, arguments);
	if (len < 0)
		len = 0;
	if ((size_t) len >= space)
	{
		strbuf_reserve(buf, (size_t) len);
		vsnprintf(buf->bytes + buf->len, (size_t) len + 1, format, again);
	}
	va_end(again);
	buf->len += (size_t) len;
	buf->bytes[buf->len] = '\0';
}
