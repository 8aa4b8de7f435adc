/*-------------------------------------------------------------------------
 *
 * yaml_parse.c
 *	  Parses YAML text into a tree, with libyaml.
 *
 * libyaml is fast for ordinary texts but has no limits for hostile ones.
 * Three of its algorithms take quadratic time in the length of the text.  This
 * file limits them:
 *
 * - libyaml compares each %TAG directive with all earlier ones, and reads all
 *   of them before the first event.  So the directives are counted whenever
 *   libyaml asks for more text.
 * - For each token, libyaml looks at all open flow collections.  So each token
 *   counts as often as it is nested.
 * - libyaml writes the prefix of the directive into the tag of each node.  So
 *   the length of tags is limited.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/yaml_tree.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#define TAG_PREFIX "tag:yaml.org,2002:"

#define TAG_DIRECTIVES 64
#define TAG_LENGTH 1024

/* libyaml gets this many bytes at a time.  It reads them all before the directives are counted again. */
#define FEED_BYTES 1024

/* Limit for the sum, over all events, of the flow collections around the event.  One unit takes 3 to 6 ns. */
#define FLOW_PER_BYTE 16
#define FLOW_FLOOR ((uint64_t) 4 * 1024 * 1024)

/* Number of hash chains for anchors: one per this many bytes of text. */
#define BYTES_PER_CHAIN 32
#define CHAINS_LEAST ((size_t) 64)

typedef struct Anchor
{
	const char *name;
	YamlNode   *node;
	struct Anchor *next;		/* the next older anchor in the chain */
} Anchor;

typedef struct Source
{
	YamlReader *reader;
	const char *text;
	size_t		fed;			/* bytes of the text that libyaml has read */
	yaml_parser_t parser;
	yaml_event_t event;			/* the present event */
	Anchor	  **anchors;		/* NULL before the first anchor */
	size_t		chains;			/* a power of two */
	int			flow_depth;
	uint64_t	flow_work;
} Source;

/* --- Events --- */

/* Sets the error in upstream's words, with upstream's line numbers. */
static bool
parser_failed(Source *source)
{
	const		yaml_parser_t *parser = &source->parser;
	const char *problem = parser->problem != NULL ? parser->problem : "unknown problem parsing YAML content";
	size_t		line = parser->problem_mark.line;

	if (line == 0)
		line = parser->context_mark.line;
	else if (parser->error == YAML_SCANNER_ERROR)
		line++;
	if (line == 0)
		return yaml_fail(source->reader, problem);
	return yaml_fail(source->reader, arena_printf(source->reader->arena, "line %zu: %s", line, problem));
}

/*
 * The read handler of libyaml.  It looks at libyaml's list of directives, a member of the parser struct in the public
 * header.
 */
static int
feed(void *state, unsigned char *buffer, size_t size, size_t *size_read)
{
	Source	   *source = state;
	const		yaml_parser_t *parser = &source->parser;
	size_t		left = source->reader->len - source->fed;

	if (parser->tag_directives.top - parser->tag_directives.start > TAG_DIRECTIVES)
		return yaml_fail(source->reader, "document contains too many %TAG directives");
	if (size > FEED_BYTES)
		size = FEED_BYTES;
	if (size > left)
		size = left;
	if (size > 0)
		memcpy(buffer, source->text + source->fed, size);
	source->fed += size;
	*size_read = size;
	return 1;
}

static bool
next_event(Source *source)
{
	YamlReader *reader = source->reader;

	yaml_event_delete(&source->event);
	memset(&source->event, 0, sizeof(source->event));
	if (yaml_parser_parse(&source->parser, &source->event) == 0)
		return reader->error == NULL ? parser_failed(source) : false;
	source->flow_work += (unsigned) source->flow_depth;
	if (source->flow_work > FLOW_FLOOR + (uint64_t) reader->len * FLOW_PER_BYTE)
		return yaml_fail(reader, "document contains excessive nesting");
	return yaml_within_memory(reader);
}

