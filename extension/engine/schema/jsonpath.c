/*-------------------------------------------------------------------------
 *
 * jsonpath.c
 *	  The JSONPath dialect of printer columns: compile, evaluate.
 *
 * The dialect is the one of client-go's util/jsonpath with all its quirks,
 * because CustomResourceDefinitions are written for it: a backslash escapes a
 * dot in a name, ['a.b'] is the same as .a.b, [] is [0], @, $ and blanks
 * between steps are ignored, and a comparison of values of different types
 * makes the whole path select nothing.
 *
 * Each step selects every node of the document at most once.  Therefore an
 * evaluation holds, for each step, at most as many nodes as the document has.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/schema/jsonpath.h"

#include <stdlib.h>
#include <string.h>

typedef struct PathParser
{
	Arena	   *arena;
	size_t		steps;
	const char *error;
} PathParser;

typedef struct NodeList
{
	const JsonNode **items;
	size_t		count;
	size_t		capacity;
} NodeList;

static bool parse_steps(PathParser *parser, const char *text, size_t len, bool operand, JsonPathStep **first);
static bool evaluate(Arena *arena, const JsonPathStep *path, const JsonNode *start, NodeList *result);

JsonPathStep *
jsonpath_compile(Arena *arena, const char *text, const char **error)
{
	PathParser	parser = {.arena = arena};
	JsonPathStep *path = NULL;
	size_t		len = strlen(text);

	if (len > JSONPATH_MAX_LENGTH)
	{
		*error = "path is too long";
		return NULL;
	}
	if (!parse_steps(&parser, text, len, false, &path))
	{
		*error = parser.error;
		return NULL;
	}
	if (path == NULL)
	{
		*error = "path selects nothing";
		return NULL;
	}
	return path;
}

bool
jsonpath_within_metadata(const JsonPathStep *path)
{
	return path->kind == JSONPATH_FIELD && json_text_is(path->name, "metadata");
}

const JsonNode *
jsonpath_first(Arena *arena, const JsonPathStep *path, const JsonNode *document)
{
	const JsonNode *node = document;
	NodeList	result = {0};

	/* Nearly all columns are plain fields, which need no lists. */
	while (path != NULL && path->kind == JSONPATH_FIELD)
	{
		node = json_get_text(node, path->name);
		if (node == NULL)
			return NULL;
		path = path->next;
	}
	if (path == NULL)
		return node;
	if (!evaluate(arena, path, node, &result) || result.count == 0)
		return NULL;
	return result.items[0];
}

const JsonNode *const *
jsonpath_all(Arena *arena, const JsonPathStep *path, const JsonNode *document, size_t *count)
{
	NodeList	result = {0};

	if (!evaluate(arena, path, document, &result))
		result.count = 0;
	*count = result.count;
	return result.items;
}

/*
 * Parsing
 */

static bool
fail(PathParser *parser, const char *error)
{
	parser->error = error;
	return false;
}

static JsonPathStep *
new_step(PathParser *parser, JsonPathKind kind, JsonPathStep ***tail)
{
	JsonPathStep *step;

	if (++parser->steps > JSONPATH_MAX_STEPS)
	{
		parser->error = "path has too many steps";
		return NULL;
	}
	step = arena_alloc0(parser->arena, sizeof(JsonPathStep));
	step->kind = kind;
	**tail = step;
	*tail = &step->next;
	return step;
}

static bool
ends_name(char c)
{
	return c != '\0' && strchr(" \t\r\n.,[]$@{}", c) != NULL;
}

/* Reads a name after a dot and moves *position behind the name. */
static bool
parse_field(PathParser *parser, const char *text, size_t len, size_t *position, JsonPathStep ***tail)
{
	size_t		i = *position;
	size_t		start = i;
	size_t		count = 0;
	char	   *name;
	JsonPathStep *step;

	while (i < len && !ends_name(text[i]))
		i += text[i] == '\\' && i + 1 < len ? 2 : 1;
	*position = i;

	if (i - start == 1 && text[start] == '*')
		return new_step(parser, JSONPATH_WILDCARD, tail) != NULL;

	name = arena_alloc(parser->arena, i - start + 1);
	for (size_t j = start; j < i; j++)
	{
		if (text[j] != '\\')
			name[count++] = text[j];
	}
	step = new_step(parser, JSONPATH_FIELD, tail);
	if (step == NULL)
		return false;
	step->name = (JsonText) {name, count};
	return true;
}

/* Reads a whole decimal number of at most nine digits: no list has more elements. */
static bool
parse_index(const char *text, size_t len, int64_t *value)
{
	bool		negative = len > 0 && text[0] == '-';
	size_t		i = negative ? 1 : 0;

	*value = 0;
	if (i == len || len - i > 9)
		return false;
	for (; i < len; i++)
	{
		if (text[i] < '0' || text[i] > '9')
			return false;
		*value = *value * 10 + (text[i] - '0');
	}
	if (negative)
		*value = -*value;
	return true;
}

