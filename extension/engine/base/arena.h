/*-------------------------------------------------------------------------
 *
 * arena.h
 *	  Memory and text building for the document engine.
 *
 * The document engine (all files of extension/engine) is plain C: it never
 * includes postgres.h or h2o.h, so that the backend, the proxy and the fuzz
 * targets link the same object files.  All code of the engine allocates from
 * an Arena and frees nothing; the caller that created the arena frees it.
 *
 * Each input has a budget of memory and of work.  An arena for an input holds
 * at most ARENA_BYTES_PER_BYTE bytes for each byte of the input, plus a
 * floor.  The budget of work limits the steps that checkpoints count.  If a
 * budget is exceeded, arena_exceeded() leaves the engine: with an SQL error
 * in the backend, elsewhere by a return to arena_run().
 *
 * In the backend arena_allocate is palloc and arena_interrupt is
 * CHECK_FOR_INTERRUPTS() plus check_stack_depth(): both may leave by longjmp,
 * as arena_exceeded() does, so no code of the engine may hold a resource
 * outside the arena.
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
	size_t		limit;			/* upper limit of taken */
} Arena;

/*
 * The budget of an input.  A tree takes at most about 30 bytes of memory for each byte of text: so many for a document
 * of short numbers or empty containers.  The text that is written from the tree comes on top.  A step is a visit to one
 * value in one of the dozen passes over a document, and takes 10 to 50 ns.
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
 * Hooks, set once at start-up.  Defaults: malloc (abort on failure), free, no action, return from the innermost
 * arena_run().
 */
extern void *(*arena_allocate) (size_t size);
extern void (*arena_release) (void *pointer);
extern void (*arena_interrupt) (void);

/* Bytes that every call of arena_allocate() requests in addition to the pieces. */
extern const size_t arena_chunk_header;

/* Never returns; allowed is the budget: bytes or steps. */
extern void (*arena_exceeded) (ArenaLimit limit, uint64_t allowed);

/*
 * The proxy runs the engine on several threads, each with a budget of its own.  A backend has one thread, and plain
 * variables are faster.
 */
#ifdef ARENA_THREADS
#define arena_local _Thread_local
#else
#define arena_local
#endif

/* Steps left of the budget of the current input. */
extern arena_local uint64_t arena_steps_left;

/* Takes several steps at once, for a single call that does much work. */
extern void arena_spend(uint64_t steps);

/* Each level of a recursion calls it, and each loop whose length depends on the input, every few hundred steps. */
static inline void
arena_checkpoint(void)
{
	if (arena_steps_left == 0)
		arena_spend(1);
	arena_steps_left--;
	arena_interrupt();
}

/* The same for a loop that counts its steps. */
static inline void
arena_checkpoint_at(size_t step)
{
	if ((step & 0xff) == 0xff)
		arena_spend(0x100);
}

/* Creates an arena without limits, for data that does not come from a client. */
extern void arena_init(Arena *arena);
extern void arena_free(Arena *arena);

/*
 * Creates an arena for an input of input bytes: limits the memory of the arena, and starts a budget of steps, which
 * replaces the previous budget.
 */
extern void arena_init_for(Arena *arena, size_t input);

/* Starts only a budget of steps, for work that allocates nothing. */
extern void arena_begin_work(size_t input);

/*
 * Runs a function under the budget of an input of input bytes.  The budget limits the steps of the function and the
 * memory that it takes from this arena.  Returns ARENA_WITHIN, or the limit that the function exceeded: then the
 * function was left at that point.  The backend must not call arena_run(), because SQL errors leave the function, too.
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
 * Gives back a piece of this size that is no longer in use, for example after it was copied to a larger place.  Small
 * pieces stay.
 */
extern void arena_discard(Arena *arena, void *piece, size_t size);

/*
 * Gives back everything that was taken since the mark was made.  Pieces taken before the mark must not have been
 * discarded or enlarged since.
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
 * Makes room for one more element behind count elements of size bytes each.  Returns elements if *capacity is larger
 * than count, otherwise a copy with twice the capacity.
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

/* Append to the text, or (strbuf_reserve) make room for more bytes; strbuf_init() begins an empty text. */
extern void strbuf_init(StrBuf *buf, Arena *arena);
extern void strbuf_reserve(StrBuf *buf, size_t more);
extern void strbuf_append(StrBuf *buf, const char *bytes, size_t len);
extern void strbuf_puts(StrBuf *buf, const char *string);
extern void strbuf_putc(StrBuf *buf, char c);
extern void strbuf_printf(StrBuf *buf, const char *format,...) __attribute__((format(printf, 2, 3)));

/* Ends the text and returns it; gives back the unused space. */
extern char *strbuf_finish(StrBuf *buf);

#endif							/* ARENA_H */
