/*-------------------------------------------------------------------------
 *
 * yaml_read.c
 *	  YAML text to JSON text.
 *
 * libyaml's events become a tree in which an alias points to the node that it
 * names; the tree is then written as JSON, an aliased node as often as it is
 * named.  What is counted on the way, and complained about, is what upstream
 * counts: a text of moderate size is a large document only as far as it is
 * one there.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/yaml_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "engine/api/status.h"

#define TAG_PREFIX "tag:yaml.org,2002:"

/* Chains of anchors; there may be one for every few bytes of the text. */
#define ANCHOR_BITS 13
#define ANCHOR_CHAINS ((size_t) 1 << ANCHOR_BITS)

/* Upstream's measure of aliases: how large a share of all decoded nodes may come out of them, falling with their number. */
#define ALIASES_FREE 100
#define DECODES_FREE 1000
#define RATIO_LOW 400000
#define RATIO_HIGH 4000000

#define DUPLICATES_MAX 100

/* How much of the client's text a complaint shows, about; upstream shows all of it. */
#define TEXT_SHOWN 1024
#define ERROR_SHOWN 4096

typedef struct YamlNode YamlNode;

typedef enum NodeKind
{
	NODE_SCALAR,
	NODE_SEQUENCE,
	NODE_MAPPING,				/* its children are keys and values in turn */
	NODE_ALIAS
} NodeKind;

struct YamlNode
{
	uint8_t		kind;
	bool		implicit;		/* a scalar without quotes and tag */
	bool		open;			/* an alias that is being written */
	uint32_t	line;			/* from 1 */
	const char *tag;			/* NULL for none */
	union
	{
		JsonText	text;
		struct
		{
			YamlNode   *first;
			size_t		count;
		}			children;
		struct
		{
			const char *name;
			YamlNode   *target;
		}			alias;
	}			u;
	YamlNode   *next;			/* in its parent */
};

typedef struct Anchor
{
	const char *name;
	YamlNode   *node;
	struct Anchor *next;		/* older ones of the chain */
} Anchor;

typedef struct Reader
{
	Arena	   *arena;
	yaml_parser_t parser;
	yaml_event_t event;			/* the one being looked at */
	Anchor	  **anchors;		/* NULL before the first one */
	StrBuf	   *json;
	size_t		start;			/* of what is appended to it */
	size_t		limit;
	JsonNode   *duplicates;
	size_t		decodes;
	size_t		alias_decodes;
	int			alias_depth;
	const char *error;			/* ends the reading */
	const char *key_error;		/* these two are found later upstream: other errors go first */
	const char *number_error;
} Reader;

static bool
fail(Reader *reader, const char *words)
{
	if (reader->error == NULL)
		reader->error = arena_printf(reader->arena, "yaml: %s", words);
	return false;
}

/* --- Events to nodes --- */

/* In upstream's words, which count lines as it does. */
static bool
parser_failed(Reader *reader)
{
	const yaml_parser_t *parser = &reader->parser;
	const char *problem = parser->problem != NULL ? parser->problem : "unknown problem parsing YAML content";
	size_t		line = parser->problem_mark.line;

	if (line == 0)
		line = parser->context_mark.line;
	else if (parser->error == YAML_SCANNER_ERROR)
		line++;
	if (line == 0)
		return fail(reader, problem);
	return fail(reader, arena_printf(reader->arena, "line %zu: %s", line, problem));
}

static bool
next_event(Reader *reader)
{
	yaml_event_delete(&reader->event);
	memset(&reader->event, 0, sizeof(reader->event));
	return yaml_parser_parse(&reader->parser, &reader->event) != 0 || parser_failed(reader);
}

/* The seed is the process's own: nobody can choose names that share a chain. */
static size_t
chain_of(const char *name)
{
	static uint64_t seed;
	uint64_t	hash;

	if (seed == 0)
		arc4random_buf(&seed, sizeof(seed));
	hash = seed;
	for (; *name != '\0'; name++)
	{
		hash = (hash ^ (unsigned char) *name) * 0x9E3779B97F4A7C15u;
		hash ^= hash >> 32;
	}
	return (hash * 0x9E3779B97F4A7C15u) >> (64 - ANCHOR_BITS);
}

