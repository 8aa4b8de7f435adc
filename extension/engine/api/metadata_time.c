/*-------------------------------------------------------------------------
 *
 * metadata_time.c
 *	  Times of metadata: RFC 3339.
 *
 * Times are read as liberally as Go reads them (offsets, fractions).  They
 * are written in one form only: in UTC with whole seconds, in the years 0 to
 * 9999.  This form can be read again.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/metadata_private.h"

/* Days since 1970-01-01 of a date of the proleptic Gregorian calendar. */
static int64_t
days_from_date(int64_t year, int month, int day)
{
	int64_t		y = month <= 2 ? year - 1 : year;
	int64_t		era = (y >= 0 ? y : y - 399) / 400;
	int64_t		year_of_era = y - era * 400;
	int64_t		day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	int64_t		day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

	return era * 146097 + day_of_era - 719468;
}

char *
format_time(Arena *arena, int64_t seconds)
{
	int64_t		days = seconds / 86400;
	int64_t		rest = seconds % 86400;
	int64_t		era;
	int64_t		day_of_era;
	int64_t		year_of_era;
	int64_t		day_of_year;
	int64_t		shifted_month;
	int64_t		year;
	int64_t		month;

	if (rest < 0)
	{
		rest += 86400;
		days--;
	}
	days += 719468;
	era = (days >= 0 ? days : days - 146096) / 146097;
	day_of_era = days - era * 146097;
	year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	shifted_month = (5 * day_of_year + 2) / 153;
	month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
	year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
	return arena_printf(arena, "%04lld-%02d-%02dT%02d:%02d:%02dZ", (long long) year, (int) month,
						(int) (day_of_year - (153 * shifted_month + 2) / 5 + 1),
						(int) (rest / 3600), (int) (rest / 60 % 60), (int) (rest % 60));
}

/* A fraction of a second is read and ignored. */
static size_t
skip_fraction(JsonText text, size_t pos)
{
	if (pos + 1 < text.len && (text.bytes[pos] == '.' || text.bytes[pos] == ',') &&
		text.bytes[pos + 1] >= '0' && text.bytes[pos + 1] <= '9')
	{
		pos++;
		while (pos < text.len && text.bytes[pos] >= '0' && text.bytes[pos] <= '9')
			pos++;
	}
	return pos;
}

/* Reads Z, or an offset such as +01:00, which becomes seconds, and moves pos behind it. */
static bool
scan_zone(JsonText text, size_t *pos, int *offset)
{
	const char *zone = text.bytes + *pos;

	if (*pos < text.len && zone[0] == 'Z')
	{
		*offset = 0;
		*pos += 1;
		return true;
	}
	if (text.len - *pos < 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':')
		return false;
	for (int i = 1; i < 6; i++)
		if (i != 3 && (zone[i] < '0' || zone[i] > '9'))
			return false;
	if ((zone[1] - '0') * 10 + zone[2] - '0' > 24 || (zone[4] - '0') * 10 + zone[5] - '0' > 60)
		return false;
	*offset = ((zone[1] - '0') * 10 + zone[2] - '0') * 3600 + ((zone[4] - '0') * 10 + zone[5] - '0') * 60;
	if (zone[0] == '-')
		*offset = -*offset;
	*pos += 6;
	return true;
}

static int
days_of_month(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	if (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0))
		return 29;
	return days[month - 1];
}

/* Checks the layout part by part, as Go does, so that errors name the same part as Go's errors. */
bool
scan_time(JsonText text, int64_t *seconds, const char **element, size_t *at, const char **range)
{
	static const struct
	{
		const char *layout;
		int			digits;		/* 0: the layout's own character */
		int			low;
		int			high;
		const char *name;
	}			parts[] = {
		{"2006", 4, 0, 9999, NULL}, {"-", 0, 0, 0, NULL}, {"01", 2, 1, 12, "month"}, {"-", 0, 0, 0, NULL},
		{"02", 2, 1, 31, "day"}, {"T", 0, 0, 0, NULL}, {"15", 2, 0, 23, "hour"}, {":", 0, 0, 0, NULL},
		{"04", 2, 0, 59, "minute"}, {":", 0, 0, 0, NULL}, {"05", 2, 0, 59, "second"},
	};
	int			values[11] = {0};
	size_t		pos = 0;
	int			offset = 0;

	*range = NULL;
	for (size_t i = 0; i < 11; i++)
	{
		*element = parts[i].layout;
		*at = pos;
		if (parts[i].digits == 0)
		{
			if (pos >= text.len || text.bytes[pos] != parts[i].layout[0])
				return false;
			pos++;
			continue;
		}
		if (text.len - pos < (size_t) parts[i].digits)
			return false;
		for (int d = 0; d < parts[i].digits; d++)
		{
			char		c = text.bytes[pos + d];

			if (c < '0' || c > '9')
				return false;
			values[i] = values[i] * 10 + (c - '0');
		}
		if (values[i] < parts[i].low || values[i] > parts[i].high)
		{
			*range = parts[i].name;
			return false;
		}
		pos += parts[i].digits;
	}

	pos = skip_fraction(text, pos);
	*element = "Z07:00";
	*at = pos;
	if (!scan_zone(text, &pos, &offset))
		return false;
	if (pos != text.len)
	{
		*element = NULL;
		*at = pos;
		return false;
	}

	if (values[4] > days_of_month(values[0], values[2]))
	{
		*range = "day";
		return false;
	}
	*seconds = days_from_date(values[0], values[2], values[4]) * 86400 +
		values[6] * 3600 + values[8] * 60 + values[10] - offset;

	/* The offset may move the time out of the years that format_time() can write. */
	if (*seconds < days_from_date(0, 1, 1) * 86400 || *seconds >= days_from_date(10000, 1, 1) * 86400)
	{
		*range = "year";
		return false;
	}
	return true;
}

bool
parse_time(JsonText text, int64_t *seconds)
{
	const char *element;
	const char *range;
	size_t		at;

	return scan_time(text, seconds, &element, &at, &range);
}
