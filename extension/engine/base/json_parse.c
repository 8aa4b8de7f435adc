/*-------------------------------------------------------------------------
 *
 * json_parse.c
 *	  JSON text to document trees.
 *
 * Accepts exactly what Go's encoding/json accepts and reports errors in its
 * words, because clients see both.  The tree comes out in the canonical form
 * that json.h describes.  A string without escapes points into the text.
 *
 * One stack holds the entries of all objects that are still open, another
 * stack the items of all open arrays.  When an object or array ends, its part
 * of the stack is moved to an array of the final size.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/json.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/ascii.h"
#include "engine/base/json_duplicate.h"
#include "engine/base/json_scan.h"
#include "engine/base/utf8.h"

#define FIRST_ENTRIES 8

/* Fewer members than this are sorted by insertion. */
#define SMALL_OBJECT 12

/* A member: key, value and the place of the key in the text. */
typedef struct KeyEntry
{
	JsonText	key;
	JsonNode   *value;
	size_t		offset;
} KeyEntry;

typedef struct Parser
{
	Arena	   *arena;
	const char *text;
	const char *end;
	int			depth;

	KeyEntry   *entries;
	size_t		entry_count;
	size_t		entry_capacity;
	JsonNode  **items;
	size_t		item_count;
	size_t		item_capacity;

	bool		notes_duplicates;
	DuplicateNotes duplicates;

	const char *message;		/* of the error that ended parsing */
	size_t		offset;
	const char *range_message;	/* of the first number out of range; a syntax error has priority */
	size_t		range_offset;
} Parser;

static const char *parse_value(Parser *parser, const char *p, const JsonPlace *parent, JsonNode *node);

static inline void *
take(Arena *arena, size_t size)
{
	char	   *piece = arena->next;

	if (size > (size_t) (arena->end - piece))
		return arena_alloc(arena, size);
	arena->next = piece + size;
	return piece;
}

static inline const char *
skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	return p;
}

/* A byte in single quotes, as Go quotes the character whose code point is the byte. */
static const char *
quote_byte(Arena *arena, unsigned char c)
{
	static const char control[] = "abtnvfr";	/* 7 to 13 */

	if (c == '\'')
		return "'\\''";
	if (c == '"')
		return "'\"'";
	if (c == '\\')
		return "'\\\\'";
	if (c >= 7 && c <= 13)
		return arena_printf(arena, "'\\%c'", control[c - 7]);
	if (c < 0x20 || c == 0x7f)
		return arena_printf(arena, "'\\x%02x'", c);
	if (c < 0x7f)
		return arena_printf(arena, "'%c'", c);

	/* U+00A0 and U+00AD count as unprintable. */
	if (c <= 0xa0 || c == 0xad)
		return arena_printf(arena, "'\\u%04x'", c);
	return arena_printf(arena, "'%c%c'", 0xc0 | (c >> 6), 0x80 | (c & 0x3f));
}

/*
 * Ends parsing: the byte at p is not allowed there.  At the end of the text, Go's scanner reads an extra space to find
 * out whether the text is complete.  Inside a literal, where a space is not allowed, the message names this space.
 */
static const char *
unexpected_inside(Parser *parser, const char *p, const char *where)
{
	unsigned char c = p < parser->end ? (unsigned char) *p : ' ';

	parser->offset = (size_t) (p - parser->text);
	parser->message = arena_printf(parser->arena, "invalid character %s %s", quote_byte(parser->arena, c), where);
	return NULL;
}

/* The same for a place where a space is allowed.  At the end of the text, the message names the end. */
static const char *
unexpected(Parser *parser, const char *p, const char *where)
{
	if (p < parser->end)
		return unexpected_inside(parser, p, where);
	parser->offset = (size_t) (p - parser->text);
	parser->message = "unexpected end of JSON input";
	return NULL;
}

/*
 * Reads the valid escape \uXXXX at p, and the second half of a surrogate pair.  A lone half becomes U+FFFD.
 */