/* --- Anchors --- */

static Anchor **
chain_of(const Source *source, const char *name)
{
	return &source->anchors[yaml_hash(source->reader, name, strlen(name)) & (source->chains - 1)];
}

static Anchor *
find_anchor(const Source *source, const char *name)
{
	Anchor	   *anchor = source->anchors != NULL ? *chain_of(source, name) : NULL;

	while (anchor != NULL && strcmp(anchor->name, name) != 0)
		anchor = anchor->next;
	return anchor;
}

/* Sets the node of an anchor.  It replaces an earlier node of the same name, so that a chain has each name once. */
static void
set_anchor(Source *source, const yaml_char_t * name, YamlNode *node)
{
	YamlReader *reader = source->reader;
	Anchor	   *anchor;
	Anchor	  **chain;

	if (name == NULL)
		return;
	if (source->anchors == NULL)
	{
		source->chains = CHAINS_LEAST;
		while (source->chains < reader->len / BYTES_PER_CHAIN)
			source->chains *= 2;
		source->anchors = yaml_take(reader, source->chains * sizeof(Anchor *));
		memset(source->anchors, 0, source->chains * sizeof(Anchor *));
	}
	anchor = find_anchor(source, (const char *) name);
	if (anchor == NULL)
	{
		anchor = yaml_take(reader, sizeof(Anchor));
		anchor->name = yaml_take_text(reader, (const char *) name, strlen((const char *) name));
		chain = chain_of(source, anchor->name);
		anchor->next = *chain;
		*chain = anchor;
	}
	anchor->node = node;
}

/* --- Nodes --- */

static bool
read_tag(Source *source, const yaml_char_t * tag, YamlNode *node)
{
	static const struct
	{
		const char *name;
		NodeTag		tag;
	}			names[] =
	{
		{"null", TAG_NULL}, {"bool", TAG_BOOL}, {"int", TAG_INT}, {"float", TAG_FLOAT}, {"binary", TAG_BINARY},
		{"merge", TAG_MERGE},
	};
	static const size_t prefix = sizeof(TAG_PREFIX) - 1;
	const char *text = (const char *) tag;

	node->tag = TAG_NONE;
	if (text == NULL || text[0] == '\0')
		return true;
	if (strlen(text) > TAG_LENGTH)
		return yaml_fail(source->reader, "document contains a tag that is too long");
	node->tag = TAG_OTHER;
	if (strncmp(text, TAG_PREFIX, prefix) != 0)
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text + prefix, names[i].name) == 0)
			node->tag = (uint8_t) names[i].tag;
	return true;
}

static YamlNode *build_node(Source *source, int depth);

/* Builds the children, up to the event that ends them. */
static bool
build_children(Source *source, YamlNode *node, bool flow, yaml_event_type_t end, int depth)
{
	YamlNode  **link = &node->u.children.first;

	if (depth >= JSON_MAX_DEPTH)
		return yaml_fail(source->reader,
						 arena_printf(source->reader->arena, "exceeded max depth of %d", JSON_MAX_DEPTH));
	source->flow_depth += flow;
	if (!next_event(source))
		return false;
	while (source->event.type != end)
	{
		YamlNode   *child = build_node(source, depth + 1);

		if (child == NULL || !next_event(source))
			return false;
		*link = child;
		link = &child->next;
		node->u.children.count++;
	}
	source->flow_depth -= flow;
	return true;
}

static bool
build_alias(Source *source, YamlNode *node)
{
	const char *name = (const char *) source->event.data.alias.anchor;
	const Anchor *anchor = find_anchor(source, name);

	if (anchor == NULL)
		return yaml_fail(source->reader, arena_printf(source->reader->arena, "unknown anchor '%s' referenced", name));
	node->kind = NODE_ALIAS;
	node->u.alias.name = anchor->name;
	node->u.alias.target = anchor->node;
	return true;
}

