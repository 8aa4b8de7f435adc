/*-------------------------------------------------------------------------
 *
 * yaml_scalar.c
 *	  The meaning of YAML scalars without quotes.
 *
 * Readers of YAML differ.  YAML 1.1 has the booleans yes and no, the octal
 * number 017, and 1:30 for ninety.  YAML 1.2 has none of these, but has 0o17.
 * The reader of Kubernetes accepts the booleans of 1.1 and both forms of octal
 * numbers, but not base 60.  This proxy reads as Kubernetes does.  When it
 * writes, it quotes every string that one of these readers would take for
 * another type.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/yaml_text.h"
#include "engine/base/ascii.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct Word
{
	const char *lower;			/* also matches Capitalized and UPPER CASE */
	Scalar		scalar;
} Word;

static const Word words[] = {
	{"~", {SCALAR_NULL, {0}}},
	{"null", {SCALAR_NULL, {0}}},
	{"y", {SCALAR_BOOL, {.boolean = true}}},
	{"yes", {SCALAR_BOOL, {.boolean = true}}},
	{"true", {SCALAR_BOOL, {.boolean = true}}},
	{"on", {SCALAR_BOOL, {.boolean = true}}},
	{"n", {SCALAR_BOOL, {.boolean = false}}},
	{"no", {SCALAR_BOOL, {.boolean = false}}},
	{"false", {SCALAR_BOOL, {.boolean = false}}},
	{"off", {SCALAR_BOOL, {.boolean = false}}},
	{".inf", {SCALAR_FLOAT, {.number = INFINITY}}},
	{"+.inf", {SCALAR_FLOAT, {.number = INFINITY}}},
	{"-.inf", {SCALAR_FLOAT, {.number = -INFINITY}}},
};

#define LONGEST_WORD 5

/* Longer numbers are copied to the arena. */
#define NUMBER_ROOM 64

static bool
is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

/* true, True and TRUE match; tRUE does not. */
static bool
is_word(JsonText text, const char *lower)
{
	bool		rest_lower = true;
	bool		rest_upper = true;
	size_t		first = 0;

	if (strlen(lower) != text.len || strncasecmp(text.bytes, lower, text.len) != 0)
		return false;
	while (first < text.len && !is_lower(lower[first]))
		first++;
	if (first == text.len)
		return true;
	for (size_t i = first + 1; i < text.len; i++)
	{
		rest_lower &= text.bytes[i] == lower[i];
		rest_upper &= text.bytes[i] != lower[i];
	}
	return rest_lower || (rest_upper && text.bytes[first] != lower[first]);
}

static bool
find_word(JsonText text, Scalar *scalar)
{
	if (text.len == 0)
	{
		*scalar = (Scalar) {SCALAR_NULL, {0}};
		return true;
	}
	if (text.len > LONGEST_WORD)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (is_word(text, words[i].lower))
		{
			*scalar = words[i].scalar;
			return true;
		}
	if (!json_text_is(text, ".nan") && !json_text_is(text, ".NaN") && !json_text_is(text, ".NAN"))
		return false;
	*scalar = (Scalar) {SCALAR_FLOAT, {.number = NAN}};
	return true;
}

