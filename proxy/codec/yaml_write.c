/*-------------------------------------------------------------------------
 *
 * yaml_write.c
 *	  Writes JSON as YAML text.
 *
 * Uses block style as Kubernetes does: a sequence is in the column of its key,
 * text of several lines is a literal block.  Other strings are plain when all
 * readers of YAML 1.1 and 1.2 take them for strings, otherwise in double
 * quotes.  Lines are not folded.  Very deep values are written as JSON, which
 * is also YAML: otherwise there would be more indentation than text.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/yaml_text.h"

#include <string.h>

#include "engine/api/status.h"
#include "engine/base/utf8.h"

#define INDENT 2
#define BLOCK_DEPTH 16			/* deeper values are written as JSON */
#define SIMPLE_KEY 512			/* longer keys begin with a question mark; readers look 1024 characters ahead */

/* --- Strings --- */

/* Whether a character must be escaped: control characters, line breaks of YAML 1.1, noncharacters. */
static bool
is_special(uint32_t rune)
{
	return rune < 0x20 || (rune >= 0x7F && rune < 0xA0) || rune == 0x2028 || rune == 0x2029 || rune == 0xFEFF ||
		rune == 0xFFFE || rune == 0xFFFF;
}

static bool
has_special(JsonText text, bool lines)
{
	for (size_t at = 0, width; at < text.len; at += width)
	{
		uint32_t	rune = (unsigned char) text.bytes[at];

		width = rune < 0x80 ? 1 : utf8_decode(text.bytes + at, text.len - at, &rune);
		if (width == 0 || (is_special(rune) && !(lines && rune == '\n')))
			return true;
	}
	return false;
}

static bool
is_plain(Arena *arena, JsonText text)
{
	static const char indicators[] = ",[]{}#&*!|>'\"%@`";
	const char *bytes = text.bytes;

	if (text.len == 0 || bytes[0] == ' ' || bytes[text.len - 1] == ' ' || bytes[text.len - 1] == ':')
		return false;
	if (strchr(indicators, bytes[0]) != NULL)
		return false;
	if (strchr("-?:", bytes[0]) != NULL && (text.len == 1 || bytes[1] == ' '))
		return false;
	if (text.len >= 3 && (memcmp(bytes, "---", 3) == 0 || memcmp(bytes, "...", 3) == 0))
		return false;
	for (size_t i = 0; i + 1 < text.len; i++)
		if ((bytes[i] == ':' && bytes[i + 1] == ' ') || (bytes[i] == ' ' && bytes[i + 1] == '#'))
			return false;
	return !has_special(text, false) && !scalar_is_ambiguous(arena, text);
}

static void
put_quoted(StrBuf *buf, JsonText text)
{
	strbuf_putc(buf, '"');
	for (size_t at = 0, width; at < text.len; at += width)
	{
		uint32_t	rune = (unsigned char) text.bytes[at];

		width = rune < 0x80 ? 1 : utf8_decode(text.bytes + at, text.len - at, &rune);
		if (width == 0)
		{
			width = 1;
			strbuf_puts(buf, "\xEF\xBF\xBD");
		}
		else if (rune == '"' || rune == '\\')
			strbuf_printf(buf, "\\%c", (char) rune);
		else if (rune == '\n')
			strbuf_puts(buf, "\\n");
		else if (rune == '\t')
			strbuf_puts(buf, "\\t");
		else if (is_special(rune))
			strbuf_printf(buf, rune < 0x100 ? "\\x%02X" : "\\u%04X", rune);
		else
			strbuf_append(buf, text.bytes + at, width);
	}
	strbuf_putc(buf, '"');
}

/* Whether a literal block represents this text of several lines exactly. */
static bool
is_literal(JsonText text)
{
	if (text.len < 2 || memchr(text.bytes, '\n', text.len - 1) == NULL || text.bytes[0] == ' ' || text.bytes[0] == '\n')
		return false;
	return text.bytes[text.len - 2] != '\n' && !has_special(text, true);
}

