/*-------------------------------------------------------------------------
 *
 * schema_format_uri.c
 *	  The formats "uri" and "email" of strings.
 *
 * A URI is valid when Go's url.ParseRequestURI accepts it.  An e-mail address
 * is valid when Go's mail.ParseAddress accepts it, which allows a name,
 * comments, and a group of one address.  Encoded words in names are not
 * decoded, so a name in an unknown character set is not an error.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/schema_format.h"

#include "engine/base/ascii.h"

/* A scan needs no deep recursion: groups do not nest, and nested comments are only counted. */
typedef struct AddressScan
{
	const char *bytes;
	size_t		len;
	size_t		at;
} AddressScan;

static bool read_address(AddressScan *scan, bool may_be_group, int *addresses);

static JsonText
text_from(JsonText text, size_t start)
{
	JsonText	rest = {text.bytes + start, text.len - start};

	return rest;
}

static JsonText
text_until(JsonText text, size_t end)
{
	JsonText	part = {text.bytes, end};

	return part;
}

/* The position of the first such byte, or the length of the text if it has none. */
static size_t
text_find(JsonText text, char byte)
{
	const char *found = text.len > 0 ? memchr(text.bytes, byte, text.len) : NULL;

	return found != NULL ? (size_t) (found - text.bytes) : text.len;
}

static size_t
text_find_last(JsonText text, char byte)
{
	size_t		at = text.len;

	while (at > 0)
	{
		if (text.bytes[--at] == byte)
			return at;
	}
	return text.len;
}