static const char *
read_unicode_escape(const char *p, const char *end, unsigned int *character)
{
	unsigned int first = hex_number(p + 2);

	p += 6;
	*character = first;
	if (first < 0xd800 || first > 0xdfff)
		return p;

	*character = 0xfffd;
	if (first <= 0xdbff && end - p >= 6 && p[0] == '\\' && p[1] == 'u')
	{
		unsigned int second = hex_number(p + 2);

		if (second >= 0xdc00 && second <= 0xdfff)
		{
			*character = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
			p += 6;
		}
	}
	return p;
}

/*
 * Decodes the content of a well-formed string literal into the arena.
 */
static void
decode_string(Parser *parser, const char *p, const char *end, size_t bad_bytes, JsonText *string, bool *plain)
{
	/* No escape becomes longer; a bad byte becomes three bytes. */
	char	   *bytes = arena_alloc(parser->arena, (size_t) (end - p) + 2 * bad_bytes);
	char	   *to = bytes;

	*plain = true;
	while (p < end)
	{
		const char *special = skip_plain(p, end);
		size_t		sequence;
		unsigned int character;

		memcpy(to, p, (size_t) (special - p));
		to += special - p;
		p = special;
		if (p == end)
			break;

		if (*p != '\\')
		{
			sequence = utf8_sequence(p, end);
			if (sequence == 3 && is_line_separator(p))
				*plain = false;
			if (sequence > 0)
			{
				memcpy(to, p, sequence);
				to += sequence;
				p += sequence;
			}
			else
			{
				memcpy(to, REPLACEMENT_CHARACTER, 3);
				to += 3;
				p++;
			}
			continue;
		}

		if (p[1] == 'u')
		{
			p = read_unicode_escape(p, end, &character);
		}
		else
		{
			switch (p[1])
			{
				case 'b':
					character = '\b';
					break;
				case 'f':
					character = '\f';
					break;
				case 'n':
					character = '\n';
					break;
				case 'r':
					character = '\r';
					break;
				case 't':
					character = '\t';
					break;
				default:		/* quote, backslash, slash */
					character = (unsigned char) p[1];
					break;
			}
			p += 2;
		}
		if (character < 0x20 || character == '"' || character == '\\' || character == 0x2028 || character == 0x2029)
			*plain = false;
		to = utf8_put(to, character);
	}
	string->bytes = bytes;
	string->len = (size_t) (to - bytes);
}

/*
 * Checks the escape at p and skips it.
 */
static const char *
skip_escape(Parser *parser, const char *p)
{
	p++;
	switch (p < parser->end ? *p : ' ')
	{
		case 'b':
		case 'f':
		case 'n':
		case 'r':
		case 't':
		case '\\':
		case '/':
		case '"':
			return p + 1;
		case 'u':
			p++;
			for (int i = 0; i < 4; i++, p++)
			{
				if (p >= parser->end || hex_digit(*p) < 0)
					return unexpected_inside(parser, p, "in \\u hexadecimal character escape");
			}
			return p;
		default:
			return unexpected_inside(parser, p, "in string escape code");
	}
}

/*
 * Reads a string; p is behind the opening quote.
 */
static inline const char *
parse_string(Parser *parser, const char *p, JsonText *string, bool *plain)
{
	const char *end = parser->end;
	const char *start = p;
	bool		escapes = false;
	bool		separators = false;
	size_t		bad_bytes = 0;

	for (;;)
	{
		p = skip_plain(p, end);
		if (p >= end)
			return unexpected(parser, p, "");
		if (*p == '"')
			break;
		if (*p == '\\')
		{
			escapes = true;
			p = skip_escape(parser, p);
			if (p == NULL)
				return NULL;
		}
		else if ((unsigned char) *p < 0x20)
		{
			return unexpected(parser, p, "in string literal");
		}
		else
		{
			size_t		sequence = utf8_sequence(p, end);

			if (sequence == 0)
			{
				bad_bytes++;
				sequence = 1;
			}
			else if (sequence == 3 && is_line_separator(p))
				separators = true;
			p += sequence;
		}
	}

	if (escapes || bad_bytes > 0)
	{
		decode_string(parser, start, p, bad_bytes, string, plain);
	}
	else
	{
		string->bytes = start;
		string->len = (size_t) (p - start);
		*plain = !separators;
	}
	return p + 1;
}