static void
put_spaces(StrBuf *buf, int count)
{
	strbuf_reserve(buf, (size_t) count);
	while (count-- > 0)
		strbuf_putc(buf, ' ');
}

/* Writes a literal block; its lines are indented further than their parent. */
static void
put_literal(StrBuf *buf, JsonText text, int indent)
{
	bool		ended = text.bytes[text.len - 1] == '\n';

	strbuf_puts(buf, ended ? "|" : "|-");
	if (ended)
		text.len--;
	while (text.len > 0)
	{
		const char *newline = memchr(text.bytes, '\n', text.len);
		size_t		len = newline != NULL ? (size_t) (newline - text.bytes) : text.len;

		strbuf_putc(buf, '\n');
		if (len > 0)
			put_spaces(buf, indent + INDENT);
		strbuf_append(buf, text.bytes, len);
		text.bytes += len;
		text.len -= len;
		if (newline != NULL)
		{
			text.bytes++;
			text.len--;
		}
	}
}

static void
put_string(StrBuf *buf, JsonText text, int indent)
{
	if (is_literal(text))
		put_literal(buf, text, indent);
	else if (is_plain(buf->arena, text))
		strbuf_append(buf, text.bytes, text.len);
	else
		put_quoted(buf, text);
}

/* --- Values --- */

/* Adds a point to numbers such as 1e+21: YAML 1.1 takes floats without a point for strings. */
static void
put_number(StrBuf *buf, const JsonNode *node)
{
	size_t		start = buf->len;
	size_t		len;
	char	   *exponent;

	json_write(buf, node);
	len = buf->len - start;
	exponent = memchr(buf->bytes + start, 'e', len);
	if (exponent == NULL || memchr(buf->bytes + start, '.', len) != NULL)
		return;
	len = (size_t) (exponent - buf->bytes);
	strbuf_append(buf, "  ", 2);
	memmove(buf->bytes + len + 2, buf->bytes + len, buf->len - 2 - len);
	memcpy(buf->bytes + len, ".0", 2);
}

static void
put_flow(StrBuf *buf, const JsonNode *node)
{
	switch (node->kind)
	{
		case JSON_KIND_ARRAY:
			strbuf_putc(buf, '[');
			for (size_t i = 0; i < node->u.array.count; i++)
			{
				strbuf_puts(buf, i > 0 ? ", " : "");
				put_flow(buf, node->u.array.items[i]);
			}
			strbuf_putc(buf, ']');
			break;
		case JSON_KIND_OBJECT:
			strbuf_putc(buf, '{');
			for (size_t i = 0; i < node->u.object.count; i++)
			{
				const JsonMember *member = &node->u.object.members[i];

				strbuf_puts(buf, i > 0 ? ", " : "");
				strbuf_puts(buf, member->key.len > SIMPLE_KEY ? "? " : "");
				put_quoted(buf, member->key);
				strbuf_puts(buf, ": ");
				put_flow(buf, member->value);
			}
			strbuf_putc(buf, '}');
			break;
		case JSON_KIND_STRING:
			put_quoted(buf, node->u.string);
			break;
		case JSON_KIND_NUMBER:
			put_number(buf, node);
			break;
		default:
			json_write(buf, node);
			break;
	}
}

static bool
is_block(const JsonNode *node, int depth)
{
	return depth < BLOCK_DEPTH && ((node->kind == JSON_KIND_ARRAY && node->u.array.count > 0) ||
								   (node->kind == JSON_KIND_OBJECT && node->u.object.count > 0));
}

static void put_array(StrBuf *buf, const JsonNode *node, int indent, int depth);
static void put_object(StrBuf *buf, const JsonNode *node, int indent, int depth);

/* Writes a scalar and the end of its line. */
static void
put_scalar(StrBuf *buf, const JsonNode *node, int indent)
{
	if (node->kind == JSON_KIND_STRING)
		put_string(buf, node->u.string, indent);
	else
		put_flow(buf, node);
	strbuf_putc(buf, '\n');
}

