/*-------------------------------------------------------------------------
 *
 * json_scan.h
 *	  The bytes and characters of JSON strings.
 *
 * Most bytes of a report are plain: printable ASCII that stands for itself
 * between quotes.  Parsing and printing skip over them eight at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JSON_SCAN_H
#define JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

/* U+FFFD.  Go replaces bytes that are not UTF-8 with this character. */
#define REPLACEMENT_CHARACTER "\xef\xbf\xbd"

/* Loads eight bytes, the first one lowest, from any address. */
static inline uint64_t
load_bytes(const char *p)
{
	uint64_t	word;

	memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

/*
 * Sets the high bit of each byte that is not plain.  Only the lowest bit set is reliable; a search for the first byte
 * that is not plain needs no other.
 */
static inline uint64_t
mark_special(uint64_t word)
{
	uint64_t	quote = word ^ EACH_BYTE('"');
	uint64_t	backslash = word ^ EACH_BYTE('\\');

	return ((quote - EACH_BYTE(1)) |
			(backslash - EACH_BYTE(1)) |
			(word - EACH_BYTE(0x20)) |
			word) & EACH_BYTE(0x80);
}

/* The first byte from p on that is a quote, a backslash, a control character or not ASCII; end when there is none. */
static inline const char *
skip_plain(const char *p, const char *end)
{
	while (end - p >= 8)
	{
		uint64_t	special = mark_special(load_bytes(p));

		if (special != 0)
			return p + (__builtin_ctzll(special) >> 3);
		p += 8;
	}
	while (p < end && (unsigned char) *p >= 0x20 && (unsigned char) *p < 0x80 && *p != '"' && *p != '\\')
		p++;
	return p;
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
		return (byte[1] & 0xc0) == 0x80 ? 2 : 0;

	if (byte[0] == 0xe0)
		lowest = 0xa0;
	else if (byte[0] == 0xed)
		highest = 0x9f;
	else if (byte[0] == 0xf0)
		lowest = 0x90;
	else if (byte[0] == 0xf4)
		highest = 0x8f;
	if (byte[1] < lowest || byte[1] > highest || left < 3 || (byte[2] & 0xc0) != 0x80)
		return 0;
	if (byte[0] < 0xf0)
		return 3;
	return left >= 4 && (byte[3] & 0xc0) == 0x80 ? 4 : 0;
}

/* Whether a sequence of three bytes is U+2028 or U+2029. */
static inline bool
is_line_separator(const char *p)
{
	return p[0] == '\xe2' && p[1] == '\x80' && (p[2] == '\xa8' || p[2] == '\xa9');
}

/* -1 when c is not a hexadecimal digit. */
static inline int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The caller has checked the four digits at p. */
static inline unsigned int
hex_number(const char *p)
{
	return (unsigned int) (hex_digit(p[0]) << 12 | hex_digit(p[1]) << 8 |
						   hex_digit(p[2]) << 4 | hex_digit(p[3]));
}

/* Returns the place behind the character. */
static inline char *
put_utf8(char *to, unsigned int character)
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

#endif							/* JSON_SCAN_H */
