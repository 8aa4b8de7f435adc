/*-------------------------------------------------------------------------
 *
 * base64.c
 *	  Bytes in JSON documents.
 *
 *-------------------------------------------------------------------------
 */
#include "base64.h"

#include <openssl/evp.h>
#include <string.h>

bool
base64_decode(Arena *arena, const char *text, JsonText *bytes)
{
	size_t		len = strlen(text);
	unsigned char *decoded = arena_alloc(arena, len / 4 * 3 + 4);
	int			size;

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	size = EVP_DecodeBlock(decoded, (const unsigned char *) text, (int) len);
	if (size < 0)
		return false;
	/* EVP_DecodeBlock counts the padding as bytes, of which there are two at most. */
	for (size_t padding = 1; padding <= 2 && padding <= len && text[len - padding] == '='; padding++)
		size--;
	*bytes = (JsonText) {(const char *) decoded, (size_t) size};
	return true;
}

const char *
base64_encode(Arena *arena, JsonText bytes)
{
	unsigned char *text = arena_alloc(arena, (bytes.len + 2) / 3 * 4 + 1);

	EVP_EncodeBlock(text, (const unsigned char *) bytes.bytes, (int) bytes.len);
	return (const char *) text;
}