static void
put_key(StrBuf *buf, JsonText key)
{
	if (is_plain(buf->arena, key))
		strbuf_append(buf, key.bytes, key.len);
	else
		put_quoted(buf, key);
}

/* Writes a key and its value; a sequence is in the column of its key. */
static void
put_member(StrBuf *buf, JsonText key, const JsonNode *value, int indent, int depth)
{
	if (key.len > SIMPLE_KEY)
	{
		strbuf_puts(buf, "? ");
		put_quoted(buf, key);
		strbuf_putc(buf, '\n');
		put_spaces(buf, indent);
	}
	else
		put_key(buf, key);
	strbuf_putc(buf, ':');
	if (!is_block(value, depth))
	{
		strbuf_putc(buf, ' ');
		put_scalar(buf, value, indent);
		return;
	}
	strbuf_putc(buf, '\n');
	if (value->kind == JSON_KIND_ARRAY && key.len <= SIMPLE_KEY)
	{
		put_spaces(buf, indent);
		put_array(buf, value, indent, depth + 1);
		return;
	}
	put_spaces(buf, indent + INDENT);
	if (value->kind == JSON_KIND_ARRAY)
		put_array(buf, value, indent + INDENT, depth + 1);
	else
		put_object(buf, value, indent + INDENT, depth + 1);
}

/* The next functions begin to write in the present line, in column indent, and end the last line that they write. */

static void
put_item(StrBuf *buf, const JsonNode *item, int indent, int depth)
{
	arena_checkpoint();
	strbuf_puts(buf, "- ");
	if (!is_block(item, depth))
		put_scalar(buf, item, indent);
	else if (item->kind == JSON_KIND_ARRAY)
		put_array(buf, item, indent + INDENT, depth + 1);
	else
		put_object(buf, item, indent + INDENT, depth + 1);
}

static void
put_array(StrBuf *buf, const JsonNode *node, int indent, int depth)
{
	for (size_t i = 0; i < node->u.array.count; i++)
	{
		if (i > 0)
			put_spaces(buf, indent);
		put_item(buf, node->u.array.items[i], indent, depth);
	}
}

static void
put_object(StrBuf *buf, const JsonNode *node, int indent, int depth)
{
	for (size_t i = 0; i < node->u.object.count; i++)
	{
		if (i > 0)
			put_spaces(buf, indent);
		put_member(buf, node->u.object.members[i].key, node->u.object.members[i].value, indent, depth);
	}
}

void
yaml_write(StrBuf *buf, const JsonNode *node)
{
	if (!is_block(node, 0))
		put_scalar(buf, node, 0);
	else if (node->kind == JSON_KIND_ARRAY)
		put_array(buf, node, 0, 1);
	else
		put_object(buf, node, 0, 1);
}

/* --- Streams --- */

void
yaml_stream_begin(YamlStream *stream, Arena *arena)
{
	memset(stream, 0, sizeof(*stream));
	strbuf_init(&stream->pending, arena);
}

/* Returns the pending text followed by bytes; valid until more text becomes pending. */
static JsonText
take_pending(YamlStream *stream, const char *bytes, size_t len)
{
	JsonText	text = {bytes, len};

	if (stream->pending.len > 0)
	{
		strbuf_append(&stream->pending, bytes, len);
		text.bytes = stream->pending.bytes;
		text.len = stream->pending.len;
		stream->pending.len = 0;
	}
	return text;
}

/* Writes a whole member of the outermost object: "key":value */
static bool
write_member(JsonText text, StrBuf *out)
{
	JsonError	error;
	Arena		scratch;
	StrBuf		object;
	JsonNode   *node;

	arena_init(&scratch);
	strbuf_init(&object, &scratch);
	strbuf_putc(&object, '{');
	strbuf_append(&object, text.bytes, text.len);
	strbuf_putc(&object, '}');
	node = json_parse(&scratch, object.bytes, object.len, NULL, NULL, &error);
	if (node != NULL)
		put_object(out, node, 0, 1);
	arena_free(&scratch);
	return node != NULL;
}

