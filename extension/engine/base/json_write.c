/*-------------------------------------------------------------------------
 *
 * json_write.c
 *	  Document trees to JSON text.
 *
 * Equal trees give equal bytes: spaces, escapes and digits are fixed.
 * Numbers look as Go's encoding/json prints them.  Strings escape what JSON
 * requires and, as Go does, U+2028 and U+2029: line readers (Node.js, Java)
 * may end a line at these characters, in the middle of a watch event.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/json.h"

#include <math.h>
#include <string.h>

#include "engine/base/ascii.h"
#include "engine/base/go_float.h"
#include "engine/base/json_scan.h"
#include "engine/base/utf8.h"

/* The digits and the sign of an int64. */
#define INTEGER_BYTES 20

/* Deeper levels get no more indentation; otherwise a short text of many levels would become a long text. */
#define INDENTED_LEVELS 32

/* Makes room for more bytes and a NUL; returns the end of the text, where they belong. */
static inline char *
room(StrBuf *buf, size_t more)
{
	if (more >= buf->capacity - buf->len)
		strbuf_reserve(buf, more);
	return buf->bytes + buf->len;
}

static inline void
put_char(StrBuf *buf, char c)
{
	*room(buf, 1) = c;
	buf->len++;
}

static inline void
put_bytes(StrBuf *buf, const char *bytes, size_t len)
{
	memcpy(room(buf, len), bytes, len);
	buf->len += len;
}

/*
 * Prints the character at p, which is not plain; returns the place behind it.
 */
static const char *
put_special(StrBuf *buf, const char *p, const char *end)
{
	static const char hex[] = "0123456789abcdef";
	unsigned char c = (unsigned char) *p;
	char	   *to = room(buf, 6);
	size_t		sequence;

	if (c >= 0x80)
	{
		sequence = utf8_sequence(p, end);
		if (sequence == 3 && is_line_separator(p))
		{
			memcpy(to, "\\u2028", 6);
			to[5] = p[2] == '\xa8' ? '8' : '9';
			buf->len += 6;
			return p + 3;
		}
		if (sequence > 0)
		{
			memcpy(to, p, sequence);
			buf->len += sequence;
			return p + sequence;
		}
		memcpy(to, REPLACEMENT_CHARACTER, 3);
		buf->len += 3;
		return p + 1;
	}

	to[0] = '\\';
	buf->len += 2;
	switch (c)
	{
		case '"':
		case '\\':
			to[1] = (char) c;
			break;
		case '\b':
			to[1] = 'b';
			break;
		case '\f':
			to[1] = 'f';
			break;
		case '\n':
			to[1] = 'n';
			break;
		case '\r':
			to[1] = 'r';
			break;
		case '\t':
			to[1] = 't';
			break;
		default:
			memcpy(to + 1, "u00", 3);
			to[4] = hex[c >> 4];
			to[5] = hex[c & 0xf];
			buf->len += 4;
			break;
	}
	return p + 1;
}

static void
put_string(StrBuf *buf, const char *bytes, size_t len)
{
	const char *p = bytes;
	const char *end = bytes + len;

	put_char(buf, '"');
	while (p < end)
	{
		const char *special = skip_plain(p, end);

		put_bytes(buf, p, (size_t) (special - p));
		p = special;
		if (p < end)
			p = put_special(buf, p, end);
	}
	put_char(buf, '"');
}

static inline void
put_plain_string(StrBuf *buf, JsonText string)
{
	char	   *to = room(buf, string.len + 2);

	to[0] = '"';
	memcpy(to + 1, string.bytes, string.len);
	to[string.len + 1] = '"';
	buf->len += string.len + 2;
}

