/*-------------------------------------------------------------------------
 *
 * selector.c
 *	  Label selectors and field selectors.
 *
 * Both grammars and their error messages are the same as in apimachinery:
 * clients print the messages, and a selector must select the same objects here
 * as in a kube-apiserver.  A parsed selector keeps no pointer into its text.
 *
 * Reference: k8s-conformance section 10 (SEL-01 to SEL-13).
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/selector.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/ascii.h"
#include "engine/api/metadata.h"
#include "engine/base/utf8.h"

typedef enum TokenKind
{
	TOKEN_END,
	TOKEN_IDENTIFIER,
	TOKEN_IN,
	TOKEN_NOT_IN,
	TOKEN_NOT,
	TOKEN_EQUALS,				/* = and == */
	TOKEN_NOT_EQUALS,
	TOKEN_GREATER,
	TOKEN_LESS,
	TOKEN_COMMA,
	TOKEN_OPEN,
	TOKEN_CLOSE
} TokenKind;

typedef struct Token
{
	TokenKind	kind;
	JsonText	text;
} Token;

typedef struct Parser
{
	Arena	   *arena;
	const char *next;			/* behind the token */
	const char *end;
	Token		token;			/* the current token */
	const char *error;
} Parser;

/* A growing list of values. */
typedef struct ValueList
{
	JsonText   *values;
	size_t		count;
	size_t		capacity;
} ValueList;

static bool
is_symbol(char c)
{
	return c == '=' || c == '!' || c == '(' || c == ')' || c == ',' || c == '>' || c == '<';
}

static const char *
skip_nul(const char *p, const char *end)
{
	return p < end && *p == '\0' ? p + 1 : p;
}

/*
 * The token at p; *next is behind it.  As in upstream's scanner, a NUL between tokens ends the selector.  A NUL within
 * a token ends the token, and scanning continues behind the NUL.
 */
static Token
scan_token(const char *p, const char *end, const char **next)
{
	Token		token = {TOKEN_END, {"", 0}};

	while (p < end && ascii_is_space(*p))
		p++;
	*next = p;
	if (p == end || *p == '\0')
		return token;

	token.text.bytes = p;
	if (!is_symbol(*p))
	{
		token.kind = TOKEN_IDENTIFIER;
		while (p < end && *p != '\0' && !is_symbol(*p) && !ascii_is_space(*p))
			p++;
		token.text.len = (size_t) (p - token.text.bytes);
		*next = skip_nul(p, end);
		if (json_text_is(token.text, "in"))
			token.kind = TOKEN_IN;
		else if (json_text_is(token.text, "notin"))
			token.kind = TOKEN_NOT_IN;
		return token;
	}

	token.text.len = 1;
	switch (*p)
	{
		case '=':
			token.kind = TOKEN_EQUALS;
			break;
		case '!':
			token.kind = TOKEN_NOT;
			break;
		case '>':
			token.kind = TOKEN_GREATER;
			break;
		case '<':
			token.kind = TOKEN_LESS;
			break;
		case ',':
			token.kind = TOKEN_COMMA;
			break;
		case '(':
			token.kind = TOKEN_OPEN;
			break;
		default:
			token.kind = TOKEN_CLOSE;
			break;
	}
	if ((*p == '=' || *p == '!') && p + 1 < end && p[1] == '=')
	{
		token.text.len = 2;
		if (*p == '!')
			token.kind = TOKEN_NOT_EQUALS;
	}
	*next = skip_nul(p + token.text.len, end);
	return token;
}

static void
advance(Parser *parser)
{
	parser->token = scan_token(parser->next, parser->end, &parser->next);
}

/* Whether the token is a key or a value; "in" and "notin" can be keys and values, too. */
static bool
is_word(Token token)
{
	return token.kind == TOKEN_IDENTIFIER || token.kind == TOKEN_IN || token.kind == TOKEN_NOT_IN;
}

static bool
expected(Parser *parser, Token found, const char *what)
{
	parser->error = arena_printf(parser->arena, "found '%s'%s",
								 arena_strndup(parser->arena, found.text.bytes, found.text.len), what);
	return false;
}

static void
add_value(Parser *parser, ValueList *list, JsonText value)
{
	list->values = arena_grow(parser->arena, list->values, list->count, sizeof(JsonText), &list->capacity);
	arena_checkpoint_at(list->count);
	list->values[list->count++] = value;
}