/* Parses as Go's strconv.ParseInt and ParseUint do with base 0: the prefix determines the base. */
static bool
parse_integer(const char *text, Scalar *scalar)
{
	bool		negative = *text == '-';
	bool		is_signed = negative || *text == '+';
	unsigned	base = 10;
	uint64_t	value = 0;

	text += is_signed;
	if (text[0] == '0' && text[1] != '\0')
	{
		char		letter = text[1] | 0x20;

		base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
		text += letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1;
	}
	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++)
	{
		char		letter = *text | 0x20;
		unsigned	digit = base;

		if (ascii_is_digit(*text))
			digit = *text - '0';
		else if (is_lower(letter))
			digit = letter - 'a' + 10;
		if (digit >= base || value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	if (value <= (uint64_t) INT64_MAX + negative)
		*scalar = (Scalar) {SCALAR_INTEGER, {.integer = negative ? (int64_t) (0 - value) : (int64_t) value}};
	else if (!is_signed)
		*scalar = (Scalar) {SCALAR_UNSIGNED, {.large = value}};
	else
		return false;
	return true;
}

static const char *
skip_digits(const char *text)
{
	while (ascii_is_digit(*text))
		text++;
	return text;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool
looks_like_float(const char *text)
{
	const char *digits;

	text += *text == '-' || *text == '+';
	digits = text;
	text = skip_digits(text);
	if (*text == '.')
	{
		bool		leading = text > digits;

		digits = ++text;
		text = skip_digits(text);
		if (!leading && text == digits)
			return false;
	}
	else if (text == digits)
		return false;
	if (*text == 'e' || *text == 'E')
	{
		text++;
		text += *text == '-' || *text == '+';
		digits = text;
		text = skip_digits(text);
		if (text == digits)
			return false;
	}
	return *text == '\0';
}

/* A number too large for a double is not a float. */
static bool
parse_float(const char *text, Scalar *scalar)
{
	if (!looks_like_float(text))
		return false;
	*scalar = (Scalar) {SCALAR_FLOAT, {.number = strtod(text, NULL)}};
	return isfinite(scalar->u.number);
}

/* Returns a NUL-terminated copy, in room if it fits.  underscores: keeps the underscores. */
static char *
copy_number(Arena *arena, JsonText text, bool underscores, char room[NUMBER_ROOM])
{
	char	   *copy = text.len < NUMBER_ROOM ? room : arena_alloc(arena, text.len + 1);
	char	   *to = copy;

	for (size_t i = 0; i < text.len; i++)
		if (text.bytes[i] != '_' || underscores)
			*to++ = text.bytes[i];
	*to = '\0';
	return copy;
}

static bool
may_be_number(JsonText text)
{
	if (text.len == 0 || memchr(text.bytes, '\0', text.len) != NULL)
		return false;
	return ascii_is_digit(text.bytes[0]) || text.bytes[0] == '-' || text.bytes[0] == '+' || text.bytes[0] == '.';
}

Scalar
scalar_resolve(Arena *arena, JsonText text)
{
	Scalar		scalar;

	if (find_word(text, &scalar))
		return scalar;
	if (may_be_number(text))
	{
		char		room[NUMBER_ROOM];
		bool		point = text.bytes[0] == '.';
		const char *number = copy_number(arena, text, point, room);

		if ((!point && parse_integer(number, &scalar)) || parse_float(number, &scalar))
			return scalar;
	}
	return (Scalar) {SCALAR_STRING, {0}};
}

/* Matches 1:30 and 1:30.5. */
static bool
looks_like_base_60(const char *text)
{
	const char *digits = text + (*text == '-' || *text == '+');
	const char *next = skip_digits(digits);

	if (next == digits || *next != ':')
		return false;
	while (*next == ':')
	{
		digits = ++next;
		next = skip_digits(next);
		if (next == digits || next - digits > 2 || (next - digits == 2 && *digits > '5'))
			return false;
	}
	if (*next == '.')
		next = skip_digits(next + 1);
	return *next == '\0';
}

/* Matches 2001-12-14, alone or before a time. */
static bool
looks_like_date(const char *text)
{
	const char *next = skip_digits(text);

	if (next - text != 4 || *next != '-')
		return false;
	for (int part = 0; part < 2; part++)
	{
		const char *digits = next + 1;

		if (*next != '-')
			return false;
		next = skip_digits(digits);
		if (next == digits || next - digits > 2)
			return false;
	}
	return *next == '\0' || *next == 'T' || *next == 't' || *next == ' ' || *next == '\t';
}

bool
scalar_is_ambiguous(Arena *arena, JsonText text)
{
	char		room[NUMBER_ROOM];
	const char *number;

	if (json_text_is(text, "<<") || json_text_is(text, "="))
		return true;
	if (scalar_resolve(arena, text).kind != SCALAR_STRING)
		return true;
	if (!may_be_number(text))
		return false;

	/*
	 * Also matches numbers that are too large, which other readers accept, and YAML 1.1 numbers with underscores after
	 * the point.
	 */
	number = copy_number(arena, text, false, room);
	if (looks_like_float(number) || looks_like_base_60(number) || looks_like_date(number))
		return true;
	number += *number == '-' || *number == '+';
	return number[0] == '0' && number[1] != '\0' && strchr("xXoObB", number[1]) != NULL &&
		number[2 + strspn(number + 2, "0123456789abcdefABCDEF")] == '\0';
}