static Anchor *
find_anchor(const Reader *reader, const char *name)
{
	Anchor	   *anchor = reader->anchors != NULL ? reader->anchors[chain_of(name)] : NULL;

	while (anchor != NULL && strcmp(anchor->name, name) != 0)
		anchor = anchor->next;
	return anchor;
}

/* The latest node of a name counts, and takes the place of the one before: a chain has no name twice. */
static void
set_anchor(Reader *reader, const yaml_char_t *name, YamlNode *node)
{
	Anchor	   *anchor;
	Anchor	  **chain;

	if (name == NULL)
		return;
	if (reader->anchors == NULL)
		reader->anchors = arena_alloc0(reader->arena, ANCHOR_CHAINS * sizeof(Anchor *));
	anchor = find_anchor(reader, (const char *) name);
	if (anchor == NULL)
	{
		anchor = arena_alloc(reader->arena, sizeof(Anchor));
		anchor->name = arena_strdup(reader->arena, (const char *) name);
		chain = &reader->anchors[chain_of(anchor->name)];
		anchor->next = *chain;
		*chain = anchor;
	}
	anchor->node = node;
}

static const char *
copy_tag(Reader *reader, const yaml_char_t *tag)
{
	return tag != NULL && tag[0] != '\0' ? arena_strdup(reader->arena, (const char *) tag) : NULL;
}

static YamlNode *build_node(Reader *reader, int depth);

/* The children up to the event that ends them. */
static bool
build_children(Reader *reader, YamlNode *node, yaml_event_type_t end, int depth)
{
	YamlNode  **link = &node->u.children.first;

	if (depth >= JSON_MAX_DEPTH)
		return fail(reader, arena_printf(reader->arena, "exceeded max depth of %d", JSON_MAX_DEPTH));
	if (!next_event(reader))
		return false;
	while (reader->event.type != end)
	{
		YamlNode   *child = build_node(reader, depth + 1);

		if (child == NULL || !next_event(reader))
			return false;
		*link = child;
		link = &child->next;
		node->u.children.count++;
	}
	return true;
}

/* The node that begins with the present event; NULL on failure.  The event that ends it is the present one afterwards. */
static YamlNode *
build_node(Reader *reader, int depth)
{
	const Anchor *anchor;
	YamlNode   *node = arena_alloc0(reader->arena, sizeof(YamlNode));
	yaml_event_t *event = &reader->event;

	node->line = (uint32_t) event->start_mark.line + 1;
	switch (event->type)
	{
		case YAML_SCALAR_EVENT:
			node->kind = NODE_SCALAR;
			node->implicit = event->data.scalar.plain_implicit != 0;
			node->tag = copy_tag(reader, event->data.scalar.tag);
			node->u.text.len = event->data.scalar.length;
			node->u.text.bytes = arena_strndup(reader->arena, (const char *) event->data.scalar.value, node->u.text.len);
			set_anchor(reader, event->data.scalar.anchor, node);
			return node;
		case YAML_SEQUENCE_START_EVENT:
			node->kind = NODE_SEQUENCE;
			set_anchor(reader, event->data.sequence_start.anchor, node);
			return build_children(reader, node, YAML_SEQUENCE_END_EVENT, depth) ? node : NULL;
		case YAML_MAPPING_START_EVENT:
			node->kind = NODE_MAPPING;
			set_anchor(reader, event->data.mapping_start.anchor, node);
			return build_children(reader, node, YAML_MAPPING_END_EVENT, depth) ? node : NULL;
		case YAML_ALIAS_EVENT:
			node->kind = NODE_ALIAS;
			node->u.alias.name = arena_strdup(reader->arena, (const char *) event->data.alias.anchor);
			anchor = find_anchor(reader, node->u.alias.name);
			if (anchor != NULL)
			{
				node->u.alias.target = anchor->node;
				return node;
			}
			fail(reader, arena_printf(reader->arena, "unknown anchor '%s' referenced", node->u.alias.name));
			return NULL;
		default:
			fail(reader, "unknown problem parsing YAML content");
			return NULL;
	}
}