/*
 * Parses the inside of "(a,,b)" up to the closing parenthesis.  A missing value is the empty value.
 */
static bool
parse_value_list(Parser *parser, ValueList *list)
{
	const JsonText empty = {"", 0};

	for (;;)
	{
		Token		token = parser->token;

		advance(parser);
		if (is_word(token))
		{
			add_value(parser, list, token.text);
			if (parser->token.kind == TOKEN_CLOSE)
				return true;
			if (parser->token.kind != TOKEN_COMMA)
				return expected(parser, parser->token, ", expected: ',' or ')'");
		}
		else if (token.kind == TOKEN_COMMA)
		{
			if (list->count == 0)
				add_value(parser, list, empty);
			if (parser->token.kind == TOKEN_CLOSE)
			{
				add_value(parser, list, empty);
				return true;
			}
			if (parser->token.kind == TOKEN_COMMA)
				add_value(parser, list, empty);
		}
		else
		{
			return expected(parser, token, ", expected: ',', or identifier");
		}
	}
}

static bool
parse_values(Parser *parser, ValueList *list)
{
	const JsonText empty = {"", 0};

	if (parser->token.kind != TOKEN_OPEN)
		return expected(parser, parser->token, " expected: '('");
	advance(parser);
	if (parser->token.kind == TOKEN_CLOSE)
		add_value(parser, list, empty);
	else if (!is_word(parser->token) && parser->token.kind != TOKEN_COMMA)
		return expected(parser, parser->token, ", expected: ',', ')' or identifier");
	else if (!parse_value_list(parser, list))
		return false;
	advance(parser);
	return true;
}

static bool
parse_exact_value(Parser *parser, ValueList *list)
{
	const JsonText empty = {"", 0};

	if (parser->token.kind == TOKEN_END || parser->token.kind == TOKEN_COMMA)
	{
		add_value(parser, list, empty);
		return true;
	}
	if (!is_word(parser->token))
		return expected(parser, parser->token, ", expected: identifier");
	add_value(parser, list, parser->token.text);
	advance(parser);
	return true;
}

static bool
parse_operator(Parser *parser, SelectorOperator *operator, bool *in_parentheses)
{
	*in_parentheses = false;
	switch (parser->token.kind)
	{
		case TOKEN_IN:
			*in_parentheses = true;
			*operator = SELECTOR_IN;
			break;
		case TOKEN_NOT_IN:
			*in_parentheses = true;
			*operator = SELECTOR_NOT_IN;
			break;
		case TOKEN_EQUALS:
			*operator = SELECTOR_IN;
			break;
		case TOKEN_NOT_EQUALS:
			*operator = SELECTOR_NOT_IN;
			break;
		case TOKEN_GREATER:
			*operator = SELECTOR_GREATER;
			break;
		case TOKEN_LESS:
			*operator = SELECTOR_LESS;
			break;
		default:
			return expected(parser, parser->token, ", expected: in, notin, =, ==, !=, gt, lt");
	}
	advance(parser);
	return true;
}

static int
compare_texts(const void *a, const void *b)
{
	return json_text_compare(*(const JsonText *) a, *(const JsonText *) b);
}

/*
 * Sorts the values and keeps each value once, as upstream does.
 */
static void
order_values(ValueList *list)
{
	size_t		kept = 0;

	qsort(list->values, list->count, sizeof(JsonText), compare_texts);
	for (size_t i = 0; i < list->count; i++)
	{
		if (kept == 0 || json_text_compare(list->values[i], list->values[kept - 1]) != 0)
			list->values[kept++] = list->values[i];
	}
	list->count = kept;
}

/* Reads a number as Go's strconv.ParseInt does. */
static bool
parse_integer(JsonText text, int64_t *value)
{
	const char *p = text.bytes;
	const char *end = p + text.len;
	bool		negative = false;
	uint64_t	limit = INT64_MAX;
	uint64_t	magnitude = 0;

	if (p < end && (*p == '+' || *p == '-'))
		negative = *p++ == '-';
	if (p == end)
		return false;
	if (negative)
		limit++;
	for (; p < end; p++)
	{
		uint64_t	digit = (uint64_t) (*p - '0');

		if (*p < '0' || *p > '9' || magnitude > (limit - digit) / 10)
			return false;
		magnitude = magnitude * 10 + digit;
	}
	*value = negative ? (int64_t) (0 - magnitude) : (int64_t) magnitude;
	return true;
}