/*
 * The double nearest to a number literal, or infinity.
 *
 * When the digits and the power of ten are exact as doubles, one operation rounds correctly (Clinger).  strtod()
 * converts all other literals: both the backend and the proxy keep LC_NUMERIC at C.
 */
static double
literal_to_double(Arena *arena, const char *literal, size_t len, uint64_t digits, size_t digit_count, int exponent)
{
	char		copy[64];
	const char *terminated = copy;

#if FLT_EVAL_METHOD == 0
	static const double powers[] = {
		1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
		1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
	};

	if (digit_count <= 15 && exponent >= -22 && exponent <= 22)
	{
		double		value = (double) digits;

		value = exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
		return literal[0] == '-' ? -value : value;
	}
#endif

	if (len < sizeof(copy))
	{
		memcpy(copy, literal, len);
		copy[len] = '\0';
	}
	else
	{
		terminated = arena_strndup(arena, literal, len);
	}
	return strtod(terminated, NULL);
}

/* An infinite number becomes 0; the parser keeps a message about the first infinite number. */
static void
set_double(Parser *parser, JsonNode *node, double number)
{
	JsonText	literal = node->u.literal;

	if (isinf(number) && parser->range_message == NULL)
	{
		parser->range_message =
			arena_printf(parser->arena, "json: cannot unmarshal number %s into Go value of type float64",
						 arena_strndup(parser->arena, literal.bytes, literal.len));
		parser->range_offset = (size_t) (literal.bytes - parser->text);
	}
	/* Zero has no sign, so that equal documents print equal bytes. */
	node->u.number = isinf(number) || number == 0 ? 0 : number;
}

static const char *
parse_number(Parser *parser, const char *p, JsonNode *node)
{
	const char *end = parser->end;
	const char *literal = p;
	bool		negative = *p == '-';
	bool		integer = true;
	uint64_t	digits = 0;
	size_t		digit_count = 0;
	int			exponent = 0;
	size_t		len;

	if (negative)
		p++;
	if (p >= end || !ascii_is_digit(*p))
		return unexpected_inside(parser, p, "in numeric literal");
	if (*p == '0')
	{
		p++;
	}
	else
	{
		for (; p < end && ascii_is_digit(*p); p++, digit_count++)
			digits = digits * 10 + (uint64_t) (*p - '0');
	}

	if (p < end && *p == '.')
	{
		const char *fraction = ++p;

		integer = false;
		if (p >= end || !ascii_is_digit(*p))
			return unexpected_inside(parser, p, "after decimal point in numeric literal");
		for (; p < end && ascii_is_digit(*p); p++, digit_count++)
			digits = digits * 10 + (uint64_t) (*p - '0');
		/* The exponent is used only when there are few digits. */
		exponent = p - fraction > 100 ? -100 : -(int) (p - fraction);
	}
	if (p < end && (*p == 'e' || *p == 'E'))
	{
		bool		minus = false;
		int			power = 0;

		integer = false;
		p++;
		if (p < end && (*p == '+' || *p == '-'))
		{
			minus = *p == '-';
			p++;
		}
		if (p >= end || !ascii_is_digit(*p))
			return unexpected_inside(parser, p, "in exponent of numeric literal");
		for (; p < end && ascii_is_digit(*p); p++)
		{
			if (power < 1000)
				power = power * 10 + (*p - '0');
		}
		exponent += minus ? -power : power;
	}
	len = (size_t) (p - literal);

	/* Nineteen digits fit into digits.  Beyond 2^63 - 1, or -2^63, the number is a double. */
	if (integer && digit_count <= 19 && digits <= (uint64_t) INT64_MAX + (negative ? 1 : 0))
	{
		node->kind = JSON_KIND_INTEGER;
		node->u.integer = negative ? (int64_t) (0 - digits) : (int64_t) digits;
		return p;
	}

	node->kind = JSON_KIND_NUMBER;
	node->u.literal = (JsonText) {literal, len};
	set_double(parser, node, literal_to_double(parser->arena, literal, len, digits, digit_count, exponent));
	return p;
}

