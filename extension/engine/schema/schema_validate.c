/*-------------------------------------------------------------------------
 *
 * schema_validate.c
 *	  Validation of a document against its schema.
 *
 * The checks, their order and their messages are the same as in kube-openapi's
 * validation package, as kube-apiserver uses it for custom resources.  Upstream
 * walks a Go map in no fixed order; here, properties are walked in the order of
 * their keys.  A valid document costs no memory: a path is a linked list on the
 * stack, which becomes text only in an error.
 *
 * Under anyOf, oneOf and not, a value is first validated without recording
 * errors.  Then it is validated again by the alternative whose errors upstream
 * shows, with recording.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/go_float.h"
#include "engine/base/hash.h"
#include "engine/base/utf8.h"
#include "engine/schema/schema_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Validation
{
	FieldErrorList *errors;
	const char *base;			/* path of the value; NULL at the root of a document */
	RegexScratch *scratch;		/* allocated for the first pattern */
} Validation;

/* The outcome for one value.  matches counts passed checks; upstream uses this count to choose an alternative. */
typedef struct Verdict
{
	bool		silent;			/* only judge, record no errors */
	bool		failed;
	size_t		matches;
} Verdict;

static void check_value(Validation *validation, const Schema *schema, const JsonNode *node,
						const FieldPath *path, Verdict *verdict);

/* The types of a value, by its kind. */
static const uint8_t types_of_kind[] = {
	[JSON_KIND_NULL] = 0,
	[JSON_KIND_BOOL] = SCHEMA_BOOLEAN,
	[JSON_KIND_INTEGER] = SCHEMA_INTEGER | SCHEMA_NUMBER,
	[JSON_KIND_NUMBER] = SCHEMA_NUMBER,
	[JSON_KIND_STRING] = SCHEMA_STRING,
	[JSON_KIND_ARRAY] = SCHEMA_ARRAY,
	[JSON_KIND_OBJECT] = SCHEMA_OBJECT,
};

/* The number of checks that a scalar passes if its schema has only a type. */
static const uint8_t matches_of_scalar[] = {
	[JSON_KIND_NULL] = 0,
	[JSON_KIND_BOOL] = 6,
	[JSON_KIND_INTEGER] = 8,
	[JSON_KIND_NUMBER] = 8,
	[JSON_KIND_STRING] = 7,
	[JSON_KIND_ARRAY] = 0,
	[JSON_KIND_OBJECT] = 0,
};

/* Whether errors are not recorded: the value is only judged, or the list of errors is full. */
static bool
is_silent(const Validation *validation, const Verdict *verdict)
{
	return verdict->silent || validation->errors->count >= FIELD_ERRORS_MAX ||
		validation->errors->bytes >= FIELD_ERRORS_MAX_BYTES;
}

/* An error about the value at path. */
static void
add_error(Validation *validation, Verdict *verdict, FieldErrorType type, const FieldPath *path,
		  const JsonNode *value, const char *detail)
{
	Arena	   *arena = validation->errors->arena;
	char	   *field;

	verdict->failed = true;
	if (is_silent(validation, verdict))
		return;
	field = field_path_string(arena, path);
	if (validation->base != NULL)
		field = field[0] != '\0' ? arena_printf(arena, "%s.%s", validation->base, field) : (char *) validation->base;
	else if (path == NULL)
		field = "<nil>";
	field_error_at(validation->errors, type, field, value, detail);
}

/* An error about the whole value; upstream gives such an error no path. */
static void
add_plain_error(Validation *validation, Verdict *verdict, const char *detail)
{
	verdict->failed = true;
	if (!is_silent(validation, verdict))
		field_error_at(validation->errors, FIELD_INVALID, validation->base != NULL ? validation->base : "<nil>",
					   json_new_string(validation->errors->arena, "", 0), detail);
}

/* The name of the value at path in messages. */
static const char *
name_of(Validation *validation, const FieldPath *path)
{
	return field_path_string(validation->errors->arena, path);
}

