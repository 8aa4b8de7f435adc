/*-------------------------------------------------------------------------
 *
 * base64.c
 *	  Base64, as Go's encoding/base64 reads and writes it.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/base64.h"

#include <string.h>

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Writes the digits of bytes without padding; returns the end of the text. */
static char *
put_digits(char *to, const char *alphabet, JsonText bytes)
{
	uint32_t	bits = 0;
	int			held = 0;

	for (size_t i = 0; i < bytes.len; i++)
	{
		bits = (bits << 8) | (unsigned char) bytes.bytes[i];
		held += 8;
		while (held >= 6)
		{
			held -= 6;
			*to++ = alphabet[(bits >> held) & 63];
		}
	}
	if (held > 0)
		*to++ = alphabet[(bits << (6 - held)) & 63];
	return to;
}

char *
base64_encode(Arena *arena, JsonText bytes)
{
	char	   *text = arena_alloc(arena, (bytes.len + 2) / 3 * 4 + 1);
	char	   *to = put_digits(text, standard, bytes);

	while ((to - text) % 4 != 0)
		*to++ = '=';
	*to = '\0';
	return text;
}

char *
base64url_encode(Arena *arena, JsonText bytes)
{
	char	   *text = arena_alloc(arena, (bytes.len + 2) / 3 * 4 + 1);

	*put_digits(text, url, bytes) = '\0';
	return text;
}

/*
 * Decodes digits up to the first byte that is none, which may be the end of the text.  Line breaks are ignored when
 * broken is true.  Sets *digits to the number of digits and returns the offset of this byte.
 */
static size_t
take_digits(Arena *arena, const char *alphabet, JsonText text, bool broken, JsonText *bytes, size_t *digits)
{
	char	   *to = arena_alloc(arena, text.len / 4 * 3 + 4);
	uint32_t	bits = 0;
	size_t		at = 0;

	bytes->bytes = to;
	*digits = 0;
	for (; at < text.len; at++)
	{
		const char *digit;

		if (broken && (text.bytes[at] == '\n' || text.bytes[at] == '\r'))
			continue;
		digit = memchr(alphabet, text.bytes[at], 64);
		if (digit == NULL)
			break;
		bits = (bits << 6) | (uint32_t) (digit - alphabet);
		if (++*digits % 4 != 1)
			*to++ = (char) (bits >> (6 - 2 * ((*digits - 1) % 4)));
	}
	bytes->len = (size_t) (to - bytes->bytes);
	return at;
}

bool
base64_decode(Arena *arena, JsonText text, JsonText *bytes)
{
	size_t		digits;
	size_t		padding = 0;

	for (size_t at = take_digits(arena, standard, text, true, bytes, &digits); at < text.len; at++)
	{
		if (text.bytes[at] == '=')
			padding++;
		else if (text.bytes[at] != '\n' && text.bytes[at] != '\r')
			return false;
	}
	return (digits + padding) % 4 == 0 && padding <= 2;
}

bool
base64_decode_value(Arena *arena, const char *value, JsonText *bytes)
{
	JsonText	text;

	value += strspn(value, " \t");
	text = (JsonText) {value, strlen(value)};
	while (text.len > 0 && strchr(" \t\r\n", text.bytes[text.len - 1]) != NULL)
		text.len--;
	return base64_decode(arena, text, bytes);
}

bool
base64url_decode(Arena *arena, JsonText text, JsonText *bytes, size_t *wrong)
{
	size_t		digits;
	size_t		end = take_digits(arena, url, text, false, bytes, &digits);

	/* A single last digit has too few bits for a byte. */
	*wrong = end < text.len || end == 0 ? end : end - 1;
	return end == text.len && digits % 4 != 1;
}