static const char *
parse_word(Parser *parser, const char *p, const char *word)
{
	for (size_t i = 0; word[i] != '\0'; i++, p++)
	{
		if (p >= parser->end || *p != word[i])
			return unexpected_inside(parser, p,
									 arena_printf(parser->arena, "in literal %s (expecting '%c')", word, word[i]));
	}
	return p;
}

static void
reserve_entries(Parser *parser, size_t more)
{
	size_t		wanted = parser->entry_count + more;
	size_t		capacity = parser->entry_capacity;
	KeyEntry   *larger;

	if (wanted <= capacity)
		return;
	if (capacity < FIRST_ENTRIES)
		capacity = FIRST_ENTRIES;
	while (capacity < wanted)
		capacity *= 2;
	larger = arena_alloc(parser->arena, capacity * sizeof(KeyEntry));
	if (parser->entry_count > 0)
		memcpy(larger, parser->entries, parser->entry_count * sizeof(KeyEntry));
	if (parser->entries != NULL)
		arena_discard(parser->arena, parser->entries, parser->entry_capacity * sizeof(KeyEntry));
	parser->entries = larger;
	parser->entry_capacity = capacity;
}

static inline KeyEntry *
push_entry(Parser *parser)
{
	if (parser->entry_count == parser->entry_capacity)
		reserve_entries(parser, 1);
	return &parser->entries[parser->entry_count++];
}

static inline void
push_item(Parser *parser, JsonNode *item)
{
	if (parser->item_count == parser->item_capacity)
	{
		size_t		capacity = parser->item_capacity > 0 ? parser->item_capacity * 2 : FIRST_ENTRIES;
		JsonNode  **larger = arena_alloc(parser->arena, capacity * sizeof(JsonNode *));

		if (parser->item_count > 0)
		{
			memcpy(larger, parser->items, parser->item_count * sizeof(JsonNode *));
			arena_discard(parser->arena, parser->items, parser->item_capacity * sizeof(JsonNode *));
		}
		parser->items = larger;
		parser->item_capacity = capacity;
	}
	parser->items[parser->item_count++] = item;
}

static inline int
compare_keys(JsonText a, JsonText b)
{
	if (a.len > 0 && b.len > 0 && a.bytes[0] != b.bytes[0])
		return (unsigned char) a.bytes[0] < (unsigned char) b.bytes[0] ? -1 : 1;
	return json_text_compare(a, b);
}

static void
sort_by_insertion(KeyEntry *entries, size_t count)
{
	for (size_t i = 1; i < count; i++)
	{
		KeyEntry	entry = entries[i];
		size_t		place = i;

		while (place > 0 && compare_keys(entries[place - 1].key, entry.key) > 0)
		{
			entries[place] = entries[place - 1];
			place--;
		}
		entries[place] = entry;
	}
}

/* Sorts by key and keeps members of the same key in document order.  room is work space for count entries. */
static void
sort_entries(KeyEntry *entries, KeyEntry *room, size_t count)
{
	size_t		half = count / 2;
	size_t		left = 0;
	size_t		right = half;

	if (count <= SMALL_OBJECT)
	{
		sort_by_insertion(entries, count);
		return;
	}

	arena_checkpoint();
	sort_entries(entries, room, half);
	sort_entries(entries + half, room, count - half);
	if (compare_keys(entries[half - 1].key, entries[half].key) <= 0)
		return;

	for (size_t i = 0; i < count; i++)
	{
		if (left < half && (right == count || compare_keys(entries[left].key, entries[right].key) <= 0))
			room[i] = entries[left++];
		else
			room[i] = entries[right++];
	}
	memcpy(entries, room, count * sizeof(KeyEntry));
}