/* The root of the first document; *root is NULL when there is none.  What follows it is not looked at. */
static bool
build_document(Reader *reader, YamlNode **root)
{
	*root = NULL;
	if (!next_event(reader) || !next_event(reader))
		return false;
	if (reader->event.type == YAML_STREAM_END_EVENT)
		return true;
	if (!next_event(reader))
		return false;
	*root = build_node(reader, 0);
	return *root != NULL && next_event(reader);
}

/* --- Scalars --- */

static bool
is_tag(const YamlNode *node, const char *name)
{
	static const size_t prefix = sizeof(TAG_PREFIX) - 1;

	return node->tag != NULL && strncmp(node->tag, TAG_PREFIX, prefix) == 0 && strcmp(node->tag + prefix, name) == 0;
}

/* Standard base64 with padding; lines may be broken. */
static bool
decode_base64(Arena *arena, JsonText text, JsonText *bytes)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char	   *to = arena_alloc(arena, text.len + 1);
	uint32_t	bits = 0;
	size_t		digits = 0;
	size_t		padding = 0;

	bytes->bytes = to;
	for (size_t i = 0; i < text.len; i++)
	{
		const char *digit;

		if (text.bytes[i] == '\n' || text.bytes[i] == '\r')
			continue;
		digit = text.bytes[i] != '\0' ? strchr(alphabet, text.bytes[i]) : NULL;
		if (text.bytes[i] == '=' && digits % 4 + padding >= 2)
			padding++;
		else if (digit == NULL || padding > 0)
			return false;
		else
		{
			bits = bits << 6 | (uint32_t) (digit - alphabet);
			if (++digits % 4 != 1)
				*to++ = (char) (bits >> (6 - 2 * ((digits - 1) % 4)));
		}
	}
	bytes->len = (size_t) (to - bytes->bytes);
	return (digits + padding) % 4 == 0 && padding <= 2;
}

/* What a scalar is; *text is the string when it is one. */
static bool
resolve(Reader *reader, const YamlNode *node, Scalar *scalar, JsonText *text)
{
	/* The short tags of the kinds. */
	static const char *const names[] = {
		[SCALAR_STRING] = "str",
		[SCALAR_NULL] = "null",
		[SCALAR_BOOL] = "bool",
		[SCALAR_INTEGER] = "int",
		[SCALAR_UNSIGNED] = "int",
		[SCALAR_FLOAT] = "float",
	};

	*scalar = (Scalar) {SCALAR_STRING, {0}};
	*text = node->u.text;
	if (is_tag(node, "binary"))
		return decode_base64(reader->arena, node->u.text, text) ||
			fail(reader, "!!binary value contains invalid base64 data");
	if (node->tag == NULL && !node->implicit)
		return true;
	if (node->tag != NULL && !is_tag(node, "null") && !is_tag(node, "bool") && !is_tag(node, "int") && !is_tag(node, "float"))
		return true;
	*scalar = scalar_resolve(reader->arena, node->u.text);
	if (node->tag == NULL || is_tag(node, names[scalar->kind]))
		return true;
	if (is_tag(node, "float") && scalar->kind == SCALAR_INTEGER)
	{
		*scalar = (Scalar) {SCALAR_FLOAT, {.number = (double) scalar->u.integer}};
		return true;
	}
	return fail(reader, arena_printf(reader->arena, "cannot decode !!%s `%.*s` as a !!%s", names[scalar->kind],
									 node->u.text.len < TEXT_SHOWN ? (int) node->u.text.len : TEXT_SHOWN, node->u.text.bytes,
									 node->tag + sizeof(TAG_PREFIX) - 1));
}

