/*-------------------------------------------------------------------------
 *
 * schema_private.h
 *	  The compiled schema, shared by the files schema_*.c.
 *
 * A compiled schema never changes after schema_compile() has returned it, so
 * one schema serves any number of documents.  Properties are sorted by key,
 * like the members of a document, so that a walk goes through both in step.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCHEMA_PRIVATE_H
#define SCHEMA_PRIVATE_H

#include <string.h>

#include "engine/base/regex.h"
#include "engine/schema/schema.h"

/* Sets of types.  NUMBER also accepts integers; INTEGER also accepts numbers without a fraction. */
#define SCHEMA_BOOLEAN 0x01
#define SCHEMA_INTEGER 0x02
#define SCHEMA_NUMBER 0x04
#define SCHEMA_STRING 0x08
#define SCHEMA_ARRAY 0x10
#define SCHEMA_OBJECT 0x20

typedef bool (*StringFormatCheck) (JsonText text);

/* A known format of strings. */
typedef struct StringFormat
{
	const char *name;			/* without dashes, as upstream compares them */
	StringFormatCheck check;
	const char *pattern;		/* the text must also match it; NULL for none */
} StringFormat;

/* NULL when the format is unknown; unknown formats are ignored. */
extern const StringFormat *string_format(JsonText name);

typedef enum NumberFormat
{
	NUMBER_FORMAT_NONE,
	NUMBER_FORMAT_INT32,
	NUMBER_FORMAT_INT64,
	NUMBER_FORMAT_FLOAT,
	NUMBER_FORMAT_DOUBLE
} NumberFormat;

typedef enum SchemaAdditional
{
	ADDITIONAL_ABSENT,
	ADDITIONAL_FALSE,
	ADDITIONAL_TRUE,
	ADDITIONAL_SCHEMA
} SchemaAdditional;

/* A keyword whose value is a number; set is false when the keyword is absent. */
typedef struct SchemaCount
{
	bool		set;
	int64_t		value;
} SchemaCount;

typedef struct SchemaBound
{
	bool		set;
	bool		exclusive;
	double		value;
} SchemaBound;

typedef struct SchemaProperty
{
	JsonText	key;
	Schema	   *schema;
	bool		required;
} SchemaProperty;

typedef struct SchemaArray
{
	Schema	  **schemas;
	size_t		count;
} SchemaArray;

struct Schema
{
	const JsonNode *node;

	/* Structure. */
	const char *type;			/* as written; NULL when absent */
	const char *type_words;		/* as messages name the types: "integer,string" */
	uint8_t		types;			/* 0: any */
	bool		nullable;
	bool		preserve_unknown;
	bool		embedded;
	bool		int_or_string;
	bool		has_rules;		/* CEL rules */
	const JsonNode *default_value;	/* NULL when absent or null */
	SchemaProperty *properties; /* sorted by key */
	size_t		property_count;
	SchemaAdditional additional;
	Schema	   *additional_schema;
	Schema	   *items;
	const char *list_type;		/* as written; NULL when absent */
	const char *map_type;
	const char **list_map_keys;
	size_t		list_map_key_count;

	/* Values. */
	const char *format;			/* as messages name it; NULL when none is checked */
	const StringFormat *string_format;
	Regex	   *format_regex;
	NumberFormat number_format;
	SchemaBound minimum;
	SchemaBound maximum;
	SchemaBound multiple_of;
	SchemaCount min_length;
	SchemaCount max_length;
	SchemaCount min_items;
	SchemaCount max_items;
	SchemaCount min_properties;
	SchemaCount max_properties;
	JsonText   *required;
	size_t		required_count;
	size_t		required_properties;	/* number of required fields that are properties */
	JsonNode  **enum_values;
	size_t		enum_count;
	const char *enum_detail;	/* supported values: "a", "b" */
	const char *pattern;
	Regex	   *regex;
	SchemaArray all_of;
	SchemaArray any_of;
	SchemaArray one_of;
	Schema	   *not_schema;

	/* Flags that let walks skip parts. */
	bool		type_only;		/* a scalar of the right type is always valid */
	bool		has_defaults;	/* here or below */
	bool		has_list_rules; /* a list of type set or map, here or below */
	bool		has_embedded;	/* here or below */
};

/* Like json_text_compare(), but inlined for walks through a document and a schema in step. */
static inline int
schema_key_order(JsonText a, JsonText b)
{
	size_t		len = a.len < b.len ? a.len : b.len;
	int			order = len > 0 ? memcmp(a.bytes, b.bytes, len) : 0;

	if (order != 0)
		return order;
	return a.len < b.len ? -1 : a.len > b.len;
}

/*
 * The property of a key; NULL when the schema has none.  Callers ask for keys in ascending order, so that next goes
 * through the properties once.
 */
static inline const SchemaProperty *
schema_next_property(const Schema *schema, JsonText key, size_t *next)
{
	while (*next < schema->property_count)
	{
		const SchemaProperty *property = &schema->properties[*next];
		int			order = schema_key_order(property->key, key);

		if (order > 0)
			return NULL;
		(*next)++;
		if (order == 0)
			return property;
	}
	return NULL;
}

/* The members of every resource that the schema does not check. */
static inline bool
schema_is_meta_key(JsonText key)
{
	return json_text_is(key, "apiVersion") || json_text_is(key, "kind") || json_text_is(key, "metadata");
}

/* The property of a key, in any order. */
extern const SchemaProperty *schema_property(const Schema *schema, JsonText key);

/* schema_structural.c: checks the rules of structural schemas.  Defaults are checked only without other errors. */
extern void schema_check_structure(Arena *arena, const Schema *schema, const FieldPath *path, bool with_defaults,
								   FieldErrorList *errors);

/*
 * schema_validate.c: like schema_validate(), but for a value at the path base.  NULL stands for the root of a document;
 * upstream reports errors of the root itself at "<nil>".
 */
extern void schema_validate_value(const Schema *schema, const JsonNode *value, const char *base,
								  FieldErrorList *errors);

/* schema_lists.c: checks lists of type set and map, and embedded resources, in a document or a default at base. */
extern void schema_check_lists(const Schema *schema, const JsonNode *value, const FieldPath *base,
							   FieldErrorList *errors);
extern void schema_check_embedded(const Schema *schema, const JsonNode *value, const FieldPath *base,
								  FieldErrorList *errors);

/* schema_lists.c: apimachinery's message for a text that is no DNS-1035 label or no kind; NULL when it is valid. */
extern const char *schema_label_error(Arena *arena, JsonText text);
extern const char *schema_kind_error(Arena *arena, JsonText kind);

/* schema_prune.c: like schema_prune(), for a value that is not a whole resource. */
extern void schema_prune_value(Arena *arena, const Schema *schema, JsonNode *value);

#endif							/* SCHEMA_PRIVATE_H */
