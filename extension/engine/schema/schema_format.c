/*-------------------------------------------------------------------------
 *
 * schema_format.c
 *	  Formats of strings, as kube-apiserver checks them.
 *
 * The formats and their meaning are the same as in apiextensions (Kubernetes
 * 1.34) with kube-openapi's strfmt, including its peculiarities: an "ipv4" may
 * be an IPv4 address written as IPv6, a "byte" is never empty, a "duration" is
 * any text that contains a number with a known unit.
 *
 * URIs and e-mail addresses are in schema_format_uri.c.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/schema_format.h"

#include "engine/base/ascii.h"
#include "engine/base/go_duration.h"
#include "engine/base/utf8.h"

static bool is_bsonobjectid(JsonText text);
static bool is_byte(JsonText text);
static bool is_cidr(JsonText text);
static bool is_creditcard(JsonText text);
static bool is_date(JsonText text);
static bool is_datetime(JsonText text);
static bool is_duration(JsonText text);
static bool is_hexcolor(JsonText text);
static bool is_hostname(JsonText text);
static bool is_ipv4(JsonText text);
static bool is_ipv6(JsonText text);
static bool is_isbn(JsonText text);
static bool is_isbn10(JsonText text);
static bool is_isbn13(JsonText text);
static bool is_long_name(JsonText text);
static bool is_mac(JsonText text);
static bool is_password(JsonText text);
static bool is_rgbcolor(JsonText text);
static bool is_short_name(JsonText text);
static bool is_ssn(JsonText text);
static bool is_uuid(JsonText text);
static bool is_uuid3(JsonText text);
static bool is_uuid4(JsonText text);
static bool is_uuid5(JsonText text);

/* In a host name, symbols and letters of any script count as letters. */
#define HOST_LETTERS "a-zA-Z0-9\\p{S}\\p{L}"
#define HOSTNAME_PATTERN \
	"^([" HOST_LETTERS "]((-?[" HOST_LETTERS "]{0,62})?)|" \
	"([" HOST_LETTERS "](([-" HOST_LETTERS "]{0,61}[" HOST_LETTERS "])?)(\\.)){1,}([a-zA-Z\\p{L}]){2,63})$"

static const StringFormat formats[] = {
	{"bsonobjectid", is_bsonobjectid, NULL},
	{"byte", is_byte, NULL},
	{"cidr", is_cidr, NULL},
	{"creditcard", is_creditcard, NULL},
	{"date", is_date, NULL},
	{"datetime", is_datetime, NULL},
	{"duration", is_duration, NULL},
	{"email", format_is_email, NULL},
	{"hexcolor", is_hexcolor, NULL},
	{"hostname", is_hostname, HOSTNAME_PATTERN},
	{"ipv4", is_ipv4, NULL},
	{"ipv6", is_ipv6, NULL},
	{"isbn", is_isbn, NULL},
	{"isbn10", is_isbn10, NULL},
	{"isbn13", is_isbn13, NULL},
	{"k8slongname", is_long_name, NULL},
	{"k8sshortname", is_short_name, NULL},
	{"mac", is_mac, NULL},
	{"password", is_password, NULL},
	{"rgbcolor", is_rgbcolor, NULL},
	{"ssn", is_ssn, NULL},
	{"uri", format_is_uri, NULL},
	{"uuid", is_uuid, NULL},
	{"uuid3", is_uuid3, NULL},
	{"uuid4", is_uuid4, NULL},
	{"uuid5", is_uuid5, NULL},
};

const StringFormat *
string_format(JsonText name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
	{
		const char *known = formats[i].name;
		size_t		at;

		/* Dashes are ignored: date-time is datetime. */
		for (at = 0; at < name.len; at++)
		{
			if (name.bytes[at] == '-')
				continue;
			if (*known != name.bytes[at])
				break;
			known++;
			if (*known == '\0')
			{
				at++;
				break;
			}
		}
		while (at < name.len && name.bytes[at] == '-')
			at++;
		if (at == name.len && *known == '\0')
			return &formats[i];
	}
	return NULL;
}

static bool
all_digits(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
	{
		if (!ascii_is_digit(bytes[i]))
			return false;
	}
	return true;
}

static bool
is_password(JsonText text)
{
	return true;
}