/* A scalar that is no string, as JSON; 0 for what JSON has no number for. */
static void
put_scalar_value(StrBuf *buf, const Scalar *scalar)
{
	JsonNode	number = {.kind = JSON_NUMBER};

	switch (scalar->kind)
	{
		case SCALAR_STRING:
		case SCALAR_NULL:
			strbuf_puts(buf, "null");
			break;
		case SCALAR_BOOL:
			strbuf_puts(buf, scalar->u.boolean ? "true" : "false");
			break;
		case SCALAR_INTEGER:
			strbuf_printf(buf, "%lld", (long long) scalar->u.integer);
			break;
		case SCALAR_UNSIGNED:
			strbuf_printf(buf, "%llu", (unsigned long long) scalar->u.large);
			break;
		case SCALAR_FLOAT:
			number.u.number = isfinite(scalar->u.number) ? scalar->u.number : 0;
			json_write(buf, &number);
			break;
	}
}

static bool
write_scalar(Reader *reader, const YamlNode *node)
{
	Scalar		scalar;
	JsonText	text;

	if (!resolve(reader, node, &scalar, &text))
		return false;
	if (scalar.kind == SCALAR_STRING)
		json_write_string(reader->json, text.bytes, text.len);
	else
		put_scalar_value(reader->json, &scalar);
	if (scalar.kind == SCALAR_FLOAT && !isfinite(scalar.u.number) && reader->number_error == NULL)
		reader->number_error = isnan(scalar.u.number) ? "json: unsupported value: NaN" :
			scalar.u.number > 0 ? "json: unsupported value: +Inf" : "json: unsupported value: -Inf";
	return true;
}

/* --- Keys --- */

/* An alias that a merge key names, and that through which it was merged itself. */
typedef struct Via
{
	YamlNode   *alias;
	const struct Via *outer;
} Via;

typedef struct Entry
{
	JsonText	key;
	ScalarKind	kind;
	const char *shown;			/* in a complaint */
	YamlNode   *value;
	const Via  *via;			/* NULL: it stands in the mapping itself */
	bool		repeated;		/* an earlier entry has the very key */
	bool		overridden;		/* a later one has it, or one that reads the same in JSON */
} Entry;

typedef struct Entries
{
	Entry	   *entries;
	size_t		count;
	size_t		capacity;
} Entries;

