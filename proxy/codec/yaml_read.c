/*-------------------------------------------------------------------------
 *
 * yaml_read.c
 *	  Converts YAML text to JSON text.
 *
 * Writes the tree of yaml_parse.c as JSON.  An aliased node is written once
 * for each use, also for uses by merge keys.  The limits of aliases and the
 * error messages are the same as upstream's: a text of moderate size is
 * refused as too large only if upstream refuses it too.  Three more limits
 * grow with the length of the text: the work for aliases, the size of the
 * JSON, the memory.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/yaml_tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/api/status.h"
#include "engine/base/base64.h"
#include "engine/base/go_float.h"

/*
 * Upstream's limit for aliases: the share of decoded nodes that may come from aliases.  The share falls as the number
 * of nodes grows.
 */
#define ALIASES_FREE 100
#define DECODES_FREE 1000
#define RATIO_LOW 400000
#define RATIO_HIGH 4000000

/* Two limits that upstream does not have: nodes that come from aliases, and bytes of JSON for the whole text. */
#define ALIASED_FLOOR 100000
#define ALIASED_PER_BYTE 8
#define JSON_FLOOR ((size_t) 1024 * 1024)
#define JSON_PER_BYTE 50

#define DUPLICATES_MAX 100

/* An error message shows about this many bytes of the client's text; upstream shows the whole text. */
#define TEXT_SHOWN 1024
#define ERROR_SHOWN 4096

/* An alias that a merge key names, and the alias through which that merge key itself was merged. */
typedef struct Via
{
	YamlNode   *alias;
	const struct Via *outer;
	int			depth;			/* number of aliases around this one */
} Via;

typedef struct MappingEntry
{
	JsonText	key;
	YamlNode   *node;			/* the key; the value is node->next */
	const Via  *via;			/* NULL: not merged, but an entry of the mapping itself */
	uint8_t		kind;			/* ScalarKind */
	uint8_t		kinds;			/* a bit for each kind among this entry and earlier ones with the same JSON key */
	bool		repeated;		/* an earlier entry has exactly this key */
	bool		overridden;		/* a later entry has the same key in JSON */
} MappingEntry;

typedef struct Writer
{
	YamlReader	reader;
	StrBuf	   *json;
	size_t		start;			/* length of json before this document */
	size_t		limit;			/* limit of the bytes of JSON */
	size_t		dropped;		/* bytes written and then replaced by later entries */
	size_t		key_bytes;
	JsonNode   *duplicates;
	size_t		decodes;
	size_t		alias_decodes;
	int			alias_depth;
	MappingEntry *entries;		/* entries of the mappings being written, the innermost mapping last; malloc'ed */
	size_t		entry_count;
	size_t		entry_capacity;
	const char *key_error;		/* upstream reports key_error and number_error only when there is no other error */
	const char *number_error;
} Writer;

static bool
fail(Writer *writer, const char *words)
{
	return yaml_fail(&writer->reader, words);
}

/* --- Scalars --- */

/* Resolves a scalar for the first time. */
static bool
resolve_anew(Writer *writer, YamlNode *node)
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
	static const ScalarKind kinds[] = {
		[TAG_NULL] = SCALAR_NULL,
		[TAG_BOOL] = SCALAR_BOOL,
		[TAG_INT] = SCALAR_INTEGER,
		[TAG_FLOAT] = SCALAR_FLOAT,
	};
	JsonText	text = node->u.text;
	Scalar		scalar;

	node->resolved = true;
	if (node->tag == TAG_BINARY)
	{
		writer->reader.taken += (text.len + 8) & ~(size_t) 7;
		return base64_decode(writer->reader.arena, text, &node->u.text) ||
			fail(writer, "!!binary value contains invalid base64 data");
	}
	if (node->tag == TAG_NONE ? !node->implicit : node->tag > TAG_FLOAT)
		return true;
	scalar = scalar_resolve(writer->reader.arena, text);
	if (text.len > TEXT_SHOWN)
		text.len = TEXT_SHOWN;
	if (node->tag == TAG_FLOAT && scalar.kind == SCALAR_INTEGER)
		scalar = (Scalar) {SCALAR_FLOAT, {.number = (double) scalar.u.integer}};
	else if (node->tag != TAG_NONE && strcmp(names[scalar.kind], names[kinds[node->tag]]) != 0)
		return fail(writer, arena_printf(writer->reader.arena, "cannot decode !!%s `%.*s` as a !!%s",
										 names[scalar.kind], (int) text.len, text.bytes, names[kinds[node->tag]]));
	node->is_value = scalar.kind != SCALAR_STRING;
	if (node->is_value)
		node->u.value = scalar;
	return true;
}