static void
invalid_value(FieldErrorList *errors, const char *path, JsonText value, const char *why)
{
	field_error_at(errors, FIELD_INVALID, path, json_new_string(errors->arena, value.bytes, value.len), why);
}

static const char *
join_messages(Arena *arena, const char *const *messages)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	for (size_t i = 0; messages[i] != NULL; i++)
	{
		if (i > 0)
			strbuf_puts(&buf, "; ");
		strbuf_puts(&buf, messages[i]);
	}
	return buf.bytes;
}

/*
 * The text of one error, or of several in the form of Go's aggregates.  Aggregates list equal errors once; here no two
 * errors are equal, because their paths or values differ.
 */
static const char *
errors_text(Arena *arena, const FieldErrorList *errors)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	if (errors->count > 1)
		strbuf_putc(&buf, '[');
	for (size_t i = 0; i < errors->count; i++)
	{
		if (i > 0)
			strbuf_puts(&buf, ", ");
		strbuf_printf(&buf, "%s: %s", errors->errors[i].field, errors->errors[i].message);
	}
	if (errors->count > 1)
		strbuf_putc(&buf, ']');
	return buf.bytes;
}

/*
 * Upstream checks a key before it parses the operator; its message has no path.
 */
static bool
check_key(Parser *parser, JsonText key)
{
	const char *const *messages = qualified_name_errors(parser->arena, key);
	FieldErrorList errors;

	if (messages == NULL)
		return true;
	field_errors_init(&errors, parser->arena);
	invalid_value(&errors, "<nil>", key, join_messages(parser->arena, messages));
	parser->error = errors_text(parser->arena, &errors);
	return false;
}

static bool
check_values(Parser *parser, const SelectorRequirement *requirement)
{
	FieldErrorList errors;
	int64_t		number;

	field_errors_init(&errors, parser->arena);
	if (requirement->operator == SELECTOR_GREATER || requirement->operator == SELECTOR_LESS)
	{
		if (!parse_integer(requirement->values[0], &number))
			invalid_value(&errors, "values[0]", requirement->values[0],
						  "for 'Gt', 'Lt' operators, the value must be an integer");
	}
	for (size_t i = 0; i < requirement->value_count; i++)
	{
		const char *const *messages = label_value_errors(parser->arena, requirement->values[i]);

		arena_checkpoint_at(i);
		if (messages != NULL)
			invalid_value(&errors,
						  arena_printf(parser->arena, "values[%zu][%.*s]", i,
									   (int) requirement->key.len, requirement->key.bytes),
						  requirement->values[i], join_messages(parser->arena, messages));
	}
	if (errors.count == 0)
		return true;
	parser->error = errors_text(parser->arena, &errors);
	return false;
}

static bool
parse_requirement(Parser *parser, SelectorRequirement *requirement)
{
	ValueList	list = {NULL, 0, 0};
	bool		negated = parser->token.kind == TOKEN_NOT;
	bool		in_parentheses;

	if (negated)
		advance(parser);
	if (!is_word(parser->token))
		return expected(parser, parser->token, ", expected: identifier");
	requirement->key = parser->token.text;
	requirement->values = NULL;
	requirement->value_count = 0;
	if (!check_key(parser, requirement->key))
		return false;
	advance(parser);

	if (negated || parser->token.kind == TOKEN_END || parser->token.kind == TOKEN_COMMA)
	{
		requirement->operator = negated ? SELECTOR_NOT_EXISTS : SELECTOR_EXISTS;
		return true;
	}

	if (!parse_operator(parser, &requirement->operator, &in_parentheses))
		return false;
	if (!(in_parentheses ? parse_values(parser, &list) : parse_exact_value(parser, &list)))
		return false;
	order_values(&list);
	requirement->values = list.values;
	requirement->value_count = list.count;
	return check_values(parser, requirement);
}

static void
add_requirement(Arena *arena, Selector *selector, size_t *capacity, const SelectorRequirement *requirement)
{
	selector->requirements = arena_grow(arena, selector->requirements, selector->count,
										sizeof(SelectorRequirement), capacity);
	selector->requirements[selector->count++] = *requirement;
}

