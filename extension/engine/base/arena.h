/*-------------------------------------------------------------------------
 *
 * arena.h
 *	  Memory and text building for the document engine.
 *
 * The document engine (json.c, schema_*.c, write.c and friends) is plain C:
 * it never includes postgres.h or h2o.h, so that the same object files serve
 * the backend, the proxy and the fuzzers.  All of it allocates from an Arena
 * and frees nothing by itself: who made the arena ends it.
 *
 * What the input makes of itself is bounded: an arena that was begun for an
 * input holds at most ARENA_BYTES_PER_BYTE bytes for each byte of it, beyond
 * a floor, and the work that checkpoints count has such a budget too.  Over
 * either, arena_exceeded() leaves the engine: by an SQL error in the backend,
 * elsewhere back to arena_run().
 *
 * In the backend arena_allocate is palloc and arena_interrupt is
 * CHECK_FOR_INTERRUPTS() plus check_stack_depth(): both may longjmp away, as
 * arena_exceeded() does, so no code of the engine may hold a resource outside
 * the arena.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ArenaChunk ArenaChunk;

typedef struct Arena
{
	ArenaChunk *chunks;			/* newest first; owned by the arena */
	char	   *next;			/* free space of the newest chunk */
	char	   *end;
	size_t		taken;			/* bytes of all chunks */
	size_t		limit;			/* for taken */
} Arena;

/*
 * The budget of an input.  The largest honest ratio of memory to text is that of a document of short numbers or empty
 * containers, about 30; what is written from a tree comes on top.  A step is a value that is looked at, in each of
 * the dozen passes over a document; 10 to 50 ns.
 */
#define ARENA_BYTES_PER_BYTE 50
#define ARENA_BYTES_FLOOR ((size_t) 32 * 1024 * 1024)
#define ARENA_STEPS_PER_BYTE 50
#define ARENA_STEPS_FLOOR ((uint64_t) 32 * 1024 * 1024)

typedef enum ArenaLimit
{
	ARENA_WITHIN,
	ARENA_MEMORY,				/* more bytes than the arena may hold */
	ARENA_WORK					/* more steps than the input may cause */
} ArenaLimit;

/*
 * Hooks; set once at start-up.  Defaults: malloc (abort when it fails), free, nothing, the end of the innermost
 * arena_run().
 */
extern void *(*arena_allocate) (size_t size);
extern void (*arena_release) (void *pointer);
extern void (*arena_interrupt) (void);

/* What every arena_allocate() is asked for beside the pieces themselves. */
extern const size_t arena_chunk_header;

/* Never returns; allowed is the budget: bytes or steps. */
extern void (*arena_exceeded) (ArenaLimit limit, uint64_t allowed);

/*
 * The proxy runs the engine on threads, each with a budget of its own; a backend is one thread, and reads plain
 * memory faster.
 */
#ifdef ARENA_THREADS
#define arena_local _Thread_local
#else
#define arena_local
#endif

/* Steps that the input at hand may still cause. */
extern arena_local uint64_t arena_steps_left;

/* Takes that many steps at once, for what is one call here and much work below it. */
extern void arena_spend(uint64_t steps);

/* Called at every level of recursion and every few hundred steps of a loop that the input drives. */
static inline void
arena_checkpoint(void)
{
	if (arena_steps_left == 0)
		arena_spend(1);
	arena_steps_left--;
	arena_interrupt();
}

/* For a loop that counts its steps. */
static inline void
arena_checkpoint_at(size_t step)
{
	if ((step & 0xff) == 0xff)
		arena_spend(0x100);
}

/* Without limits: for what is not made from somebody's input. */
extern void arena_init(Arena *arena);
extern void arena_free(Arena *arena);

/*
 * For the work on an input of so many bytes: limits the arena, and begins a budget of steps that replaces the one
 * before.
 */
extern void arena_init_for(Arena *arena, size_t input);

/* A budget of steps alone, for work that allocates nothing. */
extern void arena_begin_work(size_t input);

/*
 * Runs a function under the budget of an input, which holds for what it takes from this arena beyond what is there,
 * and for its steps.  Other than ARENA_WITHIN: the function was left where it went over.  Not for the backend, where
 * errors leave too.
 */
extern ArenaLimit arena_run(Arena *arena, size_t input, void (*run) (void *state), void *state);

/* Never returns NULL; 8-byte aligned; not zeroed (arena_alloc0 is). */
extern void *arena_alloc(Arena *arena, size_t size);
extern void *arena_alloc0(Arena *arena, size_t size);

/* Copies len bytes and adds a NUL. */
extern char *arena_strndup(Arena *arena, const char *bytes, size_t len);
extern char *arena_strdup(Arena *arena, const char *string);
extern char *arena_printf(Arena *arena, const char *format,...) __attribute__((format(printf, 2, 3)));

/*
 * Gives back a piece of that size that nothing points to any more, if it is large enough to be worth it: what grew
 * out of its place.
 */
extern void arena_discard(Arena *arena, void *piece, size_t size);

/*
 * Gives back everything that was taken since the mark was made.  Nothing that was taken before it may have been
 * discarded since, or grown.
 */
typedef struct ArenaMark
{
	ArenaChunk *newest;
	ArenaChunk *older;
	char	   *next;
	char	   *end;
} ArenaMark;

extern ArenaMark arena_mark(const Arena *arena);
extern void arena_return_to(Arena *arena, const ArenaMark *mark);

/*
 * A place for one more than count elements of size bytes each: elements while *capacity is larger, else their copy in
 * a place of twice the size.
 */
extern void *arena_grow(Arena *arena, void *elements, size_t count, size_t size, size_t *capacity);

/* A growing text.  bytes is always NUL-terminated after the first append; len does not count the NUL. */
typedef struct StrBuf
{
	Arena	   *arena;
	char	   *bytes;
	size_t		len;
	size_t		capacity;
} StrBuf;

extern void strbuf_init(StrBuf *buf, Arena *arena);
extern void strbuf_reserve(StrBuf *buf, size_t more);
extern void strbuf_append(StrBuf *buf, const char *bytes, size_t len);
extern void strbuf_puts(StrBuf *buf, const char *string);
extern void strbuf_putc(StrBuf *buf, char c);
extern void strbuf_printf(StrBuf *buf, const char *format,...) __attribute__((format(printf, 2, 3)));

/* The text, which is complete: the room that it did not need is given back. */
extern char *strbuf_finish(StrBuf *buf);

#endif							/* ARENA_H */
