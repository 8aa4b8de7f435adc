/*-------------------------------------------------------------------------
 *
 * base64.c
 *	  Base64, for bytes in JSON documents.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/base64.h"

#include <openssl/evp.h>
#include <string.h>

bool
base64_decode(Arena *arena, const char *text, JsonText *bytes)
{
	size_t		len;
	size_t		size;
	unsigned char *decoded;

	text += strspn(text, " \t");
	len = strlen(text);
	while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
		len--;
	size = len / 4 * 3;
	decoded = arena_alloc(arena, size + 1);
	/* EVP_DecodeBlock() trims some bytes at the ends; a text with such bytes is not base64. */
	if (len % 4 != 0 || EVP_DecodeBlock(decoded, (const unsigned char *) text, (int) len) != (int) size)
		return false;
	/* EVP_DecodeBlock() counts the padding, at most two characters, as bytes. */
	for (size_t padding = 1; padding <= 2 && padding <= len && text[len - padding] == '='; padding++)
		size--;
	*bytes = (JsonText) {(const char *) decoded, size};
	return true;
}

const char *
base64_encode(Arena *arena, JsonText bytes)
{
	unsigned char *text = arena_alloc(arena, (bytes.len + 2) / 3 * 4 + 1);

	EVP_EncodeBlock(text, (const unsigned char *) bytes.bytes, (int) bytes.len);
	return (const char *) text;
}
