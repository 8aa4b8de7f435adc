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

#include "engine/base/ascii.h"

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

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

/* Whether a sequence of three bytes is U+2028 or U+2029. */
static inline bool
is_line_separator(const char *p)
{
	return p[0] == '\xe2' && p[1] == '\x80' && (p[2] == '\xa8' || p[2] == '\xa9');
}

/* The caller has checked the four digits at p. */
static inline unsigned int
hex_number(const char *p)
{
	return (unsigned int) (hex_digit(p[0]) << 12 | hex_digit(p[1]) << 8 |
						   hex_digit(p[2]) << 4 | hex_digit(p[3]));
}

#endif							/* JSON_SCAN_H */
