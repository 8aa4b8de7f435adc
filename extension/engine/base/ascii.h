/*-------------------------------------------------------------------------
 *
 * ascii.h
 *	  Letters and digits of ASCII, independent of the locale.
 *
 * The C library's tolower(), isalpha() and strcasecmp() follow the locale of
 * the database: in a Turkish one I and i are different letters, and "FAIL" is
 * not "fail".  The engine's functions are IMMUTABLE and must not depend on
 * the locale.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ASCII_H
#define ASCII_H

#include <stdbool.h>
#include <stddef.h>

static inline bool
ascii_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool
ascii_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline bool
ascii_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline char
ascii_upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char) (c - 'a' + 'A') : c;
}

static inline char
ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char) (c - 'A' + 'a') : c;
}

/* Whether the first len bytes of two texts are equal without regard to case. */
static inline bool
ascii_same(const char *a, const char *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (ascii_lower(a[i]) != ascii_lower(b[i]))
			return false;
	return true;
}

/* -1 when c is not a hexadecimal digit. */
static inline int
hex_digit(char c)
{
	if (ascii_is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Whether a text is a UUID as RFC 9562 writes it, in small or large letters. */
static inline bool
ascii_is_uuid(const char *text, size_t len)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (len != sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < len; i++)
		if (form[i] == '-' ? text[i] != '-' : hex_digit(text[i]) < 0)
			return false;
	return true;
}

#endif							/* ASCII_H */
