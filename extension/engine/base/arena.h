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
 * In the backend arena_allocate is palloc and arena_checkpoint is
 * CHECK_FOR_INTERRUPTS() plus check_stack_depth(): both may longjmp away, so
 * no code of the engine may hold a resource outside the arena.
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
} Arena;

/* Hooks; set once at start-up.  Defaults: malloc (abort when it fails), free, nothing. */
extern void *(*arena_allocate) (size_t size);
extern void (*arena_release) (void *pointer);

/* Called at every level of recursion and every few hundred steps of a loop that the input drives. */
extern void (*arena_checkpoint) (void);

/* For a loop that counts its steps. */
static inline void
arena_checkpoint_at(size_t step)
{
	if ((step & 0xff) == 0xff)
		arena_checkpoint();
}

extern void arena_init(Arena *arena);
extern void arena_free(Arena *arena);

/* Never returns NULL; 8-byte aligned; not zeroed (arena_alloc0 is). */
extern void *arena_alloc(Arena *arena, size_t size);
extern void *arena_alloc0(Arena *arena, size_t size);

/* Copies len bytes and adds a NUL. */
extern char *arena_strndup(Arena *arena, const char *bytes, size_t len);
extern char *arena_strdup(Arena *arena, const char *string);
extern char *arena_printf(Arena *arena, const char *format,...) __attribute__((format(printf, 2, 3)));

/*
 * A place for one more than count elements of size bytes each: elements while *capacity is larger, else their copy in a place
 * of twice the size.
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

#endif							/* ARENA_H */