static const char *
quoted_name_of(Validation *validation, const FieldPath *path)
{
	const char *name = name_of(validation, path);
	StrBuf		buf;

	strbuf_init(&buf, validation->errors->arena);
	quote_text(&buf, name, strlen(name));
	return buf.bytes;
}

/* Invalid value; the message is the name, "in body" and the expectation. */
static void
add_invalid(Validation *validation, Verdict *verdict, const FieldPath *path, const JsonNode *value, const char *should)
{
	verdict->failed = true;
	if (!is_silent(validation, verdict))
		add_error(validation, verdict, FIELD_INVALID, path, value,
				  arena_printf(validation->errors->arena, "%s in body %s", name_of(validation, path), should));
}

static void
add_invalid_count(Validation *validation, Verdict *verdict, const FieldPath *path, const JsonNode *value,
				  const char *relation, int64_t count, const char *things)
{
	verdict->failed = true;
	if (!is_silent(validation, verdict))
		add_invalid(validation, verdict, path, value,
					arena_printf(validation->errors->arena, "should %s %lld %s", relation, (long long) count, things));
}

static void
add_wrong_type(Validation *validation, Verdict *verdict, const FieldPath *path, const char *wanted, const char *got)
{
	Arena	   *arena = validation->errors->arena;

	verdict->failed = true;
	if (!is_silent(validation, verdict))
		add_error(validation, verdict, FIELD_TYPE_INVALID, path, json_new_cstring(arena, got),
				  arena_printf(arena, "%s in body must be of type %s: \"%s\"", name_of(validation, path), wanted, got));
}

static void
add_too_many(Validation *validation, Verdict *verdict, const FieldPath *path, size_t actual, int64_t most)
{
	Arena	   *arena = validation->errors->arena;

	verdict->failed = true;
	if (is_silent(validation, verdict))
		return;
	add_error(validation, verdict, FIELD_TOO_MANY, path, NULL,
			  most < 0 ? arena_printf(arena, "%zu: has too many items", actual) :
			  arena_printf(arena, "%zu: must have at most %lld %s", actual, (long long) most,
						   most == 1 ? "item" : "items"));
}

/* A double as Go's %v prints it. */
static const char *
print_double(Arena *arena, double value)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	go_float_text(&buf, value);
	return strbuf_finish(&buf);
}

/* Whether upstream accepts a number as an integer: at most 2^53 - 1, and small rounding errors are allowed. */
static bool
is_json_integer(double value)
{
	double		rounded;

	if (!(fabs(value) <= 9007199254740991.0))
		return false;
	rounded = round(value);
	return value == rounded || fabs(value - rounded) < 1e-9 * fabs(rounded);
}

static bool
has_type(const Schema *schema, const JsonNode *node)
{
	return (schema->types & types_of_kind[node->kind]) != 0 ||
		(node->kind == JSON_KIND_NUMBER && (schema->types & SCHEMA_INTEGER) != 0 && is_json_integer(node->u.number));
}

/*
 * Checks the type of a value that is not null.  If the schema has a format, the error names the format as the type.
 * Where the schema wants a string with a format, upstream accepts an array.
 */
static bool
check_type(Validation *validation, const Schema *schema, const JsonNode *node,
		   const FieldPath *path, Verdict *verdict)
{
	bool		is_text = node->kind == JSON_KIND_STRING || node->kind == JSON_KIND_ARRAY;

	if (has_type(schema, node))
		return true;
	if (schema->format != NULL && !is_text)
	{
		const char *got = node->kind == JSON_KIND_INTEGER ? "int64" : node->kind == JSON_KIND_NUMBER ? "float64" : "";

		add_wrong_type(validation, verdict, path, schema->format, got);
		return false;
	}
	if (schema->format != NULL && (schema->types & (SCHEMA_INTEGER | SCHEMA_NUMBER)) == 0)
		return true;
	add_wrong_type(validation, verdict, path, schema->type_words, json_kind_name(node->kind));
	return false;
}

