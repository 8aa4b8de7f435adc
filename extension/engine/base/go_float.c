/*-------------------------------------------------------------------------
 *
 * go_float.c
 *	  Floats as Go prints them: the fewest digits that read back as the
 *	  same number.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/go_float.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 17 digits identify every double, and 9 every float. */
#define MAX_DIGITS 17
#define MAX_FLOAT_DIGITS 9

/* The longest number without exponent: sign, "0.00000", 17 digits. */
#define NUMBER_BYTES 32

/* The significant digits of a number that is not 0. */
typedef struct Digits
{
	char		digits[MAX_DIGITS + 3];
	size_t		count;
	int			point;			/* the number of digits before the decimal point */
} Digits;

/* The digits of a whole number without trailing zeros. */
static void
take_whole(uint64_t value, Digits *to)
{
	char		reversed[20];
	size_t		count = 0;
	size_t		zeros = 0;

	for (; value > 0; value /= 10)
		reversed[count++] = (char) ('0' + value % 10);
	to->point = (int) count;
	while (zeros < count && reversed[zeros] == '0')
		zeros++;
	to->count = count - zeros;
	for (size_t i = 0; i < to->count; i++)
		to->digits[i] = reversed[count - 1 - i];
}

/* The digits of a double that needs no search; false when it needs one. */
static bool
take_quickly(double value, Digits *to)
{
	static const double powers[] = {1e1, 1e2, 1e3, 1e4, 1e5, 1e6};

	/* Below 2^53 every whole number is a double, and no shorter number reads back as the same double. */
	if (value < 9007199254740992.0 && trunc(value) == value)
	{
		take_whole((uint64_t) value, to);
		return true;
	}

	/*
	 * A few decimals: dividend and divisor are exact, so the quotient is the double nearest to these digits.  No two
	 * numbers of up to 15 digits are the same double.
	 */
	for (int i = 0; i < 6 && value >= 1e-3 && value < 1e9; i++)
	{
		double		scaled = rint(value * powers[i]);

		if (scaled < 1e15 && scaled / powers[i] == value)
		{
			take_whole((uint64_t) scaled, to);
			to->point -= i + 1;
			return true;
		}
	}
	return false;
}

/* Adds one to the last digit of the mantissa of "d.ddde-xx". */
static void
increment_last_digit(char *text)
{
	char	   *digit = strchr(text, 'e') - 1;

	while (digit >= text)
	{
		if (*digit == '.')
		{
			digit--;
			continue;
		}
		if (*digit != '9')
		{
			++*digit;
			return;
		}
		*digit-- = '0';
	}
}

static bool
reads_back(const char *text, double value, bool single)
{
	return single ? (double) strtof(text, NULL) == value : strtod(text, NULL) == value;
}

/* The digits of a number that needs a search: single is true for a float. */
static void
take_shortest(double value, bool single, Digits *to)
{
	const int	most = single ? MAX_FLOAT_DIGITS : MAX_DIGITS;
	char		text[MAX_DIGITS + 16];
	int			mantissa_exponent;
	int			precision = single ? 6 : 15;
	const char *p;

	/* A normal float always keeps 6 digits, and a normal double 15, but a subnormal number keeps fewer. */
	if (single ? !isnormal((float) value) : !isnormal(value))
		precision = 1;
	for (; precision <= most; precision++)
	{
		snprintf(text, sizeof(text), "%.*e", precision - 1, value);
		if (precision == most || reads_back(text, value, single))
			break;

		/*
		 * Numbers are twice as dense below a power of two as above it: the nearest number of one digit less than the
		 * most may be another one, while the next larger one reads back as value.
		 */
		if (precision == most - 1 && frexp(value, &mantissa_exponent) == 0.5)
		{
			increment_last_digit(text);
			if (reads_back(text, value, single))
				break;
		}
	}

	to->count = 0;
	for (p = text; *p != 'e'; p++)
	{
		if (*p != '.')
			to->digits[to->count++] = *p;
	}
	while (to->count > 1 && to->digits[to->count - 1] == '0')
		to->count--;
	to->point = (int) strtol(p + 1, NULL, 10) + 1;
}

/* Appends d.ddde+x; the exponent has at least so many digits. */
static void
put_scientific(StrBuf *buf, const Digits *from, int exponent_digits)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): every number has a digit */
	strbuf_putc(buf, from->digits[0]);
	if (from->count > 1)
	{
		strbuf_putc(buf, '.');
		strbuf_append(buf, from->digits + 1, from->count - 1);
	}
	strbuf_printf(buf, "e%+.*d", exponent_digits, from->point - 1);
}

static void
put_plain(StrBuf *buf, const Digits *from)
{
	char		text[NUMBER_BYTES];
	char	   *to = text;

	if (from->point <= 0)
	{
		*to++ = '0';
		*to++ = '.';
		memset(to, '0', (size_t) -from->point);
		to += -from->point;
		memcpy(to, from->digits, from->count);
		to += from->count;
	}
	else
	{
		size_t		point = (size_t) from->point;
		size_t		whole = point < from->count ? point : from->count;

		memcpy(to, from->digits, whole);
		to += whole;
		memset(to, '0', point - whole);
		to += point - whole;
		if (whole < from->count)
		{
			*to++ = '.';
			memcpy(to, from->digits + whole, from->count - whole);
			to += from->count - whole;
		}
	}
	strbuf_append(buf, text, (size_t) (to - text));
}

void
go_float_json(StrBuf *buf, double value)
{
	double		size = fabs(value);
	Digits		digits;

	if (value == 0)
	{
		strbuf_putc(buf, '0');
		return;
	}
	if (value < 0)
		strbuf_putc(buf, '-');
	if (!take_quickly(size, &digits))
		take_shortest(size, false, &digits);
	if (size < 1e-6 || size >= 1e21)
		put_scientific(buf, &digits, 1);
	else
		put_plain(buf, &digits);
}

static void
put_text(StrBuf *buf, double value, bool single)
{
	double		size = fabs(value);
	Digits		digits;

	if (isnan(value) || isinf(value))
	{
		strbuf_puts(buf, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
		return;
	}
	if (signbit(value))
		strbuf_putc(buf, '-');
	if (value == 0)
	{
		strbuf_putc(buf, '0');
		return;
	}
	if (single || !take_quickly(size, &digits))
		take_shortest(size, single, &digits);
	if (digits.point < -3 || digits.point > 6)
		put_scientific(buf, &digits, 2);
	else
		put_plain(buf, &digits);
}

void
go_float_text(StrBuf *buf, double value)
{
	put_text(buf, value, false);
}

void
go_float32_text(StrBuf *buf, double value)
{
	put_text(buf, (double) (float) value, true);
}