static void
put_integer(StrBuf *buf, int64_t value)
{
	char		digits[INTEGER_BYTES];
	char	   *p = digits + sizeof(digits);
	uint64_t	left = value < 0 ? 0 - (uint64_t) value : (uint64_t) value;

	do
	{
		*--p = (char) ('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (value < 0)
		*--p = '-';
	put_bytes(buf, p, (size_t) (digits + sizeof(digits) - p));
}

static void
put_scalar(StrBuf *buf, const JsonNode *node)
{
	switch (node->kind)
	{
		case JSON_KIND_BOOL:
			if (node->u.boolean)
				put_bytes(buf, "true", 4);
			else
				put_bytes(buf, "false", 5);
			break;
		case JSON_KIND_INTEGER:
			put_integer(buf, node->u.integer);
			break;
		case JSON_KIND_NUMBER:
			/* No JSON text contains such a number, but arithmetic on a tree might produce it. */
			if (isfinite(node->u.number))
				go_float_json(buf, node->u.number);
			else
				put_bytes(buf, "null", 4);
			break;
		case JSON_KIND_STRING:
			if (node->plain)
				put_plain_string(buf, node->u.string);
			else
				put_string(buf, node->u.string.bytes, node->u.string.len);
			break;
		default:
			put_bytes(buf, "null", 4);
			break;
	}
}

static void
put_node(StrBuf *buf, const JsonNode *node)
{
	size_t		count;

	if (node->kind == JSON_KIND_OBJECT)
	{
		const JsonMember *members = node->u.object.members;

		arena_checkpoint();
		count = node->u.object.count;
		put_char(buf, '{');
		for (size_t i = 0; i < count; i++)
		{
			arena_checkpoint_at(i);
			if (i > 0)
				put_char(buf, ',');
			put_string(buf, members[i].key.bytes, members[i].key.len);
			put_char(buf, ':');
			put_node(buf, members[i].value);
		}
		put_char(buf, '}');
	}
	else if (node->kind == JSON_KIND_ARRAY)
	{
		arena_checkpoint();
		count = node->u.array.count;
		put_char(buf, '[');
		for (size_t i = 0; i < count; i++)
		{
			arena_checkpoint_at(i);
			if (i > 0)
				put_char(buf, ',');
			put_node(buf, node->u.array.items[i]);
		}
		put_char(buf, ']');
	}
	else
	{
		put_scalar(buf, node);
	}
}

static void
put_line(StrBuf *buf, int depth)
{
	size_t		spaces = (size_t) (depth < INDENTED_LEVELS ? depth : INDENTED_LEVELS) * 2;
	char	   *to = room(buf, spaces + 1);

	to[0] = '\n';
	memset(to + 1, ' ', spaces);
	buf->len += spaces + 1;
}

static void
put_pretty(StrBuf *buf, const JsonNode *node, int depth)
{
	size_t		count;

	if (node->kind == JSON_KIND_OBJECT && node->u.object.count > 0)
	{
		const JsonMember *members = node->u.object.members;

		count = node->u.object.count;
		put_char(buf, '{');
		for (size_t i = 0; i < count; i++)
		{
			arena_checkpoint();
			if (i > 0)
				put_char(buf, ',');
			put_line(buf, depth + 1);
			put_string(buf, members[i].key.bytes, members[i].key.len);
			put_bytes(buf, ": ", 2);
			put_pretty(buf, members[i].value, depth + 1);
		}
		put_line(buf, depth);
		put_char(buf, '}');
	}
	else if (node->kind == JSON_KIND_ARRAY && node->u.array.count > 0)
	{
		count = node->u.array.count;
		put_char(buf, '[');
		for (size_t i = 0; i < count; i++)
		{
			arena_checkpoint();
			if (i > 0)
				put_char(buf, ',');
			put_line(buf, depth + 1);
			put_pretty(buf, node->u.array.items[i], depth + 1);
		}
		put_line(buf, depth);
		put_char(buf, ']');
	}
	else
	{
		put_node(buf, node);
	}
}

void
json_write(StrBuf *buf, const JsonNode *node)
{
	put_node(buf, node);
	*room(buf, 0) = '\0';
}

JsonText
json_text_of(Arena *arena, const JsonNode *node)
{
	StrBuf		buf;

	if (node == NULL)
		return (JsonText) {NULL, 0};
	strbuf_init(&buf, arena);
	json_write(&buf, node);
	return (JsonText) {buf.bytes, buf.len};
}

void
json_write_html(StrBuf *buf, const JsonNode *node)
{
	StrBuf		text;

	strbuf_init(&text, buf->arena);
	json_write(&text, node);
	for (size_t i = 0; i < text.len; i++)
	{
		const char *p = text.bytes + i;

		if (*p == '<' || *p == '>' || *p == '&')
			strbuf_printf(buf, "\\u%04x", *p);
		else if (strncmp(p, "\xe2\x80\xa8", 3) == 0 || strncmp(p, "\xe2\x80\xa9", 3) == 0)
		{
			strbuf_printf(buf, "\\u202%x", p[2] & 0xf);
			i += 2;
		}
		else
			put_char(buf, *p);
	}
	*room(buf, 0) = '\0';
}

void
json_write_pretty(StrBuf *buf, const JsonNode *node, int depth)
{
	put_pretty(buf, node, depth);
	*room(buf, 0) = '\0';
}

/* The end of the string literal at p. */
static const char *
skip_literal(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p < end ? p + 1 : end;
}

void
json_indent(StrBuf *buf, JsonText text, int depth)
{
	const char *end = text.bytes + text.len;
	bool		opened = false; /* behind the start of an object or array */

	for (const char *p = text.bytes; p < end; p++)
	{
		const char *start = p;

		if (ascii_is_space(*p))
			continue;
		arena_checkpoint_at((size_t) (p - text.bytes));
		if (*p == '}' || *p == ']')
		{
			depth--;
			if (!opened)
				put_line(buf, depth);
			opened = false;
			put_char(buf, *p);
			continue;
		}
		if (opened)
			put_line(buf, depth);
		opened = *p == '{' || *p == '[';
		if (opened)
			depth++;
		if (*p == '"')
		{
			p = skip_literal(p, end);
			put_bytes(buf, start, (size_t) (p - start));
			p--;
			continue;
		}
		put_char(buf, *p);
		if (*p == ',')
			put_line(buf, depth);
		else if (*p == ':')
			put_char(buf, ' ');
	}
	*room(buf, 0) = '\0';
}

void
json_write_string(StrBuf *buf, const char *bytes, size_t len)
{
	put_string(buf, bytes, len);
	*room(buf, 0) = '\0';
}