/* Sorts the members on the stack from base on, keeps the last of equal keys, and returns the number of members left. */
static size_t
order_members(Parser *parser, size_t base, const JsonPlace *parent, bool *repeats)
{
	size_t		count = parser->entry_count - base;
	size_t		kept = 1;
	bool		repeated = false;	/* the previous key is already reported */
	KeyEntry   *entries;

	reserve_entries(parser, count);
	entries = parser->entries + base;
	sort_entries(entries, entries + count, count);

	for (size_t i = 1; i < count; i++)
	{
		if (compare_keys(entries[i].key, entries[kept - 1].key) != 0)
		{
			entries[kept++] = entries[i];
			repeated = false;
			continue;
		}
		/* Only the second of several equal keys is reported: upstream lists equal errors once. */
		if (!repeated && parser->notes_duplicates)
			duplicate_note(parser->arena, &parser->duplicates, parent, entries[i].key, entries[i].offset);
		repeated = true;
		entries[kept - 1].value = entries[i].value;
		entries[kept - 1].value->repeated = true;
		*repeats = true;
	}
	return kept;
}

static const char *
parse_object(Parser *parser, const char *p, const JsonPlace *parent, JsonNode *node)
{
	const char *end = parser->end;
	size_t		base = parser->entry_count;
	size_t		count;
	bool		sorted = true;
	JsonPlace	place = {parent, false, {NULL, 0}, 0};
	JsonMember *members;

	node->kind = JSON_KIND_OBJECT;
	node->u.object.members = NULL;
	node->u.object.count = 0;
	node->u.object.capacity = 0;

	p = skip_space(p, end);
	if (p < end && *p == '}')
		return p + 1;

	for (;;)
	{
		const char *start = p;
		JsonNode   *value;
		KeyEntry   *entry;
		bool		plain;

		if (p >= end || *p != '"')
			return unexpected(parser, p, "looking for beginning of object key string");
		p = parse_string(parser, p + 1, &place.key, &plain);
		if (p == NULL)
			return NULL;
		if (p < end && *p != ':')
			p = skip_space(p, end);
		if (p >= end || *p != ':')
			return unexpected(parser, p, "after object key");

		value = take(parser->arena, sizeof(JsonNode));
		count = parser->entry_count - base;
		if (count > 0 && compare_keys(parser->entries[base + count - 1].key, place.key) >= 0)
			sorted = false;
		arena_checkpoint_at(count);
		entry = push_entry(parser);
		entry->key = place.key;
		entry->value = value;
		entry->offset = (size_t) (start - parser->text);

		p = parse_value(parser, p + 1, &place, value);
		if (p == NULL)
			return NULL;
		if (p < end && *p != ',')
			p = skip_space(p, end);
		if (p < end && *p == ',')
		{
			p = skip_space(p + 1, end);
			continue;
		}
		if (p < end && *p == '}')
			break;
		return unexpected(parser, p, "after object key:value pair");
	}

	count = sorted ? parser->entry_count - base : order_members(parser, base, parent, &node->repeats);
	members = take(parser->arena, count * sizeof(JsonMember));
	for (size_t i = 0; i < count; i++)
	{
		members[i].key = parser->entries[base + i].key;
		members[i].value = parser->entries[base + i].value;
	}
	parser->entry_count = base;
	node->u.object.members = members;
	node->u.object.count = count;
	node->u.object.capacity = count;
	return p + 1;
}