static bool
parse_requirements(Parser *parser, Selector *selector)
{
	SelectorRequirement requirement;
	size_t		capacity = 0;

	if (parser->token.kind == TOKEN_END)
		return true;
	if (!is_word(parser->token) && parser->token.kind != TOKEN_NOT)
		return expected(parser, parser->token, ", expected: !, identifier, or 'end of string'");

	for (;;)
	{
		arena_checkpoint();
		if (!parse_requirement(parser, &requirement))
		{
			parser->error = arena_printf(parser->arena, "unable to parse requirement: %s", parser->error);
			return false;
		}
		add_requirement(parser->arena, selector, &capacity, &requirement);

		if (parser->token.kind == TOKEN_END)
			return true;
		if (parser->token.kind != TOKEN_COMMA)
			return expected(parser, parser->token, ", expected: ',' or 'end of string'");
		advance(parser);
		if (!is_word(parser->token) && parser->token.kind != TOKEN_NOT)
			return expected(parser, parser->token, ", expected: identifier after ','");
	}
}

Selector *
selector_parse(Arena *arena, const char *text, size_t len, const char **error)
{
	Parser		parser = {.arena = arena};
	Selector   *selector = arena_alloc0(arena, sizeof(Selector));

	parser.next = arena_strndup(arena, text, len);
	parser.end = parser.next + len;
	advance(&parser);
	if (!parse_requirements(&parser, selector))
	{
		*error = parser.error;
		return NULL;
	}
	return selector;
}

static bool
has_value(const SelectorRequirement *requirement, JsonText value)
{
	return bsearch(&value, requirement->values, requirement->value_count, sizeof(JsonText), compare_texts) != NULL;
}

static bool
requirement_matches(const SelectorRequirement *requirement, bool present, JsonText value)
{
	int64_t		actual;
	int64_t		bound;

	switch (requirement->operator)
	{
		case SELECTOR_EXISTS:
			return present;
		case SELECTOR_NOT_EXISTS:
			return !present;
		case SELECTOR_IN:
			return present && has_value(requirement, value);
		case SELECTOR_NOT_IN:
			return !present || !has_value(requirement, value);
		case SELECTOR_GREATER:
		case SELECTOR_LESS:
			if (!present || !parse_integer(value, &actual) || !parse_integer(requirement->values[0], &bound))
				return false;
			return requirement->operator == SELECTOR_GREATER ? actual > bound : actual < bound;
	}
	return false;
}

bool
selector_matches(const Selector *selector, SelectorLookup lookup, void *state)
{
	for (size_t i = 0; i < selector->count; i++)
	{
		const SelectorRequirement *requirement = &selector->requirements[i];
		JsonText	value = {"", 0};
		bool		present = lookup(state, requirement->key, &value);

		if (!requirement_matches(requirement, present, value))
			return false;
	}
	return true;
}

static bool
lookup_member(void *state, JsonText key, JsonText *value)
{
	const JsonNode *member = json_get_text(state, key);

	if (member == NULL || member->kind != JSON_KIND_STRING)
		return false;
	*value = member->u.string;
	return true;
}

bool
selector_matches_labels(const Selector *selector, const JsonNode *labels)
{
	return selector_matches(selector, lookup_member, (void *) labels);
}

size_t
selector_terms(Arena *arena, const Selector *selector, JsonText **terms)
{
	size_t		count = 0;

	*terms = arena_alloc(arena, selector->count * sizeof(JsonText));
	for (size_t i = 0; i < selector->count; i++)
	{
		const SelectorRequirement *requirement = &selector->requirements[i];
		JsonText   *term = &(*terms)[count];
		StrBuf		buf;

		if (requirement->operator != SELECTOR_IN || requirement->value_count != 1)
			continue;
		strbuf_init(&buf, arena);
		strbuf_append(&buf, requirement->key.bytes, requirement->key.len);
		strbuf_putc(&buf, '=');
		strbuf_append(&buf, requirement->values[0].bytes, requirement->values[0].len);
		term->bytes = buf.bytes;
		term->len = buf.len;
		count++;
	}
	return count;
}

/*
 * Splits a selector at its commas into terms and omits empty terms.  Sorts the terms as upstream does, because the
 * order decides which error comes first.
 */