/* Reads start:end:step between [ and ]; each part is optional. */
static bool
parse_slice(PathParser *parser, const char *text, size_t len, JsonPathStep ***tail)
{
	const char *parts[3] = {text, NULL, NULL};
	size_t		lengths[3] = {len, 0, 0};
	int			count = 1;
	JsonPathStep *step = new_step(parser, JSONPATH_SLICE, tail);

	if (step == NULL)
		return false;
	step->step = 1;
	if (len == 1 && text[0] == '*')
		return true;

	for (size_t i = 0; i < len; i++)
	{
		if (text[i] == ',')
			return fail(parser, "unions are not supported");
		if (text[i] != ':')
			continue;
		if (count == 3)
			return fail(parser, "invalid array index");
		lengths[count - 1] = text + i - parts[count - 1];
		parts[count] = text + i + 1;
		lengths[count] = len - i - 1;
		count++;
	}

	step->has_start = lengths[0] > 0;
	if (step->has_start && !parse_index(parts[0], lengths[0], &step->start))
		return fail(parser, "invalid array index");
	if (count == 1)
	{
		step->has_end = step->end_derived = true;
		step->end = step->start + 1;
		return true;
	}
	step->has_end = lengths[1] > 0;
	if (step->has_end && !parse_index(parts[1], lengths[1], &step->end))
		return fail(parser, "invalid array index");
	if (lengths[2] > 0 && (!parse_index(parts[2], lengths[2], &step->step) || step->step <= 0))
		return fail(parser, "array step must be a number greater than 0");
	return true;
}

static bool
parse_brackets(PathParser *parser, const char *text, size_t len, size_t *position, JsonPathStep ***tail)
{
	const char *start = text + *position;
	const char *end = memchr(start, ']', len - *position);
	size_t		inner;

	if (end == NULL)
		return fail(parser, "unterminated array");
	inner = end - start;
	*position = end + 1 - text;

	if (inner >= 2 && start[0] == '\'' && end[-1] == '\'' && memchr(start + 1, '\'', inner - 2) == NULL)
	{
		/* ['name'] is read as .name; a dot inside also separates names unless it is escaped. */
		JsonPathStep *steps = NULL;
		char	   *path = arena_printf(parser->arena, ".%.*s", (int) (inner - 2), start + 1);

		if (!parse_steps(parser, path, strlen(path), false, &steps))
			return false;
		**tail = steps;
		while (**tail != NULL)
			*tail = &(**tail)->next;
		return true;
	}
	return parse_slice(parser, start, inner, tail);
}

/* Reads a quoted constant and moves *position from the opening quote behind the closing quote. */
static bool
parse_quoted(PathParser *parser, const char *text, size_t len, size_t *position, JsonPathStep ***tail)
{
	static const char *const escapes = "a\ab\bf\fn\nr\rt\tv\v\\\\";
	char		quote = text[*position];
	char	   *value = arena_alloc(parser->arena, len + 1);
	size_t		count = 0;
	size_t		i = *position + 1;
	JsonPathStep *step;

	for (;; i++)
	{
		if (i >= len || text[i] == '\n')
			return fail(parser, "unterminated quoted string");
		if (text[i] == quote)
			break;
		if (text[i] == '\\')
		{
			const char *escape = escapes;

			i++;
			if (i >= len)
				return fail(parser, "unterminated quoted string");
			if (text[i] == quote)
			{
				value[count++] = quote;
				continue;
			}
			while (*escape != '\0' && *escape != text[i])
				escape += 2;
			if (*escape == '\0')
				return fail(parser, "invalid escape in quoted string");
			value[count++] = escape[1];
			continue;
		}
		value[count++] = text[i];
	}
	*position = i + 1;
	step = new_step(parser, JSONPATH_LITERAL, tail);
	if (step == NULL)
		return false;
	step->literal = json_new_string(parser->arena, value, count);
	return true;
}

/* Reads a number, true or false. */
static bool
parse_word(PathParser *parser, const char *text, size_t len, size_t *position, JsonPathStep ***tail)
{
	size_t		start = *position;
	size_t		i = start;
	char	   *word;
	char	   *end;
	bool		fraction;
	JsonPathStep *step;

	while (i < len && !ends_name(text[i]))
		i++;
	/* A dot ends a name but not a number. */
	if (i < len && text[i] == '.' && i > start && strchr("+-0123456789", text[start]) != NULL)
	{
		i++;
		while (i < len && text[i] >= '0' && text[i] <= '9')
			i++;
	}
	*position = i;
	word = arena_strndup(parser->arena, text + start, i - start);
	step = new_step(parser, JSONPATH_LITERAL, tail);
	if (step == NULL)
		return false;

	if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
	{
		step->literal = json_new_bool(parser->arena, word[0] == 't');
		return true;
	}
	if (word[0] == '\0' || word[strspn(word, "+-.0123456789")] != '\0' || strlen(word) > 32)
		return fail(parser, "unrecognized word in path");
	fraction = strchr(word, '.') != NULL || strlen(word) > 18;
	if (fraction)
		step->literal = json_new_number(parser->arena, strtod(word, &end));
	else
		step->literal = json_new_integer(parser->arena, strtoll(word, &end, 10));
	if (*end != '\0')
		return fail(parser, "cannot parse number");
	return true;
}

