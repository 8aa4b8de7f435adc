/*-------------------------------------------------------------------------
 *
 * base64_fuzz.c
 *	  Fuzz target: base64 in kubeconfigs, caBundles and keys.
 *
 * The input is decoded as a text: an accepted text has no other characters
 * and its result fits in the text.  The input is also encoded as bytes, and
 * decoding returns them, with or without blanks around the text.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/base/base64.h"

static void
check_comes_back(Arena *arena, const char *text, JsonText bytes)
{
	JsonText	decoded;

	check(base64_decode_value(arena, text, &decoded));
	check(decoded.len == bytes.len && (bytes.len == 0 || memcmp(decoded.bytes, bytes.bytes, bytes.len) == 0));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \t\r\n";
	const JsonText given = {(const char *) bytes, size};
	const char *text;
	JsonText	decoded;
	Arena		arena;

	arena_init(&arena);
	text = arena_strndup(&arena, given.bytes, given.len);
	if (base64_decode_value(&arena, text, &decoded))
		check(strspn(text, allowed) == strlen(text) && decoded.len <= strlen(text) / 4 * 3);
	text = base64_encode(&arena, given);
	check_comes_back(&arena, text, given);
	check_comes_back(&arena, arena_printf(&arena, " \t%s \t\r\n ", text), given);
	arena_free(&arena);
	return 0;
}