/*
 * Resolves a scalar; *text is the text of a string.  The result is kept in the node, because aliases may need it again.
 */
static bool
resolve(Writer *writer, YamlNode *node, Scalar *scalar, JsonText *text)
{
	if (!node->resolved && !resolve_anew(writer, node))
		return false;
	*scalar = node->is_value ? node->u.value : (Scalar) {SCALAR_STRING, {0}};
	*text = node->is_value ? (JsonText) {"", 0} : node->u.text;
	return true;
}

/* Writes a scalar that is not a string as JSON; 0 for a number that JSON does not have. */
static void
put_scalar_value(StrBuf *buf, const Scalar *scalar)
{
	JsonNode	number = {.kind = JSON_KIND_NUMBER};

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
write_scalar(Writer *writer, YamlNode *node)
{
	Scalar		scalar;
	JsonText	text;

	if (!resolve(writer, node, &scalar, &text))
		return false;
	if (scalar.kind == SCALAR_STRING)
		json_write_string(writer->json, text.bytes, text.len);
	else
		put_scalar_value(writer->json, &scalar);
	if (scalar.kind == SCALAR_FLOAT && !isfinite(scalar.u.number) && writer->number_error == NULL)
		writer->number_error = isnan(scalar.u.number) ? "json: unsupported value: NaN" :
			scalar.u.number > 0 ? "json: unsupported value: +Inf" : "json: unsupported value: -Inf";
	return true;
}

/* --- Keys --- */

/* Formats as Go's FormatFloat(value, 'g', -1, 32) does; digits has 32 bytes. */
static void
format_float(YamlReader *reader, double value, char *digits)
{
	StrBuf		number;

	if (!isfinite(value) || !isfinite((float) value))
	{
		snprintf(digits, 32, "%s", isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf");
		return;
	}
	strbuf_init(&number, reader->arena);
	go_float32_text(&number, value);
	reader->taken += number.capacity;
	snprintf(digits, 32, "%s", number.bytes);
}

static void
quote_start(StrBuf *buf, JsonText text)
{
	quote_text(buf, text.bytes, text.len < TEXT_SHOWN ? text.len : TEXT_SHOWN);
}

/* Writes a value as Go's %#v does; aliases are shown as "...". */
static void
show_value(Writer *writer, YamlNode *node, StrBuf *shown)
{
	Scalar		scalar;
	JsonText	text;
	bool		mapping = node->kind == NODE_MAPPING;
	bool		value = false;	/* the next child is a value, not a key */

	if (shown->len > TEXT_SHOWN || node->kind == NODE_ALIAS)
		strbuf_puts(shown, "...");
	else if (node->kind == NODE_SCALAR)
	{
		if (!resolve(writer, node, &scalar, &text) || scalar.kind == SCALAR_NULL)
			strbuf_puts(shown, "interface {}(nil)");
		else if (scalar.kind == SCALAR_STRING)
			quote_start(shown, text);
		else
			put_scalar_value(shown, &scalar);
	}
	else
	{
		strbuf_puts(shown, mapping ? "map[interface {}]interface {}{" : "[]interface {}{");
		for (YamlNode *child = node->u.children.first; child != NULL; child = child->next)
		{
			if (shown->len > TEXT_SHOWN * 2)
				break;
			if (child != node->u.children.first)
				strbuf_puts(shown, value ? ":" : ", ");
			show_value(writer, child, shown);
			value = mapping && !value;
		}
		strbuf_putc(shown, '}');
	}
}

/* Returns the innermost mapping or sequence in the place of a key. */
static YamlNode *
find_bad_key(YamlNode *node)
{
	YamlNode   *key = node->kind == NODE_MAPPING ? node->u.children.first : NULL;

	while (key != NULL && (key->kind == NODE_SCALAR || key->kind == NODE_ALIAS))
		key = key->next->next;
	return key != NULL ? find_bad_key(key) : node;
}

/* Refuses a key that is valid in Go's maps but not in JSON objects. */
static void
refuse_key(Writer *writer, const MappingEntry *entry, const char *type)
{
	StrBuf		value;

	if (writer->key_error != NULL)
		return;
	strbuf_init(&value, writer->reader.arena);
	show_value(writer, entry->node->next, &value);
	writer->key_error = arena_printf(writer->reader.arena, "unsupported map key of type: %s, key: %s, value: %s",
									 type, entry->key.bytes,
									 strcmp(value.bytes, "interface {}(nil)") == 0 ? "<nil>" : value.bytes);
	writer->reader.taken += value.len + strlen(writer->key_error) + 512;
}

/* Reads the key as its JSON text.  Error messages show a key that is not a string in the same form. */
static bool
read_key(Writer *writer, MappingEntry *entry)
{
	YamlNode   *node = entry->node;
	Scalar		scalar;
	char		text[32];

	while (node->kind == NODE_ALIAS)
		node = node->u.alias.target;
	if (node->kind != NODE_SCALAR)
	{
		StrBuf		shown;

		strbuf_init(&shown, writer->reader.arena);
		strbuf_puts(&shown, "invalid map key: ");
		show_value(writer, find_bad_key(node), &shown);
		return fail(writer, shown.bytes);
	}
	if (!resolve(writer, node, &scalar, &entry->key))
		return false;
	entry->kind = (uint8_t) scalar.kind;
	switch (scalar.kind)
	{
		case SCALAR_STRING:
			writer->key_bytes += entry->key.len;
			return true;
		case SCALAR_BOOL:
			snprintf(text, sizeof(text), "%s", scalar.u.boolean ? "true" : "false");
			break;
		case SCALAR_INTEGER:
			snprintf(text, sizeof(text), "%lld", (long long) scalar.u.integer);
			break;
		case SCALAR_UNSIGNED:
			snprintf(text, sizeof(text), "0x%llx", (unsigned long long) scalar.u.large);
			break;
		case SCALAR_FLOAT:
			format_float(&writer->reader, scalar.u.number, text);
			break;
		case SCALAR_NULL:
			strcpy(text, "<nil>");
			break;
	}
	entry->key.len = strlen(text);
	entry->key.bytes = yaml_take_text(&writer->reader, text, entry->key.len);
	if (scalar.kind == SCALAR_NULL)
		refuse_key(writer, entry, "%!s(<nil>)");
	else if (scalar.kind == SCALAR_UNSIGNED)
		refuse_key(writer, entry, "uint64");
	return true;
}

/* --- The entries of a mapping --- */

/* Counts one decoded node.  As in upstream, every key, value, alias and target of an alias counts. */
static bool
count_decode(Writer *writer)
{
	static const char excessive[] = "document contains excessive aliasing";
	size_t		written = writer->json->len - writer->start;
	double		most = 0.99;

	writer->decodes++;
	if (writer->alias_depth > 0)
		writer->alias_decodes++;
	if (writer->decodes >= RATIO_HIGH)
		most = 0.10;
	else if (writer->decodes > RATIO_LOW)
		most = 0.99 - 0.89 * ((double) (writer->decodes - RATIO_LOW) / (RATIO_HIGH - RATIO_LOW));
	if (writer->alias_decodes > ALIASES_FREE && writer->decodes > DECODES_FREE &&
		(double) writer->alias_decodes / (double) writer->decodes > most)
		return fail(writer, excessive);
	if (writer->alias_decodes > ALIASED_FLOOR + writer->reader.len * ALIASED_PER_BYTE)
		return fail(writer, excessive);
	if (written + writer->dropped > writer->limit || writer->key_bytes > writer->limit)
		return fail(writer, writer->alias_decodes > 0 ? excessive : "document is too large as JSON");
	return yaml_within_memory(&writer->reader);
}

static bool
is_merge(const YamlNode *node)
{
	return node->kind == NODE_SCALAR && !node->is_value && json_text_is(node->u.text, "<<") &&
		(node->implicit || node->tag == TAG_MERGE);
}

static MappingEntry *
push_entry(Writer *writer)
{
	MappingEntry *entry;

	if (writer->entry_count == writer->entry_capacity)
	{
		size_t		more = writer->entry_capacity / 2 + 64;

		writer->entry_capacity += more;
		writer->reader.taken += more * sizeof(MappingEntry);
		writer->entries = realloc(writer->entries, writer->entry_capacity * sizeof(MappingEntry));
		if (writer->entries == NULL)
			abort();
	}
	entry = &writer->entries[writer->entry_count++];
	memset(entry, 0, sizeof(*entry));
	return entry;
}

static bool collect_entries(Writer *writer, YamlNode *node, const Via *via, int depth);

static bool
merge_alias(Writer *writer, YamlNode *node, const Via *via, int depth)
{
	Via		   *inner;
	bool		merged;

	if (node->open)
		return fail(writer, arena_printf(writer->reader.arena, "anchor '%s' value contains itself",
										 node->u.alias.name));
	inner = yaml_take(&writer->reader, sizeof(Via));
	*inner = (Via) {node, via, via != NULL ? via->depth + 1 : 0};
	node->open = true;
	writer->alias_depth++;
	merged = count_decode(writer) && collect_entries(writer, node->u.alias.target, inner, depth + 1);
	writer->alias_depth--;
	node->open = false;
	return merged;
}

/*
 * Adds the entries of a merge key's value: a mapping, an alias of a mapping, or a list of these.  The first one in the
 * list takes precedence.
 */
static bool
merge_entries(Writer *writer, YamlNode *node, const Via *via, int depth)
{
	static const char wanted[] = "map merge requires map or sequence of maps as the value";
	YamlNode  **parts;
	size_t		count = 0;

	if (depth >= JSON_MAX_DEPTH)
		return fail(writer, "document contains excessive aliasing");
	if (node->kind == NODE_MAPPING)
		return count_decode(writer) && collect_entries(writer, node, via, depth + 1);
	if (node->kind == NODE_ALIAS)
	{
		if (node->u.alias.target->kind != NODE_MAPPING)
			return fail(writer, wanted);
		return count_decode(writer) && merge_alias(writer, node, via, depth);
	}
	if (node->kind != NODE_SEQUENCE)
		return fail(writer, wanted);
	parts = yaml_take(&writer->reader, (node->u.children.count + 1) * sizeof(YamlNode *));
	for (YamlNode *part = node->u.children.first; part != NULL; part = part->next)
		parts[count++] = part;
	while (count-- > 0)
	{
		if (parts[count]->kind == NODE_SEQUENCE)
			return fail(writer, wanted);
		if (!merge_entries(writer, parts[count], via, depth + 1))
			return false;
	}
	return true;
}

/* Pushes the entries of a mapping in order, with merged ones. */
static bool
collect_entries(Writer *writer, YamlNode *node, const Via *via, int depth)
{
	for (YamlNode *key = node->u.children.first; key != NULL; key = key->next->next)
	{
		MappingEntry *entry;

		if (is_merge(key))
		{
			if (!merge_entries(writer, key->next, via, depth))
				return false;
			continue;
		}
		if (!count_decode(writer))
			return false;
		if (key->kind == NODE_ALIAS)
		{
			writer->alias_depth++;
			if (!count_decode(writer))
				return false;
			writer->alias_depth--;
		}
		entry = push_entry(writer);
		entry->node = key;
		entry->via = via;
		if (!read_key(writer, entry))
			return false;
	}
	return true;
}

/* Marks keys that occur more than once.  1 and "1" are two keys in YAML and one in JSON. */
static void
mark_repeated(Writer *writer, size_t base)
{
	MappingEntry *entries;
	size_t		count = writer->entry_count - base;
	uint32_t	few[64] = {0};
	uint32_t   *places = few;	/* place of the last entry of each key, counted from 1 */
	size_t		size = sizeof(few) / sizeof(few[0]);

	if (count < 2)
		return;
	entries = writer->entries + base;
	while (size < count * 2)
		size *= 2;
	if (size > sizeof(few) / sizeof(few[0]))
		places = calloc(size, sizeof(*places));
	if (places == NULL)
		abort();
	for (size_t i = 0; i < count; i++)
	{
		MappingEntry *entry = &entries[i];
		size_t		place = yaml_hash(&writer->reader, entry->key.bytes, entry->key.len) & (size - 1);

		while (places[place] != 0 && json_text_compare(entries[places[place] - 1].key, entry->key) != 0)
			place = (place + 1) & (size - 1);
		if (places[place] != 0)
		{
			MappingEntry *earlier = &entries[places[place] - 1];

			earlier->overridden = true;
			entry->repeated = (earlier->kinds & 1 << entry->kind) != 0;
			entry->kinds = earlier->kinds;
		}
		entry->kinds |= (uint8_t) (1 << entry->kind);
		places[place] = (uint32_t) i + 1;
	}
	if (places != few)
		free(places);
}

static void
complain(Writer *writer, const MappingEntry *entry)
{
	Arena	   *arena = writer->reader.arena;
	const char *text;
	StrBuf		shown;

	if (writer->duplicates == NULL || writer->duplicates->u.array.count >= DUPLICATES_MAX)
		return;
	strbuf_init(&shown, arena);
	if (entry->kind == SCALAR_STRING)
		quote_start(&shown, entry->key);
	else
		strbuf_append(&shown, entry->key.bytes, entry->key.len);
	text = arena_printf(arena, "line %u: key %s already set in map", (unsigned) entry->node->next->line, shown.bytes);
	json_append(arena, writer->duplicates, json_new_cstring(arena, text));
}

/* --- Nodes to JSON --- */

static bool write_node(Writer *writer, YamlNode *node, int depth);

static void
set_open(Writer *writer, const Via *via, bool open)
{
	via->alias->open = open;
	writer->alias_depth += open ? 1 : -1;
}

/*
 * A merged value counts as inside the aliases that lead to it.  Closes the aliases of the previous value and opens the
 * aliases of the next value.
 */
static void
change_aliases(Writer *writer, const Via *from, const Via *to)
{
	const Via  *common = from;
	const Via  *other = to;

	while (common != other)
	{
		if (other == NULL || (common != NULL && common->depth >= other->depth))
			common = common->outer;
		else
			other = other->outer;
	}
	for (; from != common; from = from->outer)
		set_open(writer, from, false);
	for (; to != common; to = to->outer)
		set_open(writer, to, true);
}

static bool
write_mapping(Writer *writer, YamlNode *node, int depth)
{
	StrBuf	   *json = writer->json;
	size_t		base = writer->entry_count;
	const Via  *via = NULL;
	bool		first = true;

	if (!collect_entries(writer, node, NULL, depth))
		return false;
	mark_repeated(writer, base);
	strbuf_putc(json, '{');
	for (size_t i = base; i < writer->entry_count; i++)
	{
		const MappingEntry entry = writer->entries[i];
		const char *key_error = writer->key_error;
		const char *number_error = writer->number_error;
		size_t		before = json->len;

		if (!first)
			strbuf_putc(json, ',');
		json_write_string(json, entry.key.bytes, entry.key.len);
		strbuf_putc(json, ':');
		change_aliases(writer, via, entry.via);
		via = entry.via;
		if (!write_node(writer, entry.node->next, depth + 1))
			return false;
		if (entry.overridden)
		{
			writer->dropped += json->len - before;
			json->len = before;
			writer->key_error = key_error;
			writer->number_error = number_error;
		}
		else
			first = false;
		if (entry.repeated)
			complain(writer, &entry);
	}
	change_aliases(writer, via, NULL);
	writer->entry_count = base;
	strbuf_putc(json, '}');
	return true;
}

static bool
write_sequence(Writer *writer, YamlNode *node, int depth)
{
	strbuf_putc(writer->json, '[');
	for (YamlNode *item = node->u.children.first; item != NULL; item = item->next)
	{
		if (item != node->u.children.first)
			strbuf_putc(writer->json, ',');
		if (!write_node(writer, item, depth + 1))
			return false;
	}
	strbuf_putc(writer->json, ']');
	return true;
}

static bool
write_alias(Writer *writer, YamlNode *node, int depth)
{
	bool		written;

	if (node->open)
		return fail(writer, arena_printf(writer->reader.arena, "anchor '%s' value contains itself",
										 node->u.alias.name));
	node->open = true;
	writer->alias_depth++;
	written = write_node(writer, node->u.alias.target, depth);
	writer->alias_depth--;
	node->open = false;
	return written;
}

static bool
write_node(Writer *writer, YamlNode *node, int depth)
{
	if (depth > JSON_MAX_DEPTH)
		return fail(writer, arena_printf(writer->reader.arena, "exceeded max depth of %d", JSON_MAX_DEPTH));
	if (!count_decode(writer))
		return false;
	switch ((NodeKind) node->kind)
	{
		case NODE_SCALAR:
			return write_scalar(writer, node);
		case NODE_SEQUENCE:
			return write_sequence(writer, node, depth);
		case NODE_MAPPING:
			return write_mapping(writer, node, depth);
		case NODE_ALIAS:
			return write_alias(writer, node, depth);
	}
	return false;
}

bool
yaml_to_json(Arena *arena, const char *text, size_t len, size_t limit, StrBuf *json, JsonNode *duplicates,
			 const char **error)
{
	Writer		writer = {
		.reader = {.arena = arena, .len = len, .most = YAML_BYTES_FLOOR + len * YAML_BYTES_PER_BYTE},
		.json = json,
		.start = json->len,
		.limit = limit < JSON_FLOOR + len * JSON_PER_BYTE ? limit : JSON_FLOOR + len * JSON_PER_BYTE,
		.duplicates = duplicates,
	};
	const char *failure;
	YamlNode   *root;

	arc4random_buf(&writer.reader.seed, sizeof(writer.reader.seed));
	if (yaml_parse(&writer.reader, text, &root))
	{
		if (root == NULL)
			strbuf_puts(json, "null");
		else
			write_node(&writer, root, 0);
	}
	free(writer.entries);
	failure = writer.reader.error;
	if (failure == NULL)
		failure = writer.key_error != NULL ? writer.key_error : writer.number_error;
	if (failure != NULL && strlen(failure) > ERROR_SHOWN)
		failure = arena_printf(arena, "%.*s ...", ERROR_SHOWN, failure);
	*error = failure;
	return failure == NULL;
}