static bool
parse_operator(const char *text, size_t len, JsonPathOperator *operator)
{
	static const struct
	{
		const char *text;
		JsonPathOperator operator;
	}			operators[] = {
		{"==", JSONPATH_EQUAL},
		{"!=", JSONPATH_NOT_EQUAL},
		{"<", JSONPATH_LESS},
		{"<=", JSONPATH_LESS_EQUAL},
		{">", JSONPATH_GREATER},
		{">=", JSONPATH_GREATER_EQUAL},
	};

	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
	{
		if (strlen(operators[i].text) == len && memcmp(operators[i].text, text, len) == 0)
		{
			*operator = operators[i].operator;
			return true;
		}
	}
	return false;
}

static bool
parse_filter(PathParser *parser, const char *text, size_t len, size_t *position, JsonPathStep ***tail)
{
	size_t		start = *position;
	size_t		i;
	size_t		sign;
	size_t		operand;
	size_t		end;
	char		quote = '\0';
	bool		closed = false;
	JsonPathStep *step;

	/* A parenthesis ends the filter unless it is inside the (only) quoted constant. */
	for (i = start;; i++)
	{
		if (i >= len || text[i] == '\n')
			return fail(parser, "unterminated filter");
		if (text[i] == '"' || text[i] == '\'')
		{
			if (quote == '\0')
				quote = text[i];
			else if (text[i] == quote && text[i - 1] != '\\')
				closed = true;
		}
		else if (text[i] == ')' && (quote != '\0') == closed)
			break;
	}
	end = i;
	if (end + 1 >= len || text[end + 1] != ']')
		return fail(parser, "unclosed array expect ]");
	*position = end + 2;

	step = new_step(parser, JSONPATH_FILTER, tail);
	if (step == NULL)
		return false;
	for (sign = start; sign < end && strchr("!<>=", text[sign]) == NULL; sign++)
		;
	for (operand = sign; operand < end && strchr("!<>=", text[operand]) != NULL; operand++)
		;
	if (sign == end)
		step->operator = JSONPATH_EXISTS;
	else if (sign == start || operand == end || !parse_operator(text + sign, operand - sign, &step->operator))
		return fail(parser, "unrecognized filter operator");

	if (!parse_steps(parser, text + start, sign - start, true, &step->left))
		return false;
	return sign == end || parse_steps(parser, text + operand, end - operand, true, &step->right);
}

/* operand: the text is one side of a filter, which may be a constant. */
static bool
parse_steps(PathParser *parser, const char *text, size_t len, bool operand, JsonPathStep **first)
{
	JsonPathStep **tail = first;
	size_t		i = 0;

	arena_checkpoint();
	while (i < len)
	{
		char		c = text[i];
		bool		good;

		if (c == ' ' || c == '@' || c == '$')
		{
			i++;
			continue;
		}
		if (len - i >= 3 && memcmp(text + i, "[?(", 3) == 0)
		{
			i += 3;
			good = parse_filter(parser, text, len, &i, &tail);
		}
		else if (len - i >= 2 && memcmp(text + i, "..", 2) == 0)
			good = fail(parser, "recursive descent is not supported");
		else if (c == '.')
		{
			i++;
			good = parse_field(parser, text, len, &i, &tail);
		}
		else if (c == '[')
		{
			i++;
			good = parse_brackets(parser, text, len, &i, &tail);
		}
		else if (operand && *first == NULL && (c == '"' || c == '\''))
			good = parse_quoted(parser, text, len, &i, &tail);
		else if (operand && *first == NULL && !ends_name(c))
			good = parse_word(parser, text, len, &i, &tail);
		else
			good = fail(parser, "unrecognized character in path");
		if (!good)
			return false;
	}
	return true;
}

/*
 * Evaluation
 */

static void
add_node(Arena *arena, NodeList *list, const JsonNode *node)
{
	list->items = arena_grow(arena, list->items, list->count, sizeof(JsonNode *), &list->capacity);
	list->items[list->count++] = node;
}

