/*-------------------------------------------------------------------------
 *
 * patch_fuzz.c
 *	  Fuzz target: JSON patch and JSON merge patch.
 *
 * The input is a document, a newline and a patch.  Both kinds are tried, with
 * and without checks.  A patched document is as good as a parsed one: it can
 * be printed and parsed again, and is no deeper than allowed.  The patch
 * itself stays unchanged.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/writes/patch.h"

typedef PatchResult (*PatchFunction) (Arena *arena, JsonNode **document, const JsonNode *patch, bool checked,
									  const char **error);

static void
check_patch(Arena *arena, PatchFunction apply, const JsonNode *original, const JsonNode *patch, bool checked)
{
	JsonNode   *document = json_clone(arena, original);
	const JsonNode *patch_before = json_clone(arena, patch);
	const char *message = NULL;
	JsonNode   *reparsed;
	JsonError	error;
	StrBuf		text;

	if (apply(arena, &document, patch, checked, &message) != PATCH_OK)
	{
		check(message != NULL);
		return;
	}
	check(document->kind == JSON_KIND_OBJECT || (document->kind == JSON_KIND_ARRAY && !checked &&
												 patch->kind == JSON_KIND_ARRAY));
	check(json_same(patch_before, patch));
	strbuf_init(&text, arena);
	json_write(&text, document);
	reparsed = json_parse(arena, text.bytes, text.len, NULL, NULL, &error);
	check(reparsed != NULL && json_same(document, reparsed));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *text = (const char *) bytes;
	const char *newline = size > 0 ? memchr(text, '\n', size) : NULL;
	JsonNode   *document;
	JsonNode   *patch;
	JsonError	error;
	Arena		arena;

	if (newline == NULL)
		return 0;
	arena_init(&arena);
	document = json_parse(&arena, text, (size_t) (newline - text), NULL, NULL, &error);
	patch = json_parse(&arena, newline + 1, size - (size_t) (newline - text) - 1, NULL, NULL, &error);
	if (document != NULL && document->kind == JSON_KIND_OBJECT && patch != NULL)
	{
		for (int checked = 0; checked < 2; checked++)
		{
			check_patch(&arena, json_patch_apply, document, patch, checked);
			check_patch(&arena, merge_patch_apply, document, patch, checked);
		}
	}
	arena_free(&arena);
	return 0;
}