/* As Go's FormatFloat(value, 'g', -1, 32) prints it. */
static char *
format_float(Arena *arena, double value)
{
	char		digits[32];
	int			precision = 0;
	int			exponent;

	if (!isfinite(value) || !isfinite((float) value))
		return arena_strdup(arena, isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf");
	do
		snprintf(digits, sizeof(digits), "%.*e", precision, (double) (float) value);
	while (strtof(digits, NULL) != (float) value && ++precision < 9);
	exponent = atoi(strchr(digits, 'e') + 1);
	if (exponent < -4 || exponent >= 6)
		return arena_strdup(arena, digits);
	return arena_printf(arena, "%.*f", precision > exponent ? precision - exponent : 0, (double) (float) value);
}

static void
quote_start(StrBuf *buf, JsonText text)
{
	quote_text(buf, text.bytes, text.len < TEXT_SHOWN ? text.len : TEXT_SHOWN);
}

/* A value as Go's %#v shows it, without aliases. */
static void
show_value(Reader *reader, const YamlNode *node, StrBuf *shown)
{
	Scalar		scalar;
	JsonText	text;
	bool		mapping = node->kind == NODE_MAPPING;
	bool		value = false;	/* and not a key */

	if (shown->len > TEXT_SHOWN || node->kind == NODE_ALIAS)
		strbuf_puts(shown, "...");
	else if (node->kind == NODE_SCALAR)
	{
		if (!resolve(reader, node, &scalar, &text) || scalar.kind == SCALAR_NULL)
			strbuf_puts(shown, "interface {}(nil)");
		else if (scalar.kind == SCALAR_STRING)
			quote_start(shown, text);
		else
			put_scalar_value(shown, &scalar);
	}
	else
	{
		strbuf_puts(shown, mapping ? "map[interface {}]interface {}{" : "[]interface {}{");
		for (const YamlNode *child = node->u.children.first; child != NULL; child = child->next)
		{
			if (child != node->u.children.first)
				strbuf_puts(shown, value ? ":" : ", ");
			show_value(reader, child, shown);
			value = mapping && !value;
		}
		strbuf_putc(shown, '}');
	}
}

/* The innermost mapping or sequence that stands where a key should. */
static const YamlNode *
find_bad_key(const YamlNode *node)
{
	const YamlNode *key = node->kind == NODE_MAPPING ? node->u.children.first : NULL;

	while (key != NULL && (key->kind == NODE_SCALAR || key->kind == NODE_ALIAS))
		key = key->next->next;
	return key != NULL ? find_bad_key(key) : node;
}

/* A key that Go's maps can have and JSON's objects cannot. */
static void
refuse_key(Reader *reader, const Entry *entry, const char *type)
{
	StrBuf		value;

	if (reader->key_error != NULL)
		return;
	strbuf_init(&value, reader->arena);
	show_value(reader, entry->value, &value);
	reader->key_error = arena_printf(reader->arena, "unsupported map key of type: %s, key: %s, value: %s", type, entry->shown,
									 strcmp(value.bytes, "interface {}(nil)") == 0 ? "<nil>" : value.bytes);
}

/* The key as JSON has it, and as a complaint shows it. */
static bool
read_key(Reader *reader, const YamlNode *node, Entry *entry)
{
	Scalar		scalar;
	StrBuf		shown;

	reader->decodes++;
	while (node->kind == NODE_ALIAS)
		node = node->u.alias.target;
	strbuf_init(&shown, reader->arena);
	if (node->kind != NODE_SCALAR)
	{
		strbuf_puts(&shown, "invalid map key: ");
		show_value(reader, find_bad_key(node), &shown);
		return fail(reader, shown.bytes);
	}
	if (!resolve(reader, node, &scalar, &entry->key))
		return false;
	entry->kind = scalar.kind;
	switch (scalar.kind)
	{
		case SCALAR_STRING:
			quote_start(&shown, entry->key);
			entry->shown = shown.bytes;
			return true;
		case SCALAR_BOOL:
		case SCALAR_INTEGER:
			put_scalar_value(&shown, &scalar);
			entry->shown = shown.bytes;
			break;
		case SCALAR_FLOAT:
			entry->shown = format_float(reader->arena, scalar.u.number);
			break;
		case SCALAR_NULL:
			entry->shown = "<nil>";
			refuse_key(reader, entry, "%!s(<nil>)");
			break;
		case SCALAR_UNSIGNED:
			entry->shown = arena_printf(reader->arena, "0x%llx", (unsigned long long) scalar.u.large);
			refuse_key(reader, entry, "uint64");
			break;
	}
	entry->key = (JsonText) {entry->shown, strlen(entry->shown)};
	return true;
}

static bool
is_merge(const YamlNode *node)
{
	return node->kind == NODE_SCALAR && json_text_is(node->u.text, "<<") && (node->implicit || is_tag(node, "merge"));
}

static bool collect_entries(Reader *reader, YamlNode *node, const Via *via, Entries *list, int depth);

/* What a merge key takes over: a mapping, an alias of one, or a list of these, of which the first counts most. */
static bool
merge_entries(Reader *reader, YamlNode *node, const Via *via, Entries *list, int depth)
{
	static const char wanted[] = "map merge requires map or sequence of maps as the value";
	YamlNode  **parts;
	size_t		count = 0;

	if (depth >= JSON_MAX_DEPTH)
		return fail(reader, "document contains excessive aliasing");
	if (node->kind == NODE_MAPPING)
		return collect_entries(reader, node, via, list, depth + 1);
	if (node->kind == NODE_ALIAS)
	{
		Via		   *inner = arena_alloc(reader->arena, sizeof(Via));
		bool		merged;

		if (node->u.alias.target->kind != NODE_MAPPING)
			return fail(reader, wanted);
		if (node->open)
			return fail(reader, arena_printf(reader->arena, "anchor '%s' value contains itself", node->u.alias.name));
		*inner = (Via) {node, via};
		node->open = true;
		reader->alias_depth++;
		merged = collect_entries(reader, node->u.alias.target, inner, list, depth + 1);
		reader->alias_depth--;
		node->open = false;
		return merged;
	}
	if (node->kind != NODE_SEQUENCE)
		return fail(reader, wanted);
	parts = arena_alloc(reader->arena, (node->u.children.count + 1) * sizeof(YamlNode *));
	for (YamlNode *part = node->u.children.first; part != NULL; part = part->next)
		parts[count++] = part;
	while (count-- > 0)
		if (parts[count]->kind == NODE_SEQUENCE ? !fail(reader, wanted) : !merge_entries(reader, parts[count], via, list, depth + 1))
			return false;
	return true;
}

/* Counts one decoded node. */
static bool
count_decode(Reader *reader)
{
	double		most = 0.99;

	reader->decodes++;
	if (reader->alias_depth > 0)
		reader->alias_decodes++;
	if (reader->decodes >= RATIO_HIGH)
		most = 0.10;
	else if (reader->decodes > RATIO_LOW)
		most = 0.99 - 0.89 * ((double) (reader->decodes - RATIO_LOW) / (RATIO_HIGH - RATIO_LOW));
	if ((reader->alias_decodes > ALIASES_FREE && reader->decodes > DECODES_FREE &&
		 (double) reader->alias_decodes / (double) reader->decodes > most) ||
		reader->json->len - reader->start > reader->limit)
		return fail(reader, "document contains excessive aliasing");
	return true;
}

/* The members of a mapping in order, merged ones included. */
static bool
collect_entries(Reader *reader, YamlNode *node, const Via *via, Entries *list, int depth)
{
	if (!count_decode(reader))
		return false;
	for (YamlNode *key = node->u.children.first; key != NULL; key = key->next->next)
	{
		Entry	   *entry;

		if (is_merge(key))
		{
			if (!merge_entries(reader, key->next, via, list, depth))
				return false;
			continue;
		}
		if (list->count == list->capacity)
		{
			size_t		capacity = list->capacity == 0 ? node->u.children.count / 2 : list->capacity * 2;
			Entry	   *larger = arena_alloc(reader->arena, capacity * sizeof(Entry));

			if (list->count > 0)
				memcpy(larger, list->entries, list->count * sizeof(Entry));
			list->entries = larger;
			list->capacity = capacity;
		}
		entry = &list->entries[list->count++];
		memset(entry, 0, sizeof(*entry));
		entry->value = key->next;
		entry->via = via;
		if (!read_key(reader, key, entry))
			return false;
	}
	return true;
}

static int
compare_entries(const void *left, const void *right)
{
	const Entry *a = *(Entry *const *) left;
	const Entry *b = *(Entry *const *) right;
	int			order = json_text_compare(a->key, b->key);

	return order != 0 ? order : (a > b) - (a < b);
}

/* Finds keys that come more than once.  1 and "1" are two keys to YAML and one to JSON. */
static void
mark_repeated(Arena *arena, Entries *list)
{
	Entry	  **sorted = arena_alloc(arena, (list->count + 1) * sizeof(Entry *));

	for (size_t i = 0; i < list->count; i++)
		sorted[i] = &list->entries[i];
	qsort(sorted, list->count, sizeof(Entry *), compare_entries);
	for (size_t i = 1; i < list->count; i++)
	{
		if (json_text_compare(sorted[i - 1]->key, sorted[i]->key) != 0)
			continue;
		sorted[i - 1]->overridden = true;
		for (size_t before = i; before-- > 0 && json_text_compare(sorted[before]->key, sorted[i]->key) == 0;)
			if (sorted[before]->kind == sorted[i]->kind)
			{
				sorted[i]->repeated = true;
				break;
			}
	}
}

/* --- Nodes to JSON --- */

static bool write_node(Reader *reader, YamlNode *node, int depth);

/* A merged value is written inside the aliases that lead to it. */
static void
open_aliases(Reader *reader, const Via *via, bool open)
{
	for (; via != NULL; via = via->outer)
	{
		via->alias->open = open;
		reader->alias_depth += open ? 1 : -1;
	}
}

static bool
write_mapping(Reader *reader, YamlNode *node, int depth)
{
	StrBuf	   *json = reader->json;
	Entries		list = {0};
	bool		first = true;

	/* write_node() has counted this one. */
	reader->decodes--;
	if (reader->alias_depth > 0)
		reader->alias_decodes--;
	if (!collect_entries(reader, node, NULL, &list, depth))
		return false;
	mark_repeated(reader->arena, &list);
	strbuf_putc(json, '{');
	for (size_t i = 0; i < list.count; i++)
	{
		const Entry *entry = &list.entries[i];
		const char *key_error = reader->key_error;
		const char *number_error = reader->number_error;
		size_t		before = json->len;
		bool		written;

		if (!first)
			strbuf_putc(json, ',');
		json_write_string(json, entry->key.bytes, entry->key.len);
		strbuf_putc(json, ':');
		open_aliases(reader, entry->via, true);
		written = write_node(reader, entry->value, depth + 1);
		open_aliases(reader, entry->via, false);
		if (!written)
			return false;
		if (entry->overridden)
		{
			json->len = before;
			reader->key_error = key_error;
			reader->number_error = number_error;
		}
		else
			first = false;
		if (entry->repeated && reader->duplicates != NULL && reader->duplicates->u.array.count < DUPLICATES_MAX)
			json_append(reader->arena, reader->duplicates,
						json_new_cstring(reader->arena, arena_printf(reader->arena, "line %u: key %s already set in map",
																	 (unsigned) entry->value->line, entry->shown)));
	}
	strbuf_putc(json, '}');
	return true;
}

static bool
write_sequence(Reader *reader, YamlNode *node, int depth)
{
	strbuf_putc(reader->json, '[');
	for (YamlNode *item = node->u.children.first; item != NULL; item = item->next)
	{
		if (item != node->u.children.first)
			strbuf_putc(reader->json, ',');
		if (!write_node(reader, item, depth + 1))
			return false;
	}
	strbuf_putc(reader->json, ']');
	return true;
}

static bool
write_alias(Reader *reader, YamlNode *node, int depth)
{
	bool		written;

	if (node->open)
		return fail(reader, arena_printf(reader->arena, "anchor '%s' value contains itself", node->u.alias.name));
	node->open = true;
	reader->alias_depth++;
	written = write_node(reader, node->u.alias.target, depth);
	reader->alias_depth--;
	node->open = false;
	return written;
}

static bool
write_node(Reader *reader, YamlNode *node, int depth)
{
	if (depth > JSON_MAX_DEPTH)
		return fail(reader, arena_printf(reader->arena, "exceeded max depth of %d", JSON_MAX_DEPTH));
	if (!count_decode(reader))
		return false;
	switch ((NodeKind) node->kind)
	{
		case NODE_SCALAR:
			return write_scalar(reader, node);
		case NODE_SEQUENCE:
			return write_sequence(reader, node, depth);
		case NODE_MAPPING:
			return write_mapping(reader, node, depth);
		case NODE_ALIAS:
			return write_alias(reader, node, depth);
	}
	return false;
}

bool
yaml_to_json(Arena *arena, const char *text, size_t len, size_t limit, StrBuf *json, JsonNode *duplicates, const char **error)
{
	Reader		reader = {.arena = arena,.json = json,.start = json->len,.limit = limit,.duplicates = duplicates};
	YamlNode   *root;
	bool		done;

	if (yaml_parser_initialize(&reader.parser) == 0)
		abort();
	yaml_parser_set_input_string(&reader.parser, (const unsigned char *) text, len);
	done = build_document(&reader, &root);
	yaml_event_delete(&reader.event);
	yaml_parser_delete(&reader.parser);
	if (done && root == NULL)
		strbuf_puts(json, "null");
	else if (done)
		write_node(&reader, root, 0);
	if (reader.error == NULL)
		reader.error = reader.key_error != NULL ? reader.key_error : reader.number_error;
	if (reader.error != NULL && strlen(reader.error) > ERROR_SHOWN)
		reader.error = arena_printf(arena, "%.*s ...", ERROR_SHOWN, reader.error);
	*error = reader.error;
	return reader.error == NULL;
}
