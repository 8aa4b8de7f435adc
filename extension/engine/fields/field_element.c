/*-------------------------------------------------------------------------
 *
 * field_element.c
 *	  Elements of field paths: write, parse and show them.
 *
 * Elements of type k and v contain JSON inside of a JSON key.  This JSON is
 * written as upstream's library writes it: with escapes for the special
 * characters of HTML, and without short escapes for backspace and form feed.
 * A client that compares managed fields compares these bytes.
 *
 * Reference: k8s-conformance MF-03, SSA-05; structured-merge-diff's
 * fieldpath/serialize-pe.go and fieldpath/element.go.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/fields/field_element.h"

#include <string.h>

#include "engine/api/request.h"
#include "engine/api/status.h"
#include "engine/base/go_float.h"

/* Elements up to this size are copied, so that their temporary memory can be freed; longer ones are rare. */
#define SHORT_ELEMENT 256

static JsonText
text_after(JsonText element)
{
	return (JsonText) {element.bytes + 2, element.len - 2};
}

JsonText
field_name_element(Arena *arena, JsonText name)
{
	char	   *bytes = arena_alloc(arena, name.len + 2);

	memcpy(bytes, "f:", 2);
	if (name.len > 0)
		memcpy(bytes + 2, name.bytes, name.len);
	return (JsonText) {bytes, name.len + 2};
}

static JsonText
json_element(Arena *arena, const char *prefix, const JsonNode *value)
{
	StrBuf		json;
	StrBuf		buf;

	strbuf_init(&json, arena);
	json_write_html(&json, value);
	strbuf_init(&buf, arena);
	strbuf_puts(&buf, prefix);
	for (size_t i = 0; i < json.len; i++)
	{
		char		c = json.bytes[i];
		char		next = json.bytes[i + 1];

		if (c != '\\')
		{
			strbuf_putc(&buf, c);
			continue;
		}
		if (next == 'b' || next == 'f')
			strbuf_puts(&buf, next == 'b' ? "\\u0008" : "\\u000c");
		else
			strbuf_append(&buf, json.bytes + i, 2);
		i++;
	}
	return (JsonText) {strbuf_finish(&buf), buf.len};
}

JsonText
field_keys_element(Arena *arena, const JsonNode *keys)
{
	return json_element(arena, "k:", keys);
}

JsonText
field_value_element(Arena *arena, const JsonNode *value)
{
	return json_element(arena, "v:", value);
}

/*
 * The canonical form of k: and v:.  Temporary memory is returned to the arena, because a body may contain very many
 * elements, and most of them are already canonical.
 */
static ElementResult
parse_json_element(Arena *arena, JsonText text, JsonText *element, const char **error)
{
	ArenaMark	mark = arena_mark(arena);
	JsonError	json_error;
	JsonNode   *value = json_parse(arena, text.bytes + 2, text.len - 2, NULL, NULL, &json_error);
	JsonText	canonical;
	char		copy[SHORT_ELEMENT];

	if (value == NULL)
	{
		*error = json_error.message;
		return ELEMENT_MALFORMED;
	}
	if (text.bytes[0] == 'v')
		canonical = field_value_element(arena, value);
	else if (value->kind == JSON_KIND_OBJECT || value->kind == JSON_KIND_NULL)
		canonical = field_keys_element(arena, value->kind == JSON_KIND_NULL ? json_new_object(arena) : value);
	else
	{
		*error = "expected an object of keys";
		return ELEMENT_MALFORMED;
	}
	*element = canonical;
	if (json_text_compare(canonical, text) == 0)
	{
		*element = text;
		arena_return_to(arena, &mark);
	}
	else if (canonical.len <= sizeof(copy))
	{
		memcpy(copy, canonical.bytes, canonical.len);
		arena_return_to(arena, &mark);
		element->bytes = arena_strndup(arena, copy, canonical.len);
	}
	return ELEMENT_OK;
}

ElementResult
field_element_parse(Arena *arena, JsonText text, JsonText *element, const char **error)
{
	int64_t		index;

	if (text.len < 2)
	{
		*error = "key must be 2 characters long:";
		return ELEMENT_MALFORMED;
	}
	if (text.bytes[1] != ':')
	{
		*error = arena_printf(arena, "missing colon: %s", arena_strndup(arena, text.bytes, text.len));
		return ELEMENT_MALFORMED;
	}
	switch (text.bytes[0])
	{
		case 'f':
			*element = text;
			return ELEMENT_OK;
		case 'i':
			if (memchr(text.bytes, '\0', text.len) != NULL)
			{
				*error = "invalid index";
				return ELEMENT_MALFORMED;
			}
			if (!parse_go_int(arena, arena_strndup(arena, text.bytes + 2, text.len - 2), &index, error))
				return ELEMENT_MALFORMED;
			element->bytes = arena_printf(arena, "i:%lld", (long long) index);
			element->len = strlen(element->bytes);
			return ELEMENT_OK;
		case 'k':
		case 'v':
			return parse_json_element(arena, text, element, error);
		default:
			return ELEMENT_UNKNOWN;
	}
}

bool
field_element_name(JsonText element, JsonText *name)
{
	if (element.bytes[0] != 'f')
		return false;
	*name = text_after(element);
	return true;
}