static bool
is_bsonobjectid(JsonText text)
{
	for (size_t i = 0; i < text.len; i++)
	{
		if (hex_digit(text.bytes[i]) < 0)
			return false;
	}
	return text.len == 24;
}

static bool
is_byte(JsonText text)
{
	size_t		padding = 0;

	if (text.len == 0 || text.len % 4 != 0)
		return false;
	while (padding < 2 && text.bytes[text.len - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < text.len - padding; i++)
	{
		char		c = text.bytes[i];

		if (!ascii_is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '+' && c != '/')
			return false;
	}
	return true;
}

/* Reads a decimal number below 2^24 - 1 from *at on; any number of leading zeros is allowed. */
static bool
read_decimal(JsonText text, size_t *at, int *value)
{
	size_t		start = *at;

	*value = 0;
	while (*at < text.len && ascii_is_digit(text.bytes[*at]))
	{
		*value = *value * 10 + (text.bytes[*at] - '0');
		if (*value >= 0xFFFFFF)
			return false;
		(*at)++;
	}
	return *at > start;
}

/* Reads an IPv4 address from start to the end of the text.  sloppy allows leading zeros, as Go did before 1.17. */
static bool
read_ipv4(JsonText text, size_t start, bool sloppy)
{
	size_t		at = start;

	for (int octet = 0; octet < 4; octet++)
	{
		size_t		first;
		int			value;

		if (octet > 0)
		{
			if (at >= text.len || text.bytes[at] != '.')
				return false;
			at++;
		}
		first = at;
		if (!read_decimal(text, &at, &value) || value > 255)
			return false;
		if (!sloppy && at - first > 1 && text.bytes[first] == '0')
			return false;
	}
	return at == text.len;
}

/* Reads the whole text as an IPv6 address.  The groups are counted; their values do not matter. */
static bool
read_ipv6(JsonText text, bool sloppy)
{
	size_t		at = 0;
	int			bytes = 0;
	bool		ellipsis = false;

	if (text.len >= 2 && text.bytes[0] == ':' && text.bytes[1] == ':')
	{
		ellipsis = true;
		at = 2;
		if (at == text.len)
			return true;
	}
	while (bytes < 16)
	{
		size_t		start = at;

		while (at < text.len && at - start < 5 && hex_digit(text.bytes[at]) >= 0)
			at++;
		if (at == start)
			return false;
		if (at < text.len && text.bytes[at] == '.')
		{
			if ((!ellipsis && bytes != 12) || bytes > 12)
				return false;
			if (!read_ipv4(text, start, sloppy))
				return false;
			at = text.len;
			bytes += 4;
			break;
		}

		/* Go before 1.17 limits the value of a group, so leading zeros are allowed; later Go limits the digits. */
		while (sloppy && at - start > 4 && text.bytes[start] == '0')
		{
			start++;
			while (at < text.len && at - start < 5 && hex_digit(text.bytes[at]) >= 0)
				at++;
		}
		if (at - start > 4)
			return false;
		bytes += 2;
		if (at == text.len)
			break;
		if (text.bytes[at] != ':' || at + 1 == text.len)
			return false;
		at++;
		if (text.bytes[at] == ':')
		{
			if (ellipsis)
				return false;
			ellipsis = true;
			at++;
			if (at == text.len)
				break;
		}
	}
	return at == text.len && (ellipsis ? bytes < 16 : bytes == 16);
}

/* Whether Go's net.ParseIP accepts the text: the first separator decides between IPv4 and IPv6. */
bool
format_is_ip(JsonText text, bool sloppy)
{
	for (size_t i = 0; i < text.len; i++)
	{
		if (text.bytes[i] == '.')
			return read_ipv4(text, 0, sloppy);
		if (text.bytes[i] == ':')
			return read_ipv6(text, sloppy);
	}
	return false;
}

static bool
is_ipv4(JsonText text)
{
	return text.len > 0 && memchr(text.bytes, '.', text.len) != NULL && format_is_ip(text, true);
}

static bool
is_ipv6(JsonText text)
{
	return text.len > 0 && memchr(text.bytes, ':', text.len) != NULL && format_is_ip(text, false);
}

static bool
is_cidr(JsonText text)
{
	const char *slash = text.len > 0 ? memchr(text.bytes, '/', text.len) : NULL;
	JsonText	address;
	size_t		at;
	int			bits;
	int			most;

	if (slash == NULL)
		return false;
	address.bytes = text.bytes;
	address.len = (size_t) (slash - text.bytes);
	if (read_ipv4(address, 0, true))
		most = 32;
	else if (read_ipv6(address, true))
		most = 128;
	else
		return false;
	at = address.len + 1;
	return read_decimal(text, &at, &bits) && at == text.len && bits <= most;
}

static bool
is_mac(JsonText text)
{
	size_t		group;
	size_t		bytes;
	char		separator;

	if (text.len < 14)
		return false;
	if (text.bytes[2] == ':' || text.bytes[2] == '-')
		group = 2;
	else if (text.bytes[4] == '.')
		group = 4;
	else
		return false;
	separator = text.bytes[group];
	if ((text.len + 1) % (group + 1) != 0)
		return false;
	bytes = (text.len + 1) / (group + 1) * group / 2;
	if (bytes != 6 && bytes != 8 && bytes != 20)
		return false;
	for (size_t i = 0; i < text.len; i++)
	{
		if (i % (group + 1) == group ? text.bytes[i] != separator : hex_digit(text.bytes[i]) < 0)
			return false;
	}
	return true;
}

/* 32 hexadecimal digits, with an optional dash after the 8th, 12th, 16th and 20th digit. */
static bool
is_uuid_of(JsonText text, char version, bool check_variant)
{
	size_t		digits = 0;
	bool		dash_allowed = false;

	for (size_t i = 0; i < text.len; i++)
	{
		char		c = text.bytes[i];

		if (c == '-')
		{
			if (!dash_allowed)
				return false;
			dash_allowed = false;
			continue;
		}
		if (hex_digit(c) < 0)
			return false;
		if (digits == 12 && version != '\0' && c != version)
			return false;
		if (digits == 16 && check_variant && (hex_digit(c) & 0x0C) != 0x08)
			return false;
		digits++;
		dash_allowed = digits == 8 || digits == 12 || digits == 16 || digits == 20;
	}
	return digits == 32;
}

static bool
is_uuid(JsonText text)
{
	return is_uuid_of(text, '\0', false);
}

static bool
is_uuid3(JsonText text)
{
	return is_uuid_of(text, '3', false);
}

static bool
is_uuid4(JsonText text)
{
	return is_uuid_of(text, '4', true);
}

static bool
is_uuid5(JsonText text)
{
	return is_uuid_of(text, '5', true);
}

/* Copies an ISBN without white space and dashes; false when more than size characters remain. */
static bool
strip_isbn(JsonText text, char *stripped, size_t size, size_t *len)
{
	*len = 0;
	for (size_t i = 0; i < text.len; i++)
	{
		char		c = text.bytes[i];

		if (c == '-' || c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r')
			continue;
		if (*len == size)
			return false;
		stripped[(*len)++] = c;
	}
	return true;
}

static bool
is_isbn10(JsonText text)
{
	char		isbn[10];
	size_t		len;
	int			sum = 0;

	if (!strip_isbn(text, isbn, sizeof(isbn), &len) || len != 10 || !all_digits(isbn, 9))
		return false;
	if (!ascii_is_digit(isbn[9]) && isbn[9] != 'X')
		return false;
	for (int i = 0; i < 9; i++)
		sum += (i + 1) * (isbn[i] - '0');
	sum += 10 * (isbn[9] == 'X' ? 10 : isbn[9] - '0');
	return sum % 11 == 0;
}

static bool
is_isbn13(JsonText text)
{
	char		isbn[13];
	size_t		len;
	int			sum = 0;

	if (!strip_isbn(text, isbn, sizeof(isbn), &len) || len != 13 || !all_digits(isbn, 13))
		return false;
	for (int i = 0; i < 12; i++)
		sum += (i % 2 == 0 ? 1 : 3) * (isbn[i] - '0');
	return isbn[12] - '0' == (10 - sum % 10) % 10;
}

static bool
is_isbn(JsonText text)
{
	return is_isbn10(text) || is_isbn13(text);
}

/* Whether the digits have the prefix of a known card issuer and its length. */
static bool
is_card_number(const char *digits, size_t len)
{
	int			two;
	int			three;
	int			four;

	if (len < 13 || len > 16)
		return false;
	two = (digits[0] - '0') * 10 + (digits[1] - '0');
	three = two * 10 + (digits[2] - '0');
	four = three * 10 + (digits[3] - '0');

	if (digits[0] == '4')
		return len == 13 || len == 16;
	if (two >= 51 && two <= 55)
		return len == 16;
	if (four == 6011 || two == 65)
		return len == 16;
	if (two == 34 || two == 37)
		return len == 15;
	if ((three >= 300 && three <= 305) || two == 36 || two == 38)
		return len == 14;
	if (four == 2131 || four == 1800)
		return len == 15;
	return two == 35 && len == 16;
}

static bool
is_creditcard(JsonText text)
{
	char		digits[16];
	size_t		len = 0;
	int			sum = 0;

	for (size_t i = 0; i < text.len; i++)
	{
		if (!ascii_is_digit(text.bytes[i]))
			continue;
		if (len == sizeof(digits))
			return false;
		digits[len++] = text.bytes[i];
	}
	if (!is_card_number(digits, len))
		return false;
	for (size_t i = 0; i < len; i++)
	{
		int			digit = digits[len - 1 - i] - '0';

		if (i % 2 == 1)
			digit = digit * 2 > 9 ? digit * 2 - 9 : digit * 2;
		sum += digit;
	}
	return sum % 10 == 0;
}

/* 123-45-6789; the separators are required and may be spaces. */
static bool
is_ssn(JsonText text)
{
	if (text.len != 11)
		return false;
	return all_digits(text.bytes, 3) && (text.bytes[3] == '-' || text.bytes[3] == ' ') &&
		all_digits(text.bytes + 4, 2) && (text.bytes[6] == '-' || text.bytes[6] == ' ') &&
		all_digits(text.bytes + 7, 4);
}

static bool
is_hexcolor(JsonText text)
{
	size_t		start = text.len > 0 && text.bytes[0] == '#' ? 1 : 0;

	if (text.len - start != 3 && text.len - start != 6)
		return false;
	for (size_t i = start; i < text.len; i++)
	{
		if (hex_digit(text.bytes[i]) < 0)
			return false;
	}
	return true;
}

static void
skip_white(JsonText text, size_t *at)
{
	while (*at < text.len && memchr(" \t\n\f\r", text.bytes[*at], 5) != NULL)
		(*at)++;
}

static bool
is_rgbcolor(JsonText text)
{
	size_t		at = 4;

	if (text.len < 4 || memcmp(text.bytes, "rgb(", 4) != 0)
		return false;
	for (int part = 0; part < 3; part++)
	{
		size_t		start;
		int			value;

		skip_white(text, &at);
		start = at;
		if (!read_decimal(text, &at, &value) || value > 255)
			return false;
		if (at - start > 1 && text.bytes[start] == '0')
			return false;
		skip_white(text, &at);
		if (at >= text.len || text.bytes[at] != (part < 2 ? ',' : ')'))
			return false;
		at++;
	}
	return at == text.len;
}

static bool
is_date(JsonText text)
{
	static const int days_of_month[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	const char *s = text.bytes;
	int			year;
	int			month;
	int			day;
	int			days;

	if (text.len != 10 || s[4] != '-' || s[7] != '-' ||
		!all_digits(s, 4) || !all_digits(s + 5, 2) || !all_digits(s + 8, 2))
		return false;
	year = (s[0] - '0') * 1000 + (s[1] - '0') * 100 + (s[2] - '0') * 10 + (s[3] - '0');
	month = (s[5] - '0') * 10 + (s[6] - '0');
	day = (s[8] - '0') * 10 + (s[9] - '0');
	if (month < 1 || month > 12)
		return false;
	days = days_of_month[month - 1];
	if (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0))
		days = 29;
	return day >= 1 && day <= days;
}

/*
 * A date, a T, a time with a zone.  As upstream, the text after a second T is ignored, the hour of a zone may have any
 * value, and any character may stand for the decimal point of a fraction.
 */
static bool
is_datetime(JsonText text)
{
	JsonText	date = {text.bytes, 10};
	const char *s;
	size_t		len;
	size_t		at = 8;

	if (text.len < 11 || (text.bytes[10] != 'T' && text.bytes[10] != 't') || !is_date(date))
		return false;
	s = text.bytes + 11;
	len = 0;
	while (len < text.len - 11 && s[len] != 'T' && s[len] != 't')
		len++;
	if (len < 9 || !all_digits(s, 2) || s[2] != ':' || !all_digits(s + 3, 2) || s[5] != ':' || !all_digits(s + 6, 2))
		return false;
	if (memcmp(s, "23", 2) > 0 || memcmp(s + 3, "59", 2) > 0 || memcmp(s + 6, "59", 2) > 0)
		return false;

	if (len - at != 1 && !(len - at == 6 && (s[at] == '+' || s[at] == '-')))
	{
		uint32_t	rune;
		size_t		width = utf8_decode(s + at, len - at, &rune);
		size_t		digits;

		if (width == 0 || rune == '\n')
			return false;
		at += width;
		digits = at;
		while (at < len && ascii_is_digit(s[at]))
			at++;
		if (at == digits)
			return false;
	}
	if (len - at == 1)
		return s[at] == 'Z' || s[at] == 'z';
	return len - at == 6 && (s[at] == '+' || s[at] == '-') && all_digits(s + at + 1, 2) && s[at + 3] == ':' &&
		all_digits(s + at + 4, 2);
}

/* The unit of a duration in Scala's notation: a short name, or a word that begins with a long name. */
static bool
is_duration_unit(const char *unit, size_t len)
{
	static const char *const names[] = {
		"ns", "us", "\xC2\xB5s", "ms", "s", "m", "h", "hr", "d", "w", "wk",
	};
	static const char *const prefixes[] = {
		"nano", "micro", "milli", "sec", "min", "hour", "day", "week",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		if (len == strlen(names[i]) && ascii_same(unit, names[i], len))
			return true;
	}
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
	{
		if (len >= strlen(prefixes[i]) && ascii_same(unit, prefixes[i], strlen(prefixes[i])))
			return true;
	}
	return false;
}

static bool
is_duration(JsonText text)
{
	size_t		at = 0;
	bool		found = false;
	int64_t		nanoseconds;

	if (go_duration_parse(text, &nanoseconds))
		return true;
	while (at < text.len)
	{
		size_t		unit;
		uint64_t	value = 0;
		bool		overflow = false;

		if (!ascii_is_digit(text.bytes[at]))
		{
			at++;
			continue;
		}
		for (; at < text.len && ascii_is_digit(text.bytes[at]); at++)
		{
			overflow = overflow || value > INT64_MAX / 10;
			value = overflow ? 0 : value * 10 + (uint64_t) (text.bytes[at] - '0');
			overflow = overflow || value > INT64_MAX;
		}
		skip_white(text, &at);
		unit = at;
		while (at < text.len)
		{
			char		c = text.bytes[at];

			if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
				at++;
			else if (at + 1 < text.len && memcmp(text.bytes + at, "\xC2\xB5", 2) == 0)
				at += 2;
			else
				break;
		}
		if (at == unit)
			continue;
		if (overflow)
			return false;
		if (is_duration_unit(text.bytes + unit, at - unit))
			found = true;
	}
	return found;
}

/* Reads lower-case letters, digits and dashes and moves *at behind them.  A dash may not be first or last. */
static bool
read_name_label(JsonText text, size_t *at)
{
	size_t		start = *at;

	while (*at < text.len)
	{
		char		c = text.bytes[*at];

		if (!ascii_is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-')
			break;
		(*at)++;
	}
	return *at > start && text.bytes[start] != '-' && text.bytes[*at - 1] != '-';
}

static bool
is_short_name(JsonText text)
{
	size_t		at = 0;

	return text.len <= 63 && read_name_label(text, &at) && at == text.len;
}

static bool
is_long_name(JsonText text)
{
	size_t		at = 0;

	if (text.len > 253)
		return false;
	while (read_name_label(text, &at))
	{
		if (at == text.len)
			return true;
		if (text.bytes[at] != '.')
			return false;
		at++;
	}
	return false;
}

/* Checks only the lengths; HOSTNAME_PATTERN checks the characters. */
static bool
is_hostname(JsonText text)
{
	size_t		label = 0;

	if (text.len > 255)
		return false;
	for (size_t i = 0; i < text.len; i++)
	{
		label = text.bytes[i] == '.' ? 0 : label + 1;
		if (label > 63)
			return false;
	}
	return true;
}