static size_t
split_terms(Arena *arena, const char *text, size_t len, JsonText **terms)
{
	ValueList	list = {NULL, 0, 0};
	Parser		parser = {.arena = arena};
	const char *end = text + len;
	const char *start = text;

	for (const char *p = text;; p++)
	{
		if (p < end && *p == '\\' && p + 1 < end)
		{
			p++;
			continue;
		}
		if (p < end && *p != ',')
			continue;
		if (p > start)
		{
			JsonText	term = {start, (size_t) (p - start)};

			add_value(&parser, &list, term);
		}
		if (p == end)
			break;
		start = p + 1;
	}
	if (list.count > 0)
		qsort(list.values, list.count, sizeof(JsonText), compare_texts);
	*terms = list.values;
	return list.count;
}

/*
 * The value of a term without its backslashes.
 */
static bool
unescape_value(Arena *arena, JsonText escaped, JsonText *value, const char **error)
{
	const char *p = escaped.bytes;
	const char *end = p + escaped.len;
	char	   *bytes = arena_alloc(arena, escaped.len);
	size_t		len = 0;

	for (; p < end; p++)
	{
		if (*p == ',' || *p == '=')
		{
			*error = arena_printf(arena, "invalid field selector: unescaped character in value: %d", *p);
			return false;
		}
		if (*p == '\\')
		{
			p++;
			if (p == end || (*p != '\\' && *p != ',' && *p != '='))
			{
				size_t		sequence = p == end ? 0 : utf8_length(p, end);

				*error = arena_printf(arena, "invalid field selector: invalid escape sequence: \\%s",
									  p < end && sequence == 0 ? REPLACEMENT_CHARACTER :
									  arena_strndup(arena, p, sequence));
				return false;
			}
		}
		bytes[len++] = *p;
	}
	value->bytes = bytes;
	value->len = len;
	return true;
}

/*
 * Splits a term at the first operator.  The field is checked only after all terms are parsed.
 */
static bool
parse_term(Arena *arena, const char *selector, JsonText text, FieldTerm *term, JsonText *field, const char **error)
{
	JsonText	value;

	for (size_t i = 0; i < text.len; i++)
	{
		size_t		left = text.len - i;
		size_t		operator_len = 0;

		term->negated = left >= 2 && memcmp(text.bytes + i, "!=", 2) == 0;
		if (term->negated || (left >= 2 && memcmp(text.bytes + i, "==", 2) == 0))
			operator_len = 2;
		else if (text.bytes[i] == '=')
			operator_len = 1;
		if (operator_len == 0)
			continue;

		field->bytes = text.bytes;
		field->len = i;
		value.bytes = text.bytes + i + operator_len;
		value.len = left - operator_len;
		return unescape_value(arena, value, &term->value, error);
	}
	*error = arena_printf(arena, "invalid selector: '%s'; can't understand '%s'", selector,
						  arena_strndup(arena, text.bytes, text.len));
	return false;
}

FieldSelector *
field_selector_parse(Arena *arena, const char *text, size_t len, const char **error)
{
	const char *copy = arena_strndup(arena, text, len);
	FieldSelector *selector = arena_alloc0(arena, sizeof(FieldSelector));
	JsonText   *terms;
	JsonText   *fields;
	size_t		count;

	count = split_terms(arena, copy, len, &terms);
	selector->terms = arena_alloc0(arena, count * sizeof(FieldTerm));
	fields = arena_alloc(arena, count * sizeof(JsonText));
	for (size_t i = 0; i < count; i++)
	{
		FieldTerm  *term = &selector->terms[selector->count];
		JsonText   *field = &fields[selector->count];

		arena_checkpoint_at(i);
		if (!parse_term(arena, copy, terms[i], term, field, error))
			return NULL;
		/* A term with an empty field and an empty value selects everything; omit it. */
		if (field->len > 0 || term->value.len > 0)
			selector->count++;
	}

	for (size_t i = 0; i < selector->count; i++)
	{
		selector->terms[i].is_namespace = json_text_is(fields[i], "metadata.namespace");
		if (!selector->terms[i].is_namespace && !json_text_is(fields[i], "metadata.name"))
		{
			*error = arena_printf(arena, "field label not supported: %s",
								  arena_strndup(arena, fields[i].bytes, fields[i].len));
			return NULL;
		}
	}
	return selector;
}

bool
field_selector_matches(const FieldSelector *selector, JsonText namespace_name, JsonText name)
{
	for (size_t i = 0; i < selector->count; i++)
	{
		const FieldTerm *term = &selector->terms[i];
		JsonText	actual = term->is_namespace ? namespace_name : name;
		bool		equal = json_text_compare(actual, term->value) == 0;

		if (equal == term->negated)
			return false;
	}
	return true;
}