static const char *
parse_array(Parser *parser, const char *p, const JsonPlace *parent, JsonNode *node)
{
	const char *end = parser->end;
	size_t		base = parser->item_count;
	size_t		count;
	JsonPlace	place = {parent, true, {NULL, 0}, 0};
	JsonNode  **items;

	node->kind = JSON_KIND_ARRAY;
	node->u.array.items = NULL;
	node->u.array.count = 0;
	node->u.array.capacity = 0;

	p = skip_space(p, end);
	if (p < end && *p == ']')
		return p + 1;

	for (;;)
	{
		JsonNode   *item = take(parser->arena, sizeof(JsonNode));

		arena_checkpoint_at(place.index);
		push_item(parser, item);
		p = parse_value(parser, p, &place, item);
		if (p == NULL)
			return NULL;
		place.index++;
		if (p < end && *p != ',')
			p = skip_space(p, end);
		if (p < end && *p == ',')
		{
			p++;
			continue;
		}
		if (p < end && *p == ']')
			break;
		return unexpected(parser, p, "after array element");
	}

	count = place.index;
	items = take(parser->arena, count * sizeof(JsonNode *));
	memcpy(items, parser->items + base, count * sizeof(JsonNode *));
	parser->item_count = base;
	node->u.array.items = items;
	node->u.array.count = count;
	node->u.array.capacity = count;
	return p + 1;
}

static const char *
parse_value(Parser *parser, const char *p, const JsonPlace *parent, JsonNode *node)
{
	p = skip_space(p, parser->end);
	if (p >= parser->end)
		return unexpected(parser, p, "");

	node->plain = node->repeats = node->repeated = false;
	switch (*p)
	{
		case '"':
			node->kind = JSON_KIND_STRING;
			return parse_string(parser, p + 1, &node->u.string, &node->plain);
		case '{':
		case '[':
			arena_checkpoint();
			if (parser->depth == JSON_MAX_DEPTH)
			{
				parser->message = "exceeded max depth";
				parser->offset = (size_t) (p - parser->text);
				return NULL;
			}
			parser->depth++;
			p = *p == '{' ? parse_object(parser, p + 1, parent, node) : parse_array(parser, p + 1, parent, node);
			parser->depth--;
			return p;
		case 't':
			node->kind = JSON_KIND_BOOL;
			node->u.boolean = true;
			return parse_word(parser, p, "true");
		case 'f':
			node->kind = JSON_KIND_BOOL;
			node->u.boolean = false;
			return parse_word(parser, p, "false");
		case 'n':
			node->kind = JSON_KIND_NULL;
			return parse_word(parser, p, "null");
		case '-':
		case '0':
		case '1':
		case '2':
		case '3':
		case '4':
		case '5':
		case '6':
		case '7':
		case '8':
		case '9':
			return parse_number(parser, p, node);
		default:
			return unexpected(parser, p, "looking for beginning of value");
	}
}

JsonNode *
json_parse(Arena *arena, const char *text, size_t len, JsonDuplicate duplicate, void *state, JsonError *error)
{
	Parser		parser = {.arena = arena, .text = text, .end = text + len, .notes_duplicates = duplicate != NULL};
	JsonNode   *root = arena_alloc(arena, sizeof(JsonNode));
	const char *p;

	p = parse_value(&parser, text, NULL, root);
	if (parser.entries != NULL)
		arena_discard(arena, parser.entries, parser.entry_capacity * sizeof(KeyEntry));
	if (parser.items != NULL)
		arena_discard(arena, parser.items, parser.item_capacity * sizeof(JsonNode *));
	if (p != NULL)
	{
		p = skip_space(p, parser.end);
		if (p < parser.end)
			p = unexpected(&parser, p, "after top-level value");
	}
	if (p == NULL || parser.range_message != NULL)
	{
		if (error != NULL)
		{
			error->message = p == NULL ? parser.message : parser.range_message;
			error->offset = p == NULL ? parser.offset : parser.range_offset;
		}
		return NULL;
	}

	if (parser.duplicates.count > 0)
		duplicates_tell(&parser.duplicates, duplicate, state);
	return root;
}