/*
 * Builds the node that begins with the present event; NULL on failure.  Afterwards the event that ends the node is the
 * present one.
 */
static YamlNode *
build_node(Source *source, int depth)
{
	YamlNode   *node = yaml_take(source->reader, sizeof(YamlNode));
	const yaml_event_t *event = &source->event;
	bool		flow;
	bool		built = false;

	memset(node, 0, sizeof(*node));
	node->line = (uint32_t) event->start_mark.line + 1;
	switch (event->type)
	{
		case YAML_SCALAR_EVENT:
			node->kind = NODE_SCALAR;
			node->implicit = event->data.scalar.plain_implicit != 0;
			node->u.text.len = event->data.scalar.length;
			node->u.text.bytes = yaml_take_text(source->reader, (const char *) event->data.scalar.value,
												node->u.text.len);
			built = read_tag(source, event->data.scalar.tag, node);
			set_anchor(source, event->data.scalar.anchor, node);
			break;
		case YAML_SEQUENCE_START_EVENT:
			node->kind = NODE_SEQUENCE;
			flow = event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
			set_anchor(source, event->data.sequence_start.anchor, node);
			built = read_tag(source, event->data.sequence_start.tag, node) &&
				build_children(source, node, flow, YAML_SEQUENCE_END_EVENT, depth);
			break;
		case YAML_MAPPING_START_EVENT:
			node->kind = NODE_MAPPING;
			flow = event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
			set_anchor(source, event->data.mapping_start.anchor, node);
			built = read_tag(source, event->data.mapping_start.tag, node) &&
				build_children(source, node, flow, YAML_MAPPING_END_EVENT, depth);
			break;
		case YAML_ALIAS_EVENT:
			built = build_alias(source, node);
			break;
		default:
			yaml_fail(source->reader, "unknown problem parsing YAML content");
			break;
	}
	return built ? node : NULL;
}

static bool
build_document(Source *source, YamlNode **root)
{
	*root = NULL;
	/* The start of the stream and the start of the document. */
	for (int i = 0; i < 2; i++)
		if (!next_event(source))
			return false;
	if (source->event.type == YAML_STREAM_END_EVENT)
		return true;
	if (!next_event(source))
		return false;
	*root = build_node(source, 0);
	return *root != NULL && next_event(source);
}

bool
yaml_parse(YamlReader *reader, const char *text, YamlNode **root)
{
	Source		source = {.reader = reader, .text = text};
	bool		built;

	if (yaml_parser_initialize(&source.parser) == 0)
		abort();
	yaml_parser_set_input(&source.parser, feed, &source);
	built = build_document(&source, root);
	yaml_event_delete(&source.event);
	yaml_parser_delete(&source.parser);
	return built;
}

/* --- The cost of reading --- */

bool
yaml_fail(YamlReader *reader, const char *words)
{
	if (reader->error == NULL)
		reader->error = arena_printf(reader->arena, "yaml: %s", words);
	return false;
}

void *
yaml_take(YamlReader *reader, size_t size)
{
	reader->taken += (size + 7) & ~(size_t) 7;
	return arena_alloc(reader->arena, size);
}

char *
yaml_take_text(YamlReader *reader, const char *bytes, size_t len)
{
	static char empty[] = "";

	if (len == 0)
		return empty;
	reader->taken += (len + 8) & ~(size_t) 7;
	return arena_strndup(reader->arena, bytes, len);
}

bool
yaml_within_memory(YamlReader *reader)
{
	return reader->taken <= reader->most || yaml_fail(reader, "document contains too many values for its size");
}

uint64_t
yaml_hash(const YamlReader *reader, const char *bytes, size_t len)
{
	uint64_t	hash = reader->seed ^ len;

	for (size_t i = 0; i < len; i++)
	{
		hash = (hash ^ (unsigned char) bytes[i]) * 0x9E3779B97F4A7C15u;
		hash ^= hash >> 32;
	}
	return (hash * 0x9E3779B97F4A7C15u) >> 24;
}