static bool
is_enum_value(const JsonNode *node, const JsonNode *allowed)
{
	if (node->kind == JSON_KIND_STRING && allowed->kind == JSON_KIND_STRING)
		return node->u.string.len == allowed->u.string.len &&
			(node->u.string.len == 0 ||
			 memcmp(node->u.string.bytes, allowed->u.string.bytes, node->u.string.len) == 0);
	return json_same(node, allowed);
}

/* A null is refused even when null is one of the enum values. */
static void
check_enum(Validation *validation, const Schema *schema, const JsonNode *node,
		   const FieldPath *path, Verdict *verdict)
{
	if (schema->enum_count == 0)
		return;
	for (size_t i = 0; i < schema->enum_count && node->kind != JSON_KIND_NULL; i++)
	{
		if (is_enum_value(node, schema->enum_values[i]))
			return;
	}
	add_error(validation, verdict, FIELD_NOT_SUPPORTED, path, node, schema->enum_detail);
}

static bool
is_pattern_matched(Validation *validation, const Regex *regex, JsonText text)
{
	if (validation->scratch == NULL)
		validation->scratch = regex_scratch(validation->errors->arena);
	return regex_matches(regex, validation->scratch, text);
}

/* Checks lengths and pattern; only the first failure is reported. */
static void
check_string(Validation *validation, const Schema *schema, const JsonNode *node,
			 const FieldPath *path, Verdict *verdict)
{
	Arena	   *arena = validation->errors->arena;

	if (schema->max_length.set || schema->min_length.set)
	{
		int64_t		length = (int64_t) utf8_count(node->u.string.bytes, node->u.string.len);

		if (schema->max_length.set && length > schema->max_length.value)
		{
			int64_t		most = schema->max_length.value;

			add_error(validation, verdict, FIELD_TOO_LONG, path, NULL,
					  most < 0 ? "value is too long" :
					  is_silent(validation, verdict) ? NULL :
					  arena_printf(arena, "may not be more than %lld %s", (long long) most,
								   most == 1 ? "byte" : "bytes"));
			return;
		}
		if (schema->min_length.set && length < schema->min_length.value)
		{
			add_invalid_count(validation, verdict, path, node, "be at least", schema->min_length.value, "chars long");
			return;
		}
	}
	if (schema->regex != NULL && !is_pattern_matched(validation, schema->regex, node->u.string))
		add_invalid(validation, verdict, path, node,
					is_silent(validation, verdict) ? NULL : arena_printf(arena, "should match '%s'", schema->pattern));
}

static void
check_string_format(Validation *validation, const Schema *schema, const JsonNode *node,
					const FieldPath *path, Verdict *verdict)
{
	JsonText	text = node->u.string;
	StrBuf		quoted;

	if (text.bytes == NULL)
		text.bytes = "";
	if (schema->string_format->check(text) &&
		(schema->format_regex == NULL || is_pattern_matched(validation, schema->format_regex, text)))
		return;
	verdict->failed = true;
	if (is_silent(validation, verdict))
		return;
	strbuf_init(&quoted, validation->errors->arena);
	quote_text(&quoted, text.bytes, text.len);
	add_error(validation, verdict, FIELD_TYPE_INVALID, path, node,
			  arena_printf(validation->errors->arena, "%s in body must be of type %s: %s",
						   name_of(validation, path), schema->format, quoted.bytes));
}

/* Whether a number of the document or of the schema fits the type and format of the schema. */
static bool
fits_type(const Schema *schema, const JsonNode *integer, double value)
{
	if (schema->types == SCHEMA_INTEGER)
	{
		if (integer == NULL && (value != trunc(value) ||
								!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)))
			return false;
		return schema->number_format != NUMBER_FORMAT_INT32 || (value >= INT32_MIN && value <= INT32_MAX);
	}
	if (schema->number_format == NUMBER_FORMAT_FLOAT)
		return fabs(value) < 0x1.ffffffp127;	/* this and larger values round to infinity */
	return true;
}

