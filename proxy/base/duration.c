/*-------------------------------------------------------------------------
 *
 * duration.c
 *	  Durations as Go writes them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/duration.h"

#include <string.h>

#include "engine/base/ascii.h"

/* Further decimals do not change a double. */
#define MOST_DECIMALS 1e17

static const struct
{
	const char *name;
	double		milliseconds;
}			units[] = {
	{"ns", 1e-6}, {"us", 1e-3}, {"\xC2\xB5s", 1e-3}, {"\xCE\xBCs", 1e-3}, {"ms", 1}, {"s", 1e3}, {"m", 6e4},
	{"h", 3.6e6},
};

/* Reads a number without sign or exponent and moves *next behind it; false when the number has no digit. */
static bool
take_number(const char **next, const char *end, double *number)
{
	double		mantissa = 0;
	double		scale = 1;
	bool		digits = false;

	for (; *next < end && ascii_is_digit(**next); (*next)++, digits = true)
		mantissa = mantissa * 10 + (**next - '0');
	if (*next < end && **next == '.')
		for ((*next)++; *next < end && ascii_is_digit(**next); (*next)++, digits = true)
			if (scale < MOST_DECIMALS)
			{
				mantissa = mantissa * 10 + (**next - '0');
				scale *= 10;
			}
	*number = mantissa / scale;
	return digits;
}

/* Reads the longest unit (ms rather than m) and moves *next behind it.  Returns its milliseconds; 0: no unit. */
static double
take_unit(const char **next, const char *end)
{
	size_t		best = 0;
	double		milliseconds = 0;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
	{
		size_t		len = strlen(units[i].name);

		if (len > best && (size_t) (end - *next) >= len && memcmp(*next, units[i].name, len) == 0)
		{
			best = len;
			milliseconds = units[i].milliseconds;
		}
	}
	*next += best;
	return milliseconds;
}

bool
duration_parse(const char *text, size_t len, double *milliseconds)
{
	const char *end = text + len;
	bool		negative = len > 0 && *text == '-';
	double		sum = 0;

	*milliseconds = 0;
	if (len > 0 && (*text == '-' || *text == '+'))
		text++;
	if (end - text == 1 && *text == '0')
		return true;
	if (text == end)
		return false;
	while (text < end)
	{
		double		number;
		double		unit;

		if (!take_number(&text, end, &number) || (unit = take_unit(&text, end)) == 0)
			return false;
		sum += number * unit;
	}
	*milliseconds = negative ? -sum : sum;
	return true;
}