/* A path is a C string, so a NUL in a name must be replaced. */
static void
show_name(StrBuf *buf, JsonText name)
{
	for (size_t i = 0; i < name.len; i++)
	{
		if (name.bytes[i] == '\0')
			strbuf_puts(buf, "\xEF\xBF\xBD");
		else
			strbuf_putc(buf, name.bytes[i]);
	}
}

const JsonNode *
field_element_value(Arena *arena, JsonText element)
{
	JsonText	text = text_after(element);
	JsonError	error;

	if (element.bytes[0] != 'k' && element.bytes[0] != 'v')
		return NULL;
	return json_parse(arena, text.bytes, text.len, NULL, NULL, &error);
}

/* Appends a value as structured-merge-diff prints it. */
static void
show_value(StrBuf *buf, const JsonNode *value)
{
	switch (value->kind)
	{
		case JSON_KIND_STRING:
			quote_text(buf, value->u.string.bytes, value->u.string.len);
			break;
		case JSON_KIND_INTEGER:
		case JSON_KIND_NUMBER:
			/* Upstream reads the numbers of a set as floats. */
			go_float_text(buf, value->kind == JSON_KIND_INTEGER ? (double) value->u.integer : value->u.number);
			break;
		case JSON_KIND_ARRAY:
			arena_checkpoint();
			strbuf_putc(buf, '[');
			for (size_t i = 0; i < value->u.array.count; i++)
			{
				if (i > 0)
					strbuf_putc(buf, ',');
				show_value(buf, value->u.array.items[i]);
			}
			strbuf_putc(buf, ']');
			break;
		case JSON_KIND_OBJECT:
			arena_checkpoint();
			for (size_t i = 0; i < value->u.object.count; i++)
			{
				const JsonMember *member = &value->u.object.members[i];

				show_name(buf, member->key);
				strbuf_putc(buf, '=');
				show_value(buf, member->value);
			}
			break;
		case JSON_KIND_NULL:
		case JSON_KIND_BOOL:
			json_write(buf, value);
			break;
	}
}

void
field_element_show(StrBuf *buf, JsonText element)
{
	JsonText	text = text_after(element);
	const JsonNode *value;

	switch (element.bytes[0])
	{
		case 'f':
			strbuf_putc(buf, '.');
			show_name(buf, text);
			break;
		case 'i':
			strbuf_putc(buf, '[');
			strbuf_append(buf, text.bytes, text.len);
			strbuf_putc(buf, ']');
			break;
		case 'v':
			strbuf_puts(buf, "[=");
			show_value(buf, field_element_value(buf->arena, element));
			strbuf_putc(buf, ']');
			break;
		default:
			value = field_element_value(buf->arena, element);
			strbuf_putc(buf, '[');
			for (size_t i = 0; i < value->u.object.count; i++)
			{
				const JsonMember *member = &value->u.object.members[i];

				if (i > 0)
					strbuf_putc(buf, ',');
				show_name(buf, member->key);
				strbuf_putc(buf, '=');
				show_value(buf, member->value);
			}
			strbuf_putc(buf, ']');
			break;
	}
}

/* Numbers first, then strings, booleans, lists, maps, nulls. */
static int
value_rank(const JsonNode *value)
{
	static const int ranks[] = {
		[JSON_KIND_INTEGER] = 0,[JSON_KIND_NUMBER] = 0,[JSON_KIND_STRING] = 1,[JSON_KIND_BOOL] = 2,
		[JSON_KIND_ARRAY] = 3,[JSON_KIND_OBJECT] = 4,[JSON_KIND_NULL] = 5
	};

	return ranks[value->kind];
}

static int
compare_values(const JsonNode *a, const JsonNode *b)
{
	int			rank = value_rank(a) - value_rank(b);
	double		left;
	double		right;

	if (rank != 0)
		return rank;
	switch (a->kind)
	{
		case JSON_KIND_INTEGER:
		case JSON_KIND_NUMBER:
			left = a->kind == JSON_KIND_INTEGER ? (double) a->u.integer : a->u.number;
			right = b->kind == JSON_KIND_INTEGER ? (double) b->u.integer : b->u.number;
			return (left > right) - (left < right);
		case JSON_KIND_STRING:
			return json_text_compare(a->u.string, b->u.string);
		case JSON_KIND_BOOL:
			return (int) a->u.boolean - (int) b->u.boolean;
		default:
			return 0;
	}
}

static int
compare_keys(const JsonNode *a, const JsonNode *b)
{
	size_t		left = a->u.object.count;
	size_t		right = b->u.object.count;

	for (size_t i = 0; i < left && i < right; i++)
	{
		int			order = json_text_compare(a->u.object.members[i].key, b->u.object.members[i].key);

		if (order == 0)
			order = compare_values(a->u.object.members[i].value, b->u.object.members[i].value);
		if (order != 0)
			return order;
	}
	return (left > right) - (left < right);
}

int
field_element_order(JsonText a, const JsonNode *a_value, JsonText b, const JsonNode *b_value)
{
	static const char types[] = "fkvi";
	int			order = (int) (strchr(types, a.bytes[0]) - strchr(types, b.bytes[0]));

	if (order == 0 && a.bytes[0] == 'k')
		order = compare_keys(a_value, b_value);
	else if (order == 0 && a.bytes[0] == 'v')
		order = compare_values(a_value, b_value);
	return order != 0 ? order : json_text_compare(a, b);
}
