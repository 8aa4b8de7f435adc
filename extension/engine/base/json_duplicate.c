/*-------------------------------------------------------------------------
 *
 * json_duplicate.c
 *	  Duplicate members of JSON objects, with their paths, as kube-apiserver
 *	  reports them in warnings.
 *
 * The parser notes duplicates object by object, the innermost object first. At
 * its end it reports the duplicates in the order of the text.
 * json_tell_repeated() finds the same duplicates in a parsed tree.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/json_duplicate.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"

/* Duplicates reported; upstream has the same limit. */
#define DUPLICATES_TOLD 100

/* Limits of the duplicates noted before sorting; a hostile text must not create many long paths. */
#define DUPLICATES_NOTED 1000
#define DUPLICATE_BYTES_NOTED ((size_t) 1024 * 1024)

static void
append_path(StrBuf *path, const JsonPlace *place)
{
	arena_checkpoint();
	if (place->parent != NULL)
		append_path(path, place->parent);
	if (place->is_array)
	{
		strbuf_printf(path, "[%zu]", place->index);
		return;
	}
	if (place->parent != NULL)
		strbuf_putc(path, '.');
	strbuf_puts(path, json_text_cstring(path->arena, place->key));
}

static void
write_path(StrBuf *path, Arena *arena, const JsonPlace *place)
{
	strbuf_init(path, arena);
	strbuf_reserve(path, 0);
	append_path(path, place);
}

void
duplicate_note(Arena *arena, DuplicateNotes *notes, const JsonPlace *parent, JsonText key, size_t offset)
{
	JsonPlace	place = {parent, false, key, 0};
	StrBuf		path;

	if (notes->count == DUPLICATES_NOTED || notes->bytes > DUPLICATE_BYTES_NOTED)
		return;
	if (notes->notes == NULL)
		notes->notes = arena_alloc(arena, DUPLICATES_NOTED * sizeof(DuplicateNote));
	write_path(&path, arena, &place);
	notes->bytes += path.len;
	notes->notes[notes->count++] = (DuplicateNote) {offset, path.bytes};
}

static int
compare_notes(const void *a, const void *b)
{
	size_t		first = ((const DuplicateNote *) a)->offset;
	size_t		second = ((const DuplicateNote *) b)->offset;

	return (first > second) - (first < second);
}

void
duplicates_tell(DuplicateNotes *notes, JsonDuplicate duplicate, void *state)
{
	size_t		told = 0;

	qsort(notes->notes, notes->count, sizeof(DuplicateNote), compare_notes);
	for (size_t i = 0; i < notes->count && told < DUPLICATES_TOLD; i++)
	{
		const char *path = notes->notes[i].path;
		bool		known = false;

		for (size_t before = 0; before < told && !known; before++)
			known = strcmp(notes->notes[before].path, path) == 0;
		if (known)
			continue;
		notes->notes[told++].path = path;
		duplicate(state, path);
	}
}

typedef struct RepeatedWalk
{
	Arena	   *arena;
	JsonDuplicate duplicate;
	void	   *state;
	size_t		told;
} RepeatedWalk;

static void
tell_repeated(RepeatedWalk *walk, const JsonNode *node, const JsonPlace *parent)
{
	JsonPlace	place = {parent, node->kind == JSON_KIND_ARRAY, {NULL, 0}, 0};

	arena_checkpoint();
	for (size_t i = 0; node->kind == JSON_KIND_ARRAY && i < node->u.array.count; i++)
	{
		arena_checkpoint_at(i);
		place.index = i;
		tell_repeated(walk, node->u.array.items[i], &place);
	}
	for (size_t i = 0; node->kind == JSON_KIND_OBJECT && i < node->u.object.count; i++)
	{
		const JsonNode *value = node->u.object.members[i].value;

		arena_checkpoint_at(i);
		place.key = node->u.object.members[i].key;
		if (node->repeats && value->repeated && walk->told < DUPLICATES_TOLD)
		{
			StrBuf		path;

			write_path(&path, walk->arena, &place);
			walk->told++;
			walk->duplicate(walk->state, path.bytes);
		}
		tell_repeated(walk, value, &place);
	}
}

void
json_tell_repeated(Arena *arena, const JsonNode *node, JsonDuplicate duplicate, void *state)
{
	RepeatedWalk walk = {.arena = arena, .duplicate = duplicate, .state = state};

	tell_repeated(&walk, node, NULL);
}