/* False when the value is no array or an index is out of bounds; then the whole path fails. */
static bool
evaluate_slice(Arena *arena, const JsonPathStep *step, const JsonNode *node, NodeList *result)
{
	int64_t		length;
	int64_t		start = step->has_start ? step->start : 0;
	int64_t		end;

	if (node->kind == JSON_KIND_NULL)
		return true;
	if (node->kind != JSON_KIND_ARRAY)
		return false;
	length = (int64_t) node->u.array.count;
	end = step->has_end ? step->end : length;
	if (start < 0)
		start += length;
	if (end < 0 || (end == 0 && step->end_derived))
		end += length;
	if (start == end)
		return true;
	if (start < 0 || start >= length || end < 0 || end > length || start > end)
		return false;
	for (int64_t i = start; i < end; i += step->step)
		add_node(arena, result, node->u.array.items[i]);
	return true;
}

static void
evaluate_wildcard(Arena *arena, const JsonNode *node, NodeList *result)
{
	if (node->kind == JSON_KIND_OBJECT)
	{
		for (size_t i = 0; i < node->u.object.count; i++)
			add_node(arena, result, node->u.object.members[i].value);
	}
	else if (node->kind == JSON_KIND_ARRAY)
	{
		for (size_t i = 0; i < node->u.array.count; i++)
			add_node(arena, result, node->u.array.items[i]);
	}
}

/* Sets *pass to the result.  False if the values cannot be compared: types differ, or the type has no such operator. */
static bool
compare(const JsonNode *left, const JsonNode *right, JsonPathOperator operator, bool *pass)
{
	int			order;

	if (left->kind != right->kind)
		return false;
	switch (left->kind)
	{
		case JSON_KIND_BOOL:
			if (operator != JSONPATH_EQUAL && operator != JSONPATH_NOT_EQUAL)
				return false;
			order = left->u.boolean != right->u.boolean;
			break;
		case JSON_KIND_INTEGER:
			order = (left->u.integer > right->u.integer) - (left->u.integer < right->u.integer);
			break;
		case JSON_KIND_NUMBER:
			order = (left->u.number > right->u.number) - (left->u.number < right->u.number);
			break;
		case JSON_KIND_STRING:
			order = json_text_compare(left->u.string, right->u.string);
			break;
		default:
			return false;
	}
	switch (operator)
	{
		case JSONPATH_EQUAL:
			*pass = order == 0;
			break;
		case JSONPATH_NOT_EQUAL:
			*pass = order != 0;
			break;
		case JSONPATH_LESS:
			*pass = order < 0;
			break;
		case JSONPATH_LESS_EQUAL:
			*pass = order <= 0;
			break;
		case JSONPATH_GREATER:
			*pass = order > 0;
			break;
		case JSONPATH_GREATER_EQUAL:
			*pass = order >= 0;
			break;
		case JSONPATH_EXISTS:
			return false;
	}
	return true;
}

static bool
evaluate_filter(Arena *arena, const JsonPathStep *step, const JsonNode *node, NodeList *result)
{
	if (node->kind != JSON_KIND_ARRAY)
		return false;
	for (size_t i = 0; i < node->u.array.count; i++)
	{
		const JsonNode *item = node->u.array.items[i];
		NodeList	left = {0};
		NodeList	right = {0};
		bool		pass = false;
		bool		good = evaluate(arena, step->left, item, &left);

		if (step->operator == JSONPATH_EXISTS)
		{
			if (good && left.count > 0)
				add_node(arena, result, item);
			continue;
		}
		if (!good || left.count > 1)
			return false;
		if (left.count == 0)
			continue;
		if (!evaluate(arena, step->right, item, &right) || right.count > 1)
			return false;
		if (right.count == 0)
			continue;
		if (!compare(left.items[0], right.items[0], step->operator, &pass))
			return false;
		if (pass)
			add_node(arena, result, item);
	}
	return true;
}

static bool
evaluate(Arena *arena, const JsonPathStep *path, const JsonNode *start, NodeList *result)
{
	NodeList	current = {0};

	arena_checkpoint();
	add_node(arena, &current, start);
	for (const JsonPathStep *step = path; step != NULL; step = step->next)
	{
		NodeList	next = {0};

		for (size_t i = 0; i < current.count; i++)
		{
			const JsonNode *node = current.items[i];
			const JsonNode *member;

			switch (step->kind)
			{
				case JSONPATH_FIELD:
					member = json_get_text(node, step->name);
					if (member != NULL)
						add_node(arena, &next, member);
					break;
				case JSONPATH_WILDCARD:
					evaluate_wildcard(arena, node, &next);
					break;
				case JSONPATH_SLICE:
					if (!evaluate_slice(arena, step, node, &next))
						return false;
					break;
				case JSONPATH_FILTER:
					if (!evaluate_filter(arena, step, node, &next))
						return false;
					break;
				case JSONPATH_LITERAL:
					add_node(arena, &next, step->literal);
					break;
			}
		}
		current = next;
	}
	*result = current;
	return true;
}
