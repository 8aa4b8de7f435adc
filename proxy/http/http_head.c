/*-------------------------------------------------------------------------
 *
 * http_head.c
 *	  The head of an HTTP/1 request: request line and header lines.
 *
 * Heads that two parsers might understand differently are refused (RFC 9112):
 * control characters, a CR without LF, folded lines, blanks before a colon,
 * lengths that differ, a length together with a transfer coding.  Lines may
 * end in LF alone, and one empty line may come first, as in libh2o and Go's
 * server.
 *
 *-------------------------------------------------------------------------
 */
#include "http/http_head.h"

#include <string.h>
#include <strings.h>

/* Largest number of digits of a length; no real body needs more. */
#define MAX_LENGTH_DIGITS 18

static bool
is_blank(char byte)
{
	return byte == ' ' || byte == '\t';
}

static bool
is_control(char byte)
{
	return ((unsigned char) byte < 0x20 && byte != '\t') || byte == 0x7f;
}

/* Whether a byte may be in a token: a method or the name of a header. */
static bool
is_token_byte(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
		(byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool
is_token(HttpText text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_token_byte(text.bytes[i]))
			return false;
	return text.len > 0;
}

/* Whether a line, without its end, has a control character. */
static bool
has_control(HttpText text)
{
	for (size_t i = 0; i < text.len; i++)
		if (is_control(text.bytes[i]))
			return true;
	return false;
}

/* Removes the first line from the rest; *line is without its end.  False when no line is complete. */
static bool
cut_line(HttpText *rest, HttpText *line)
{
	const char *end = rest->len > 0 ? memchr(rest->bytes, '\n', rest->len) : NULL;

	if (end == NULL)
		return false;
	line->bytes = rest->bytes;
	line->len = (size_t) (end - rest->bytes);
	rest->bytes = end + 1;
	rest->len -= line->len + 1;
	if (line->len > 0 && line->bytes[line->len - 1] == '\r')
		line->len--;
	return true;
}

/* Returns the size of the head; 0 when its end is missing.  seen: number of bytes that an earlier call has searched. */
static size_t
find_end(const char *bytes, size_t len, size_t seen)
{
	size_t		at = seen > 3 ? seen - 3 : 0;

	while (at < len)
	{
		const char *end = memchr(bytes + at, '\n', len - at);

		if (end == NULL)
			return 0;
		at = (size_t) (end - bytes) + 1;
		if (at < len && bytes[at] == '\n')
			return at + 1;
		if (at + 1 < len && bytes[at] == '\r' && bytes[at + 1] == '\n')
			return at + 2;
	}
	return 0;
}

/* --- The request line --- */

static bool
take_word(HttpText *line, HttpText *word)
{
	const char *space = line->len > 0 ? memchr(line->bytes, ' ', line->len) : NULL;

	if (space == NULL || space == line->bytes)
		return false;
	word->bytes = line->bytes;
	word->len = (size_t) (space - line->bytes);
	line->bytes += word->len + 1;
	line->len -= word->len + 1;
	return true;
}

static bool
read_request_line(HttpText line, HttpHead *head)
{
	static const char version[] = "HTTP/1.";
	HttpText	method;
	HttpText	target;

	char		minor;

	if (!take_word(&line, &method) || !take_word(&line, &target) || line.len != sizeof(version) ||
		memcmp(line.bytes, version, sizeof(version) - 1) != 0)
		return false;
	minor = line.bytes[line.len - 1];
	if (minor < '0' || minor > '9' || !is_token(method) || has_control(target) ||
		memchr(target.bytes, '\t', target.len) != NULL)
		return false;
	head->method = method;
	head->target = target;
	head->minor_version = minor - '0';
	return true;
}

/* Reads the request line if it is complete and ends after "from"; false when it is wrong. */
static bool
read_beginning(HttpText *rest, const char *from, HttpHead *head)
{
	HttpText	line;

	if (!cut_line(rest, &line))
		return true;
	if (line.len == 0 && !cut_line(rest, &line))
		return true;
	return rest->bytes <= from || read_request_line(line, head);
}

/* --- Header lines --- */

static bool
read_field(HttpText line, HttpField *field)
{
	const char *colon = memchr(line.bytes, ':', line.len);

	if (colon == NULL)
		return false;
	field->name.bytes = line.bytes;
	field->name.len = (size_t) (colon - line.bytes);
	field->value.bytes = colon + 1;
	field->value.len = line.len - field->name.len - 1;
	while (field->value.len > 0 && is_blank(field->value.bytes[0]))
	{
		field->value.bytes++;
		field->value.len--;
	}
	while (field->value.len > 0 && is_blank(field->value.bytes[field->value.len - 1]))
		field->value.len--;
	return true;
}

static bool
is_named(HttpText name, const char *lower_case)
{
	return name.len == strlen(lower_case) && strncasecmp(name.bytes, lower_case, name.len) == 0;
}

static bool
read_length(HttpText digits, uint64_t *length)
{
	*length = 0;
	if (digits.len == 0 || digits.len > MAX_LENGTH_DIGITS)
		return false;
	for (size_t i = 0; i < digits.len; i++)
	{
		if (digits.bytes[i] < '0' || digits.bytes[i] > '9')
			return false;
		*length = *length * 10 + (uint64_t) (digits.bytes[i] - '0');
	}
	return true;
}

/* Stores a header that controls the rest of the request; false when two headers contradict each other. */
static bool
note_field(HttpHead *head, const HttpField *field)
{
	uint64_t	length;

	if (is_named(field->name, "content-length"))
	{
		bool		again = head->content_length.name.bytes != NULL;

		if (!read_length(field->value, &length) || (again && length != head->body_len))
			return false;
		head->content_length = *field;
		head->body_len = length;
	}
	else if (is_named(field->name, "transfer-encoding"))
	{
		if (head->transfer_encoding.name.bytes != NULL)
			return false;
		head->transfer_encoding = *field;
	}
	else if (is_named(field->name, "host"))
		head->host = *field;
	else if (is_named(field->name, "connection"))
		head->connection = *field;
	else if (is_named(field->name, "expect"))
		head->expect = *field;
	else if (is_named(field->name, "upgrade"))
		head->upgrade = *field;
	return true;
}

/* Reads all header lines of a complete head. */
static HttpHeadOutcome
read_lines(HttpText rest, HttpHead *head)
{
	HttpText	line = {rest.bytes, 0};

	head->lines.bytes = rest.bytes;
	while (cut_line(&rest, &line) && line.len > 0)
	{
		HttpField	field;

		if (++head->line_count > HTTP_HEAD_LINES)
			return HTTP_HEAD_LARGE;
		/* A line that begins with a blank would continue the previous line; its name is not a token. */
		if (has_control(line) || !read_field(line, &field) || !is_token(field.name) || !note_field(head, &field))
			return HTTP_HEAD_BAD;
	}
	head->lines.len = (size_t) (line.bytes - head->lines.bytes);
	if (head->transfer_encoding.name.bytes != NULL &&
		(head->content_length.name.bytes != NULL || head->minor_version == 0))
		return HTTP_HEAD_BAD;
	return HTTP_HEAD_WHOLE;
}

bool
http_head_next(HttpText *lines, HttpField *field)
{
	HttpText	line;

	return cut_line(lines, &line) && read_field(line, field);
}

/* --- The whole --- */

/* Whether the bytes since the last call contain a byte that no head may have. */
static bool
has_bad_bytes(const char *bytes, size_t len, size_t seen)
{
	for (size_t i = seen > 0 ? seen - 1 : 0; i < len; i++)
	{
		if (bytes[i] == '\r' ? i + 1 < len && bytes[i + 1] != '\n' : bytes[i] != '\n' && is_control(bytes[i]))
			return true;
	}
	return false;
}

HttpHeadOutcome
http_head_read(const char *bytes, size_t len, size_t seen, HttpHead *head)
{
	size_t		looked_at = len < HTTP_HEAD_BYTES ? len : HTTP_HEAD_BYTES;
	size_t		size = find_end(bytes, looked_at, seen);
	HttpText	rest = {bytes, size > 0 ? size : looked_at};
	bool		partial = size == 0 && looked_at < HTTP_HEAD_BYTES;

	memset(head, 0, sizeof(*head));
	/* Check no bytes after the head, and no byte of a partial head twice. */
	if (has_bad_bytes(bytes, rest.len, seen) || !read_beginning(&rest, partial ? bytes + seen : bytes, head))
		return HTTP_HEAD_BAD;
	if (partial)
		return HTTP_HEAD_PARTIAL;
	if (size == 0)
		return HTTP_HEAD_LARGE;
	head->size = size;
	if (head->method.bytes == NULL)
		return HTTP_HEAD_BAD;
	return read_lines(rest, head);
}
