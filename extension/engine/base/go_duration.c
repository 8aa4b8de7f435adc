/*-------------------------------------------------------------------------
 *
 * go_duration.c
 *	  Durations as Go writes them.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/go_duration.h"

#include <string.h>

#include "engine/base/ascii.h"

/* The largest sum, which only a negative duration reaches. */
#define MOST (UINT64_C(1) << 63)

/* The nanoseconds of the unit at *at, which ends before a digit or a point; 0: no unit.  Moves *at behind the unit. */
static uint64_t
take_unit(JsonText text, size_t *at)
{
	static const struct
	{
		const char *name;
		uint64_t	nanoseconds;
	}			units[] = {
		{"ns", 1}, {"us", 1000}, {"\xC2\xB5s", 1000}, {"\xCE\xBCs", 1000}, {"ms", 1000000}, {"s", 1000000000},
		{"m", UINT64_C(60000000000)}, {"h", UINT64_C(3600000000000)},
	};
	JsonText	unit = {text.bytes + *at, 0};

	while (*at < text.len && !ascii_is_digit(text.bytes[*at]) && text.bytes[*at] != '.')
		(*at)++;
	unit.len = (size_t) (text.bytes + *at - unit.bytes);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
	{
		if (json_text_is(unit, units[i].name))
			return units[i].nanoseconds;
	}
	return 0;
}

/* Reads a decimal with its unit at *at and moves *at behind it. */
static bool
take_part(JsonText text, size_t *at, uint64_t *nanoseconds)
{
	uint64_t	value = 0;
	uint64_t	fraction = 0;
	double		scale = 1;
	bool		digits = false;
	uint64_t	unit;

	for (; *at < text.len && ascii_is_digit(text.bytes[*at]); (*at)++, digits = true)
	{
		if (value > MOST / 10)
			return false;
		value = value * 10 + (uint64_t) (text.bytes[*at] - '0');
		if (value > MOST)
			return false;
	}
	if (*at < text.len && text.bytes[*at] == '.')
	{
		for ((*at)++; *at < text.len && ascii_is_digit(text.bytes[*at]); (*at)++, digits = true)
		{
			/* Further decimals do not change the nanoseconds. */
			if (fraction > (MOST - 1) / 10)
				continue;
			fraction = fraction * 10 + (uint64_t) (text.bytes[*at] - '0');
			scale *= 10;
		}
	}
	if (!digits)
		return false;
	unit = take_unit(text, at);
	if (unit == 0 || value > MOST / unit)
		return false;
	*nanoseconds = value * unit + (uint64_t) ((double) fraction * ((double) unit / scale));
	return *nanoseconds <= MOST;
}

bool
go_duration_parse(JsonText text, int64_t *nanoseconds)
{
	bool		negative = text.len > 0 && text.bytes[0] == '-';
	size_t		at = text.len > 0 && (text.bytes[0] == '-' || text.bytes[0] == '+');
	uint64_t	sum = 0;

	*nanoseconds = 0;
	if (text.len - at == 1 && text.bytes[at] == '0')
		return true;
	if (at == text.len)
		return false;
	while (at < text.len)
	{
		uint64_t	part;

		if (!take_part(text, &at, &part))
			return false;
		sum += part;
		if (sum > MOST)
			return false;
	}
	if (sum == MOST && !negative)
		return false;
	*nanoseconds = (int64_t) (negative ? 0 - sum : sum);
	return true;
}
