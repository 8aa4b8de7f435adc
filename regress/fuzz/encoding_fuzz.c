/*-------------------------------------------------------------------------
 *
 * encoding_fuzz.c
 *	  Fuzz target: the encoding of answers.
 *
 * The input is an Accept-Encoding header up to the first newline, then the
 * body of an answer.  The body, compressed at once or in two pieces, inflates
 * to itself; a coding with q=0 is never chosen.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "codec/yaml_scalar.c"
#include "codec/yaml_parse.c"
#include "codec/yaml_read.c"
#include "codec/yaml_write.c"
#include "codec/encoding.c"

static void
check_inflates(Arena *arena, JsonText compressed, JsonText text)
{
	char	   *inflated = arena_alloc(arena, text.len + 1);
	z_stream	stream = {0};

	check(inflateInit2(&stream, GZIP_WINDOW) == Z_OK);
	stream.next_in = (unsigned char *) compressed.bytes;
	stream.avail_in = (unsigned) compressed.len;
	stream.next_out = (unsigned char *) inflated;
	stream.avail_out = (unsigned) text.len + 1;
	check(inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0 && stream.total_out == text.len);
	check(text.len == 0 || memcmp(inflated, text.bytes, text.len) == 0);
	inflateEnd(&stream);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint8_t *newline = size > 0 ? memchr(bytes, '\n', size) : NULL;
	size_t		header_len = newline != NULL ? (size_t) (newline - bytes) : size;
	Encoding   *encoding = encoding_new(false, true);
	JsonText	body = {"", 0};
	JsonText	piece;
	StrBuf		joined;
	Arena		arena;
	char	   *header;

	arena_init(&arena);
	header = arena_strndup(&arena, (const char *) bytes, header_len);
	if (encoding_accepts_gzip(header))
		check(strpbrk(header, "gG*") != NULL);
	check(!encoding_accepts_gzip("gzip;q=0, *"));
	if (newline != NULL)
		body = (JsonText) {(const char *) newline + 1, size - header_len - 1};

	check_inflates(&arena, encode_gzip(&arena, body), body);
	strbuf_init(&joined, &arena);
	check(encoding_next(encoding, (JsonText) {body.bytes, body.len / 3}, false, &piece));
	strbuf_append(&joined, piece.bytes, piece.len);
	check(encoding_next(encoding, (JsonText) {body.bytes + body.len / 3, body.len - body.len / 3}, true, &piece));
	strbuf_append(&joined, piece.bytes, piece.len);
	check_inflates(&arena, (JsonText) {joined.bytes, joined.len}, body);
	encode_yaml(&arena, body);
	encoding_free(encoding);
	arena_free(&arena);
	return 0;
}