static bool
check_fits_type(Validation *validation, const Schema *schema, const JsonNode *integer, double value,
				const char *what, const FieldPath *path, Verdict *verdict)
{
	if (fits_type(schema, integer, value))
		return true;
	verdict->failed = true;
	if (!is_silent(validation, verdict))
	{
		const char *format = schema->format;

		add_plain_error(validation, verdict,
						arena_printf(validation->errors->arena, "%s value must be of type %s%s%s in %s",
									 what, schema->type,
									 format != NULL ? " with format " : " (default format)",
									 format != NULL ? format : "", name_of(validation, path)));
	}
	return false;
}

/* A bound as an integer, limited to the range of int64. */
static int64_t
to_int64(double value)
{
	if (!(value < 9223372036854775808.0))
		return INT64_MAX;
	if (value < -9223372036854775808.0)
		return INT64_MIN;
	return (int64_t) value;
}

/* The number to show in a message: as a double when it was compared as a double. */
static const JsonNode *
shown_number(Arena *arena, const JsonNode *node, double value, bool fits)
{
	return fits || node->kind == JSON_KIND_NUMBER ? node : json_new_number(arena, value);
}

/* As upstream, an integer is compared with the integer part of a bound that fits the type. */
static void
check_bound(Validation *validation, const Schema *schema, const JsonNode *node, double value, const SchemaBound *bound,
			bool is_maximum, const FieldPath *path, Verdict *verdict)
{
	Arena	   *arena = validation->errors->arena;
	const char *relation = is_maximum ? (bound->exclusive ? "less than" : "less than or equal to") :
	(bound->exclusive ? "greater than" : "greater than or equal to");
	bool		fits = check_fits_type(validation, schema, NULL, bound->value,
									   is_maximum ? "Maximum boundary" : "Minimum boundary", path, verdict);
	bool		as_integer = fits && node->kind == JSON_KIND_INTEGER;
	int64_t		limit = to_int64(bound->value);
	int			order;

	if (as_integer)
		order = node->u.integer < limit ? -1 : node->u.integer > limit;
	else
		order = value < bound->value ? -1 : value > bound->value;
	if (!is_maximum)
		order = -order;
	if (order < 0 || (order == 0 && !bound->exclusive))
		return;
	verdict->failed = true;
	if (is_silent(validation, verdict))
		return;
	add_invalid(validation, verdict, path, shown_number(arena, node, value, fits),
				as_integer ? arena_printf(arena, "should be %s %lld", relation, (long long) limit) :
				arena_printf(arena, "should be %s %s", relation, print_double(arena, bound->value)));
}

static void
check_multiple(Validation *validation, const Schema *schema, const JsonNode *node, double value,
			   const FieldPath *path, Verdict *verdict)
{
	Arena	   *arena = validation->errors->arena;
	double		factor = schema->multiple_of.value;
	bool		fits = check_fits_type(validation, schema, NULL, factor, "MultipleOf", path, verdict);
	bool		as_integer = fits && node->kind == JSON_KIND_INTEGER;
	int64_t		integer_factor = to_int64(factor);
	bool		is_positive = as_integer ? integer_factor > 0 : factor > 0;
	const char *printed;

	if (is_positive && (as_integer ? node->u.integer % integer_factor == 0 :
						is_json_integer(factor < 1 ? 1 / factor * value : value / factor)))
		return;
	verdict->failed = true;
	if (is_silent(validation, verdict))
		return;
	printed = as_integer ? arena_printf(arena, "%lld", (long long) integer_factor) : print_double(arena, factor);
	if (is_positive)
		add_invalid(validation, verdict, path, shown_number(arena, node, value, fits),
					arena_printf(arena, "should be a multiple of %s", printed));
	else
		add_error(validation, verdict, FIELD_INVALID, path,
				  as_integer ? json_new_integer(arena, integer_factor) : json_new_number(arena, factor),
				  arena_printf(arena, "factor MultipleOf declared for %s must be positive: %s",
							   name_of(validation, path), printed));
}