/* Writes the "key": before an array. */
static bool
write_array_key(JsonText text, StrBuf *out)
{
	JsonError	error;
	Arena		scratch;
	JsonNode   *key;
	bool		written;

	while (text.len > 0 && text.bytes[text.len - 1] != ':')
		text.len--;
	arena_init(&scratch);
	key = text.len > 0 ? json_parse(&scratch, text.bytes, text.len - 1, NULL, NULL, &error) : NULL;
	written = key != NULL && key->kind == JSON_KIND_STRING && key->u.string.len <= SIMPLE_KEY;
	if (written)
	{
		put_key(out, key->u.string);
		strbuf_putc(out, ':');
	}
	arena_free(&scratch);
	return written;
}

static bool
is_blank(JsonText text)
{
	for (size_t i = 0; i < text.len; i++)
		if (strchr(" \t\r\n", text.bytes[i]) == NULL)
			return false;
	return true;
}

/* Writes an element, or the empty text between the brackets of an empty array. */
static bool
write_element(YamlStream *stream, JsonText text, StrBuf *out)
{
	JsonError	error;
	Arena		scratch;
	JsonNode   *node;

	if (is_blank(text))
		return stream->empty;
	arena_init(&scratch);
	node = json_parse(&scratch, text.bytes, text.len, NULL, NULL, &error);
	if (node != NULL)
	{
		if (stream->empty)
			strbuf_putc(out, '\n');
		stream->empty = false;
		put_item(out, node, 0, 1);
	}
	arena_free(&scratch);
	return node != NULL;
}

static bool
write_pending(YamlStream *stream, JsonText text, StrBuf *out)
{
	if (stream->in_array)
		return write_element(stream, text, out);
	return is_blank(text) || write_member(text, out);
}

bool
yaml_stream_next(YamlStream *stream, const char *bytes, size_t len, StrBuf *out)
{
	size_t		start = 0;		/* offset of the first byte that was not processed yet */

	for (size_t i = 0; i < len; i++)
	{
		char		c = bytes[i];
		int			inner = stream->in_array ? 2 : 1;

		if (stream->in_string)
		{
			if (stream->escaped)
				stream->escaped = false;
			else if (c == '\\')
				stream->escaped = true;
			else if (c == '"')
				stream->in_string = false;
			continue;
		}
		switch (c)
		{
			case '"':
				stream->in_string = true;
				break;
			case '{':
			case '[':
				stream->depth++;
				if (stream->depth == 1 && c == '{')
					start = i + 1;
				else if (stream->depth == 2 && c == '[' && !stream->in_array)
				{
					if (!write_array_key(take_pending(stream, bytes + start, i - start), out))
						return false;
					stream->in_array = stream->empty = true;
					start = i + 1;
				}
				break;
			case '}':
			case ']':
				stream->depth--;
				if (stream->depth == 1 && stream->in_array)
				{
					if (!write_element(stream, take_pending(stream, bytes + start, i - start), out))
						return false;
					if (stream->empty)
						strbuf_puts(out, " []\n");
					stream->in_array = false;
					start = i + 1;
				}
				else if (stream->depth == 0)
				{
					JsonText	text = take_pending(stream, bytes + start, i - start);

					if (!is_blank(text) && !write_member(text, out))
						return false;
					start = i + 1;
				}
				break;
			case ',':
				if (stream->depth == inner)
				{
					if (!write_pending(stream, take_pending(stream, bytes + start, i - start), out))
						return false;
					start = i + 1;
				}
				break;
			default:
				break;
		}
	}
	if (stream->depth > 0 && start < len)
		strbuf_append(&stream->pending, bytes + start, len - start);
	return stream->depth >= 0;
}
