/*-------------------------------------------------------------------------
 *
 * packed_fuzz.c
 *	  Fuzz target: documents as the database stores them.
 *
 * The input is unpacked: a result has the length that was announced, and an
 * input without the mark is its own text.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include <stdlib.h>

/* As in route_fuzz.c, but this file needs liblz4. */
#include "codec/packed.c"

/* The room that a text may take here: a block can announce 255 times its size. */
#define MOST ((size_t) 1024 * 1024)

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const JsonText given = {(const char *) bytes, size};
	size_t		length = packed_length(given);
	char	   *room;
	JsonText	text;

	check(length <= size * MOST_PER_BYTE);
	if (length > MOST)
		return 0;
	room = malloc(length + 1);
	check(room != NULL);
	text = packed_text(given, room);
	if (size == 0 || bytes[0] != PACKED_LZ4)
		check(text.bytes == given.bytes && text.len == size);
	else if (text.bytes != NULL)
		check(text.bytes == room && text.len == length);
	free(room);
	return 0;
}