static void
check_number(Validation *validation, const Schema *schema, const JsonNode *node,
			 const FieldPath *path, Verdict *verdict)
{
	double		value = node->kind == JSON_KIND_INTEGER ? (double) node->u.integer : node->u.number;

	check_fits_type(validation, schema, node->kind == JSON_KIND_INTEGER ? node : NULL, value, "Checked", path, verdict);
	if (schema->multiple_of.set)
		check_multiple(validation, schema, node, value, path, verdict);
	if (schema->minimum.set)
		check_bound(validation, schema, node, value, &schema->minimum, false, path, verdict);
	if (schema->maximum.set)
		check_bound(validation, schema, node, value, &schema->maximum, true, path, verdict);
}

static void
check_array(Validation *validation, const Schema *schema, const JsonNode *node,
			const FieldPath *path, Verdict *verdict)
{
	size_t		count = node->u.array.count;

	if (schema->items != NULL)
	{
		FieldPath	at = {path, {NULL, 0}, 0, false};

		for (size_t i = 0; i < count; i++)
		{
			at.index = (int64_t) i;
			check_value(validation, schema->items, node->u.array.items[i], &at, verdict);
		}
	}
	if (schema->min_items.set && (int64_t) count < schema->min_items.value)
		add_invalid_count(validation, verdict, path, json_new_integer(validation->errors->arena, (int64_t) count),
						  "have at least", schema->min_items.value, "items");
	if (schema->max_items.set && (int64_t) count > schema->max_items.value)
		add_too_many(validation, verdict, path, count, schema->max_items.value);
}

/* Checks the required fields in the order of the schema. */
static void
check_required(Validation *validation, const Schema *schema, const JsonNode *node,
			   const FieldPath *path, Verdict *verdict)
{
	for (size_t i = 0; i < schema->required_count; i++)
	{
		FieldPath	at = {path, schema->required[i], -1, false};

		if (json_get_text(node, schema->required[i]) == NULL)
			add_error(validation, verdict, FIELD_REQUIRED, &at, NULL, NULL);
	}
}

static void
check_object(Validation *validation, const Schema *schema, const JsonNode *node,
			 const FieldPath *path, Verdict *verdict)
{
	Arena	   *arena = validation->errors->arena;
	size_t		count = node->u.object.count;
	size_t		next = 0;
	size_t		required_seen = 0;
	FieldPath	at = {path, {NULL, 0}, -1, false};

	if (schema->min_properties.set && (int64_t) count < schema->min_properties.value)
		add_invalid_count(validation, verdict, path, json_new_integer(arena, (int64_t) count),
						  "have at least", schema->min_properties.value, "properties");
	if (schema->max_properties.set && (int64_t) count > schema->max_properties.value)
		add_too_many(validation, verdict, path, count, schema->max_properties.value);

	for (size_t i = 0; i < count; i++)
	{
		const JsonMember *member = &node->u.object.members[i];
		const SchemaProperty *property = schema_next_property(schema, member->key, &next);

		at.key = member->key;
		if (property != NULL)
		{
			required_seen += property->required;
			check_value(validation, property->schema, member->value, &at, verdict);
		}
		else if (schema->additional_schema != NULL)
			check_value(validation, schema->additional_schema, member->value, &at, verdict);
		else if (schema->additional == ADDITIONAL_FALSE)
		{
			verdict->failed = true;
			if (!is_silent(validation, verdict))
				add_error(validation, verdict, FIELD_INVALID, path,
						  json_new_string(arena, member->key.bytes, member->key.len),
						  arena_printf(arena, "%s.%.*s in body is a forbidden property", name_of(validation, path),
									   (int) member->key.len, member->key.bytes));
		}
	}
	if (required_seen < schema->required_count)
		check_required(validation, schema, node, path, verdict);
}

/* Judges the value under one alternative without recording errors. */
static Verdict
judge(Validation *validation, const Schema *schema, const JsonNode *node, const FieldPath *path)
{
	Verdict		verdict = {true, false, 0};

	check_value(validation, schema, node, path, &verdict);
	return verdict;
}

