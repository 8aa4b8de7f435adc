/*-------------------------------------------------------------------------
 *
 * utf8.h
 *	  Characters of UTF-8.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* U+FFFD.  Go replaces bytes that are not UTF-8 with this character. */
#define REPLACEMENT_CHARACTER "\xef\xbf\xbd"

/* Whether a byte continues a character. */
static inline bool
utf8_continues(char byte)
{
	return ((unsigned char) byte & 0xc0) == 0x80;
}

/*
 * Length of the UTF-8 sequence of a character beyond ASCII at p; 0 when the sequence is not valid: overlong, a
 * surrogate, beyond U+10FFFF or cut off.
 */
static inline size_t
utf8_sequence(const char *p, const char *end)
{
	const unsigned char *byte = (const unsigned char *) p;
	size_t		left = (size_t) (end - p);
	unsigned char lowest = 0x80;
	unsigned char highest = 0xbf;

	if (left < 2 || byte[0] < 0xc2 || byte[0] > 0xf4)
		return 0;
	if (byte[0] < 0xe0)
		return utf8_continues(p[1]) ? 2 : 0;

	if (byte[0] == 0xe0)
		lowest = 0xa0;
	else if (byte[0] == 0xed)
		highest = 0x9f;
	else if (byte[0] == 0xf0)
		lowest = 0x90;
	else if (byte[0] == 0xf4)
		highest = 0x8f;
	if (byte[1] < lowest || byte[1] > highest || left < 3 || !utf8_continues(p[2]))
		return 0;
	if (byte[0] < 0xf0)
		return 3;
	return left >= 4 && utf8_continues(p[3]) ? 4 : 0;
}

/* Length of the character at p, which is before end; 0 when the bytes are not valid UTF-8. */
static inline size_t
utf8_length(const char *p, const char *end)
{
	return (unsigned char) *p < 0x80 ? 1 : utf8_sequence(p, end);
}

/* The code point at the start of bytes (len > 0) and its length; 0 when the bytes are not valid UTF-8. */
static inline size_t
utf8_decode(const char *bytes, size_t len, uint32_t *rune)
{
	static const unsigned char payload[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	size_t		length = utf8_length(bytes, bytes + len);

	if (length == 0)
		return 0;
	*rune = (unsigned char) bytes[0] & payload[length];
	for (size_t i = 1; i < length; i++)
		*rune = *rune << 6 | ((unsigned char) bytes[i] & 0x3f);
	return length;
}

/* The number of code points of a valid text. */
static inline size_t
utf8_count(const char *bytes, size_t len)
{
	size_t		count = 0;

	for (size_t i = 0; i < len; i++)
		count += !utf8_continues(bytes[i]);
	return count;
}

/* The length of the start of a valid text that has at most so many bytes and ends between characters. */
static inline size_t
utf8_cut(const char *bytes, size_t len, size_t most)
{
	if (len <= most)
		return len;
	while (most > 0 && utf8_continues(bytes[most]))
		most--;
	return most;
}

/* Writes a character; returns the place behind it. */
static inline char *
utf8_put(char *to, uint32_t character)
{
	if (character < 0x80)
	{
		*to++ = (char) character;
	}
	else if (character < 0x800)
	{
		*to++ = (char) (0xc0 | character >> 6);
		*to++ = (char) (0x80 | (character & 0x3f));
	}
	else if (character < 0x10000)
	{
		*to++ = (char) (0xe0 | character >> 12);
		*to++ = (char) (0x80 | (character >> 6 & 0x3f));
		*to++ = (char) (0x80 | (character & 0x3f));
	}
	else
	{
		*to++ = (char) (0xf0 | character >> 18);
		*to++ = (char) (0x80 | (character >> 12 & 0x3f));
		*to++ = (char) (0x80 | (character >> 6 & 0x3f));
		*to++ = (char) (0x80 | (character & 0x3f));
	}
	return to;
}

#endif							/* UTF8_H */