static bool
is_alphanumeric(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Bytes that a host may contain without escaping. */
static bool
is_host_byte(char c)
{
	return is_alphanumeric(c) || (c != '\0' && strchr("-_.~!$&'()*+,;=:[]<>\"", c) != NULL);
}

typedef enum EscapeKind
{
	ESCAPES_OF_PATH,
	ESCAPES_OF_HOST,
	ESCAPES_OF_ZONE
} EscapeKind;

/* Whether every % begins a valid escape of a byte that may be escaped here, and every other byte is allowed here. */
static bool
are_escapes_valid(JsonText text, EscapeKind kind)
{
	for (size_t i = 0; i < text.len; i++)
	{
		int			high;
		int			low;
		int			byte;

		if (text.bytes[i] != '%')
		{
			if (kind != ESCAPES_OF_PATH && (unsigned char) text.bytes[i] < 0x80 && !is_host_byte(text.bytes[i]))
				return false;
			continue;
		}
		if (i + 2 >= text.len)
			return false;
		high = hex_digit(text.bytes[i + 1]);
		low = hex_digit(text.bytes[i + 2]);
		if (high < 0 || low < 0)
			return false;
		byte = high * 16 + low;
		i += 2;
		if (byte == '%')
			continue;
		if (kind == ESCAPES_OF_HOST && byte < 0x80)
			return false;
		if (kind == ESCAPES_OF_ZONE && byte != ' ' && (byte >= 0x80 || !is_host_byte((char) byte)))
			return false;
	}
	return true;
}

static bool
is_optional_port(JsonText text)
{
	if (text.len == 0)
		return true;
	if (text.bytes[0] != ':')
		return false;
	for (size_t i = 1; i < text.len; i++)
	{
		if (text.bytes[i] < '0' || text.bytes[i] > '9')
			return false;
	}
	return true;
}

static bool
is_uri_host(JsonText host, bool is_http)
{
	size_t		bracket = text_find_last(host, '[');

	if (bracket < host.len)
	{
		size_t		end = text_find_last(host, ']');
		JsonText	address;
		JsonText	port;
		size_t		zone;

		if (bracket > 0 || end == host.len)
			return false;
		port = text_from(host, end + 1);
		if (!is_optional_port(port))
			return false;
		address = text_until(text_from(host, 1), end - 1);
		for (zone = 0; zone + 2 < address.len; zone++)
		{
			if (memcmp(address.bytes + zone, "%25", 3) == 0)
				break;
		}
		if (zone + 2 < address.len)
		{
			/* A zone needs a name; are_escapes_valid() checks its characters. */
			if (zone + 3 == address.len || !are_escapes_valid(text_from(address, zone), ESCAPES_OF_ZONE))
				return false;
			address = text_until(address, zone);
		}
		return text_find(address, ':') < address.len && format_is_ip(address, false);
	}

	if (text_find(host, ':') < host.len)
	{
		/* Only http and https allow just one colon: database URIs list several hosts with their ports. */
		size_t		colon = is_http ? text_find(host, ':') : text_find_last(host, ':');

		if (!is_optional_port(text_from(host, colon)))
			return false;
	}
	return are_escapes_valid(host, ESCAPES_OF_HOST);
}

static bool
is_uri_authority(JsonText authority, bool is_http)
{
	size_t		at = text_find_last(authority, '@');
	JsonText	user;

	if (at == authority.len)
		return is_uri_host(authority, is_http);
	user = text_until(authority, at);
	for (size_t i = 0; i < user.len; i++)
	{
		char		c = user.bytes[i];

		if (!is_alphanumeric(c) && (c == '\0' || strchr("-._:~!$&'()*+,;=%@", c) == NULL))
			return false;
	}
	return are_escapes_valid(user, ESCAPES_OF_PATH) && is_uri_host(text_from(authority, at + 1), is_http);
}

/* The length of the scheme without its colon; 0 without a scheme. */
static size_t
scheme_length(JsonText text)
{
	for (size_t i = 0; i < text.len; i++)
	{
		char		c = text.bytes[i];

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
			continue;
		if (c == ':')
			return i;
		if (i == 0 || !((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'))
			return 0;
	}
	return 0;
}

bool
format_is_uri(JsonText text)
{
	size_t		scheme;
	bool		is_http;
	JsonText	rest;

	for (size_t i = 0; i < text.len; i++)
	{
		if ((unsigned char) text.bytes[i] < ' ' || text.bytes[i] == 0x7F)
			return false;
	}
	if (text.len == 0 || text.bytes[0] == ':')
		return false;
	if (json_text_is(text, "*"))
		return true;

	scheme = scheme_length(text);
	rest = scheme > 0 ? text_from(text, scheme + 1) : text;
	rest = text_until(rest, text_find(rest, '?'));
	if (rest.len == 0 || rest.bytes[0] != '/')
		return scheme > 0;
	if (scheme > 0 && rest.len >= 2 && rest.bytes[1] == '/')
	{
		JsonText	authority = text_from(rest, 2);
		size_t		end = text_find(authority, '/');

		is_http = (scheme == 4 && ascii_same(text.bytes, "http", 4)) ||
			(scheme == 5 && ascii_same(text.bytes, "https", 5));
		if (!is_uri_authority(text_until(authority, end), is_http))
			return false;
		rest = text_from(authority, end);
	}
	return are_escapes_valid(rest, ESCAPES_OF_PATH);
}

static bool
at_byte(const AddressScan *scan, char byte)
{
	return scan->at < scan->len && scan->bytes[scan->at] == byte;
}

static bool
take_byte(AddressScan *scan, char byte)
{
	if (!at_byte(scan, byte))
		return false;
	scan->at++;
	return true;
}

static void
skip_blanks(AddressScan *scan)
{
	while (at_byte(scan, ' ') || at_byte(scan, '\t'))
		scan->at++;
}

/* Skips a comment; the scan is behind the opening parenthesis. */
static bool
skip_comment(AddressScan *scan)
{
	size_t		depth = 1;

	while (scan->at < scan->len && depth > 0)
	{
		if (at_byte(scan, '\\') && scan->at + 1 < scan->len)
			scan->at++;
		else if (at_byte(scan, '('))
			depth++;
		else if (at_byte(scan, ')'))
			depth--;
		scan->at++;
	}
	return depth == 0;
}

static bool
skip_blanks_and_comments(AddressScan *scan)
{
	skip_blanks(scan);
	while (take_byte(scan, '('))
	{
		if (!skip_comment(scan))
			return false;
		skip_blanks(scan);
	}
	return true;
}

/* Visible ASCII and everything beyond ASCII. */
static bool
is_visible(char c)
{
	return (c > ' ' && c <= '~') || (unsigned char) c >= 0x80;
}

/* permissive, for the names of people, also allows leading, trailing and double dots. */
static bool
read_atom(AddressScan *scan, bool permissive)
{
	size_t		start = scan->at;

	while (scan->at < scan->len)
	{
		char		c = scan->bytes[scan->at];

		if (!is_visible(c) || strchr("()<>[]:;@\\,\"", c) != NULL)
			break;
		if (!permissive && c == '.' && (scan->at == start || scan->bytes[scan->at - 1] == '.'))
			return false;
		scan->at++;
	}
	return scan->at > start && (permissive || scan->bytes[scan->at - 1] != '.');
}

static bool
read_quoted(AddressScan *scan, bool *empty)
{
	*empty = true;
	scan->at++;
	while (scan->at < scan->len)
	{
		char		c = scan->bytes[scan->at++];

		if (c == '"')
			return true;
		if (c == '\\')
		{
			if (scan->at >= scan->len)
				return false;
			c = scan->bytes[scan->at++];
		}
		if (!is_visible(c) && c != ' ' && c != '\t')
			return false;
		*empty = false;
	}
	return false;
}

/* Reads an address in brackets: [192.0.2.1]. */
static bool
read_domain_literal(AddressScan *scan)
{
	JsonText	address = {scan->bytes + scan->at + 1, 0};

	scan->at++;
	while (scan->at < scan->len && scan->bytes[scan->at] != ']')
	{
		scan->at++;
		address.len++;
	}
	return take_byte(scan, ']') && format_is_ip(address, false);
}

/* Reads local@domain.  If the text is no such address, the position of the scan does not change. */
static bool
read_address_spec(AddressScan *scan)
{
	size_t		start = scan->at;
	bool		empty = false;

	skip_blanks(scan);
	if ((at_byte(scan, '"') ? read_quoted(scan, &empty) : read_atom(scan, false)) && !empty && take_byte(scan, '@'))
	{
		skip_blanks(scan);
		if (at_byte(scan, '[') ? read_domain_literal(scan) : read_atom(scan, false))
			return true;
	}
	scan->at = start;
	return false;
}

/* Reads the words of a name before <local@domain>, up to the first text that is no word. */
static bool
read_phrase(AddressScan *scan)
{
	bool		any = false;
	bool		empty;

	for (;;)
	{
		size_t		start;

		if (any && !skip_blanks_and_comments(scan))
			return false;
		skip_blanks(scan);
		if (scan->at >= scan->len)
			return true;
		start = scan->at;
		if (!(at_byte(scan, '"') ? read_quoted(scan, &empty) : read_atom(scan, true)))
		{
			scan->at = start;
			return any;
		}
		any = true;
	}
}

static bool
read_group(AddressScan *scan, int *addresses)
{
	skip_blanks(scan);
	if (take_byte(scan, ';'))
		return skip_blanks_and_comments(scan);
	for (;;)
	{
		skip_blanks(scan);
		if (!read_address(scan, false, addresses) || !skip_blanks_and_comments(scan))
			return false;
		if (take_byte(scan, ';'))
			return skip_blanks_and_comments(scan);
		if (!take_byte(scan, ','))
			return false;
	}
}

static bool
read_address(AddressScan *scan, bool may_be_group, int *addresses)
{
	skip_blanks(scan);
	if (scan->at >= scan->len)
		return false;
	if (read_address_spec(scan))
	{
		*addresses = 1 + (*addresses > 0);
		skip_blanks(scan);
		return !take_byte(scan, '(') || skip_comment(scan);
	}
	if (!at_byte(scan, '<') && !read_phrase(scan))
		return false;
	skip_blanks(scan);
	if (may_be_group && take_byte(scan, ':'))
		return read_group(scan, addresses);
	*addresses = 1 + (*addresses > 0);
	return take_byte(scan, '<') && read_address_spec(scan) && take_byte(scan, '>');
}

bool
format_is_email(JsonText text)
{
	AddressScan scan = {text.bytes, text.len, 0};
	int			addresses = 0;

	return read_address(&scan, true, &addresses) && skip_blanks_and_comments(&scan) && scan.at == scan.len &&
		addresses == 1;
}