/* Records the errors of the alternative with the most matches, and adds its matches. */
static void
show_best(Validation *validation, const Schema *best, size_t matches, const JsonNode *node, const FieldPath *path,
		  Verdict *verdict)
{
	if (best == NULL)
		return;
	verdict->matches += matches;
	if (!is_silent(validation, verdict))
	{
		Verdict		shown = {false, false, 0};

		check_value(validation, best, node, path, &shown);
	}
}

static void
check_any_of(Validation *validation, const Schema *schema, const JsonNode *node,
			 const FieldPath *path, Verdict *verdict)
{
	const Schema *best = NULL;
	size_t		matches = 0;

	for (size_t i = 0; i < schema->any_of.count; i++)
	{
		const Schema *alternative = schema->any_of.schemas[i];
		Verdict		judged = judge(validation, alternative, node, path);

		if (!judged.failed)
		{
			verdict->matches += judged.matches;
			return;
		}
		if (best == NULL || judged.matches > matches)
		{
			best = alternative;
			matches = judged.matches;
		}
	}
	verdict->failed = true;
	if (!is_silent(validation, verdict))
		add_plain_error(validation, verdict, arena_printf(validation->errors->arena,
														  "%s must validate at least one schema (anyOf)",
														  quoted_name_of(validation, path)));
	show_best(validation, best, matches, node, path, verdict);
}

static void
check_one_of(Validation *validation, const Schema *schema, const JsonNode *node,
			 const FieldPath *path, Verdict *verdict)
{
	const Schema *best = NULL;
	size_t		matches = 0;
	size_t		valid = 0;
	size_t		valid_matches = 0;

	for (size_t i = 0; i < schema->one_of.count; i++)
	{
		const Schema *alternative = schema->one_of.schemas[i];
		Verdict		judged = judge(validation, alternative, node, path);

		if (!judged.failed)
		{
			if (valid++ == 0)
				valid_matches = judged.matches;
			best = NULL;
		}
		else if (valid == 0 && (best == NULL || judged.matches > matches))
		{
			best = alternative;
			matches = judged.matches;
		}
	}
	if (valid == 1)
	{
		verdict->matches += valid_matches;
		return;
	}
	verdict->failed = true;
	if (!is_silent(validation, verdict))
	{
		Arena	   *arena = validation->errors->arena;

		add_plain_error(validation, verdict,
						arena_printf(arena, "%s must validate one and only one schema (oneOf). %s",
									 quoted_name_of(validation, path), valid == 0 ? "Found none valid" :
									 arena_printf(arena, "Found %zu valid alternatives", valid)));
	}
	show_best(validation, best, matches, node, path, verdict);
}

static void
check_all_of(Validation *validation, const Schema *schema, const JsonNode *node,
			 const FieldPath *path, Verdict *verdict)
{
	size_t		valid = 0;

	for (size_t i = 0; i < schema->all_of.count; i++)
	{
		Verdict		part = {is_silent(validation, verdict), false, 0};

		check_value(validation, schema->all_of.schemas[i], node, path, &part);
		verdict->matches += part.matches;
		valid += !part.failed;
	}
	if (valid == schema->all_of.count)
		return;
	verdict->failed = true;
	if (!is_silent(validation, verdict))
		add_plain_error(validation, verdict,
						arena_printf(validation->errors->arena, "%s must validate all the schemas (allOf)%s",
									 quoted_name_of(validation, path), valid == 0 ? ". None validated" : ""));
}

static void
check_junctors(Validation *validation, const Schema *schema, const JsonNode *node,
			   const FieldPath *path, Verdict *verdict)
{
	if (schema->any_of.count > 0)
		check_any_of(validation, schema, node, path, verdict);
	if (schema->one_of.count > 0)
		check_one_of(validation, schema, node, path, verdict);
	if (schema->all_of.count > 0)
		check_all_of(validation, schema, node, path, verdict);
	if (schema->not_schema != NULL && !judge(validation, schema->not_schema, node, path).failed)
	{
		verdict->failed = true;
		if (!is_silent(validation, verdict))
			add_plain_error(validation, verdict, arena_printf(validation->errors->arena,
															  "%s must not validate the schema (not)",
															  quoted_name_of(validation, path)));
	}
}

