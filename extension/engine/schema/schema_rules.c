/*-------------------------------------------------------------------------
 *
 * schema_rules.c
 *	  Lists the CEL rules of schemas (x-kubernetes-validations).
 *
 * The rules are not evaluated.  A type with rules is served, documents that
 * violate the rules are stored, and every write returns a warning that lists
 * the rules.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/utf8.h"
#include "engine/schema/schema.h"

#include <string.h>

/* Maximum number of bytes that a warning shows of one rule, and of all rules of a type. */
#define RULE_SHOWN 200
#define RULES_SHOWN 1000

/* A path in the documents of a type, linked from the leaf to the root. */
typedef struct RulePath
{
	const struct RulePath *parent;
	JsonText	key;			/* "*": any member; not used for an element */
	bool		element;
} RulePath;

/* Writes a text of several lines as one line, because a warning is one line. */
static void
put_line(StrBuf *buf, JsonText text)
{
	bool		space = false;

	for (size_t i = 0; i < text.len; i++)
	{
		if ((unsigned char) text.bytes[i] <= ' ' || text.bytes[i] == 0x7F)
		{
			space = true;
			continue;
		}
		if (space && i > 0)
			strbuf_putc(buf, ' ');
		space = false;
		strbuf_putc(buf, text.bytes[i]);
	}
}

static void
put_path(StrBuf *buf, const RulePath *path)
{
	if (path->parent == NULL)
		return;
	put_path(buf, path->parent);
	if (path->element)
		strbuf_puts(buf, "[*]");
	else
	{
		if (path->parent->parent != NULL)
			strbuf_putc(buf, '.');
		put_line(buf, path->key);
	}
}

static void
collect(Arena *arena, const JsonNode *schema, const RulePath *path, JsonNode *rules)
{
	static const char *const nested[] = {"items", "additionalProperties"};
	const JsonNode *list = json_get(schema, "x-kubernetes-validations");
	const JsonNode *properties = json_get(schema, "properties");

	arena_checkpoint();
	for (size_t i = 0; list != NULL && list->kind == JSON_KIND_ARRAY && i < list->u.array.count; i++)
	{
		const JsonNode *rule = json_get(list->u.array.items[i], "rule");
		StrBuf		line;

		if (rule == NULL || rule->kind != JSON_KIND_STRING)
			continue;
		strbuf_init(&line, arena);
		put_path(&line, path);
		if (line.len > 0)
			strbuf_puts(&line, ": ");
		put_line(&line, rule->u.string);
		json_append(arena, rules, json_new_string(arena, line.bytes, line.len));
	}
	for (size_t i = 0; properties != NULL && properties->kind == JSON_KIND_OBJECT &&
		 i < properties->u.object.count; i++)
	{
		RulePath	at = {path, properties->u.object.members[i].key, false};

		collect(arena, properties->u.object.members[i].value, &at, rules);
	}
	for (size_t i = 0; i < sizeof(nested) / sizeof(nested[0]); i++)
	{
		const JsonNode *below = json_get(schema, nested[i]);
		RulePath	at = {path, {"*", 1}, i == 0};

		if (below != NULL && below->kind == JSON_KIND_OBJECT)
			collect(arena, below, &at, rules);
	}
}

JsonNode *
schema_rules(Arena *arena, const JsonNode *schema)
{
	JsonNode   *rules = json_new_array(arena);
	RulePath	root = {NULL, {NULL, 0}, false};

	collect(arena, schema, &root, rules);
	return rules;
}

const char *
schema_rules_warning(Arena *arena, const JsonNode *rules)
{
	StrBuf		buf;
	size_t		count = rules != NULL ? rules->u.array.count : 0;

	if (count == 0)
		return NULL;
	strbuf_init(&buf, arena);
	strbuf_puts(&buf, "x-kubernetes-validations are not evaluated: ");
	for (size_t i = 0; i < count; i++)
	{
		JsonText	rule = rules->u.array.items[i]->u.string;
		size_t		shown = utf8_cut(rule.bytes, rule.len, RULE_SHOWN);

		if (buf.len + shown > RULES_SHOWN)
		{
			strbuf_printf(&buf, " and %zu more", count - i);
			break;
		}
		strbuf_puts(&buf, i > 0 ? "; " : "");
		strbuf_append(&buf, rule.bytes, shown);
		strbuf_puts(&buf, shown < rule.len ? "..." : "");
	}
	return buf.bytes;
}
