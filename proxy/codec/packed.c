/*-------------------------------------------------------------------------
 *
 * packed.c
 *	  Documents as the database stores them.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/packed.h"

#include <arpa/inet.h>
#include <lz4.h>
#include <stdint.h>
#include <string.h>

#define PACKED_LZ4 1			/* the first byte of a packed document; no JSON text begins with it */
#define PACKED_HEAD ((size_t) 5)
#define MOST_PER_BYTE ((size_t) 255)	/* lz4 makes at most this many bytes of text from a byte of a block */

static bool
is_packed(JsonText packed)
{
	return packed.len > 0 && packed.bytes[0] == PACKED_LZ4;
}

size_t
packed_length(JsonText packed)
{
	uint32_t	length;

	if (!is_packed(packed))
		return packed.len;
	if (packed.len < PACKED_HEAD || packed.len > LZ4_MAX_INPUT_SIZE)
		return 0;
	memcpy(&length, packed.bytes + 1, sizeof(length));
	length = ntohl(length);
	return length <= LZ4_MAX_INPUT_SIZE && length <= (packed.len - PACKED_HEAD) * MOST_PER_BYTE ? length : 0;
}

JsonText
packed_text(JsonText packed, char *room)
{
	size_t		length = packed_length(packed);

	if (!is_packed(packed))
		return packed;
	if (length == 0 || LZ4_decompress_safe(packed.bytes + PACKED_HEAD, room, (int) (packed.len - PACKED_HEAD),
										   (int) length) != (int) length)
		return (JsonText) {NULL, 0};
	return (JsonText) {room, length};
}
