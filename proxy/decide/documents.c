/*-------------------------------------------------------------------------
 *
 * documents.c
 *	  Discovery, OpenAPI and version documents of the served types.
 *
 *-------------------------------------------------------------------------
 */
#include "decide/documents.h"

#include <openssl/sha.h>

static char *
document_hash(Arena *arena, const char *bytes, size_t len)
{
	static const char digits[] = "0123456789ABCDEF";
	unsigned char digest[SHA512_DIGEST_LENGTH];
	char	   *text = arena_alloc(arena, 2 * sizeof(digest) + 1);

	SHA512((const unsigned char *) bytes, len, digest);
	for (size_t i = 0; i < sizeof(digest); i++)
	{
		text[2 * i] = digits[digest[i] >> 4];
		text[2 * i + 1] = digits[digest[i] & 15];
	}
	text[2 * sizeof(digest)] = '\0';
	return text;
}

ServedDocument *
documents_make(Arena *arena, const Definition *const *definitions, size_t count, size_t *document_count)
{
	Arena		scratch;
	const JsonNode **nodes;
	ServedDocument *made;
	ServedDocument *kept;

	/* The trees of the documents are much larger than their texts. */
	arena_init(&scratch);
	nodes = arena_alloc(&scratch, (count + 1) * sizeof(JsonNode *));
	for (size_t i = 0; i < count; i++)
		nodes[i] = definitions[i]->document;
	made = served_documents(&scratch, nodes, count, document_hash, document_count);
	kept = arena_alloc(arena, (*document_count + 1) * sizeof(ServedDocument));
	for (size_t i = 0; i < *document_count; i++)
	{
		kept[i].path = arena_strdup(arena, made[i].path);
		kept[i].content_type = arena_strdup(arena, made[i].content_type);
		kept[i].body = arena_strndup(arena, made[i].body, made[i].len);
		kept[i].len = made[i].len;
		kept[i].hash = arena_strdup(arena, made[i].hash);
	}
	arena_free(&scratch);
	return kept;
}