/* Makes all checks of one value in upstream's order and counts matches as upstream does. */
static void
check_value(Validation *validation, const Schema *schema, const JsonNode *node,
			const FieldPath *path, Verdict *verdict)
{
	if (schema->type_only && matches_of_scalar[node->kind] > 0 &&
		(schema->types & types_of_kind[node->kind]) != 0)
	{
		verdict->matches += matches_of_scalar[node->kind];
		return;
	}

	if (node->kind == JSON_KIND_NULL)
	{
		if (schema->types != 0 && !schema->nullable)
			add_wrong_type(validation, verdict, path, schema->type_words, "null");
		else
			verdict->matches++;
		check_enum(validation, schema, node, path, verdict);
		return;
	}

	if (schema->types != 0 || schema->format != NULL)
	{
		verdict->matches += check_type(validation, schema, node, path, verdict);
		verdict->matches++;
	}
	check_junctors(validation, schema, node, path, verdict);
	verdict->matches += 2;
	switch (node->kind)
	{
		case JSON_KIND_STRING:
			check_string(validation, schema, node, path, verdict);
			verdict->matches++;
			if (schema->string_format != NULL)
			{
				check_string_format(validation, schema, node, path, verdict);
				verdict->matches++;
			}
			break;
		case JSON_KIND_INTEGER:
		case JSON_KIND_NUMBER:
			check_number(validation, schema, node, path, verdict);
			verdict->matches += 2;
			break;
		case JSON_KIND_ARRAY:
			arena_checkpoint();
			check_array(validation, schema, node, path, verdict);
			verdict->matches += 2;
			break;
		default:
			break;
	}
	check_enum(validation, schema, node, path, verdict);
	verdict->matches++;
	if (node->kind == JSON_KIND_OBJECT)
	{
		arena_checkpoint();
		check_object(validation, schema, node, path, verdict);
		verdict->matches++;
	}
	verdict->matches++;
}

/* Drops equal errors, found twice under allOf or similar.  The list has at most FIELD_ERRORS_MAX errors. */
static void
drop_equal_errors(FieldErrorList *errors, size_t start)
{
	size_t		kept = start;
	uint64_t   *hashes;

	if (errors->count - start < 2)
		return;
	hashes = arena_alloc(errors->arena, errors->count * sizeof(uint64_t));
	for (size_t i = start; i < errors->count; i++)
	{
		const FieldError *error = &errors->errors[i];
		uint64_t	hash = hash_bytes(HASH_SEED, error->field, strlen(error->field));
		size_t		k;

		hash = hash_bytes(hash, error->message, strlen(error->message));
		for (k = start; k < kept; k++)
		{
			const FieldError *other = &errors->errors[k];

			if (hashes[k] == hash && other->type == error->type &&
				strcmp(other->field, error->field) == 0 && strcmp(other->message, error->message) == 0)
				break;
		}
		if (k < kept)
			continue;
		hashes[kept] = hash;
		errors->errors[kept++] = *error;
	}
	errors->count = kept;
}

void
schema_validate_value(const Schema *schema, const JsonNode *value, const char *base, FieldErrorList *errors)
{
	Validation	validation = {errors, base, NULL};
	Verdict		verdict = {false, false, 0};
	size_t		start = errors->count;

	check_value(&validation, schema, value, NULL, &verdict);
	drop_equal_errors(errors, start);
}

void
schema_validate(const Schema *schema, const JsonNode *document, FieldErrorList *errors)
{
	schema_validate_value(schema, document, NULL, errors);
	schema_validate_rules(schema, document, errors);
}

void
schema_validate_rules(const Schema *schema, const JsonNode *document, FieldErrorList *errors)
{
	if (schema->has_embedded)
		schema_check_embedded(schema, document, NULL, errors);
	if (schema->has_list_rules)
		schema_check_lists(schema, document, NULL, errors);
}
