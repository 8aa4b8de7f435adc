/*-------------------------------------------------------------------------
 *
 * schema_private.h
 *	  What the files schema_*.c share: the compiled schema.
 *
 * A compiled schema is never written after schema_compile() has returned it,
 * so one schema serves any number of documents.  Properties are sorted by
 * key, as the members of a document are: walks go through both in step.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCHEMA_PRIVATE_H
#define SCHEMA_PRIVATE_H

#include <string.h>

#include "engine/base/regex.h"
#include "engine/schema/schema.h"

/* Sets of types; NUMBER also takes integers, INTEGER also numbers without a fraction. */
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
	const char *pattern;		/* must match too; NULL for none */
} StringFormat;

/* NULL when the format is unknown: then it is ignored. */
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

/* A keyword whose value is a number, with whether it is there. */
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
	bool		has_rules;		/* of CEL */
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
	size_t		required_properties;	/* how many of them are properties */
	JsonNode  **enum_values;
	size_t		enum_count;
	const char *enum_detail;	/* supported values: "a", "b" */
	const char *pattern;
	Regex	   *regex;
	SchemaArray all_of;
	SchemaArray any_of;
	SchemaArray one_of;
	Schema	   *not_schema;

	/* What walks may skip. */
	bool		type_only;		/* a scalar is valid when its type is */
	bool		has_defaults;	/* here or below */
	bool		has_list_rules; /* a list of type set or map, here or below */
	bool		has_embedded;	/* here or below */
};

/* Like json_text_compare(), to be inlined where a document and a schema are walked in step. */
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
 * The property of a key, when keys are asked for in ascending order: next goes through the properties
 * once.  NULL when there is none.
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

/* The members of every resource that are not the schema's business. */
static inline bool
schema_is_meta_key(JsonText key)
{
	return json_text_is(key, "apiVersion") || json_text_is(key, "kind") || json_text_is(key, "metadata");
}

/* The property of a key, in any order. */
extern const SchemaProperty *schema_property(const Schema *schema, JsonText key);

/* schema_structural.c: the rules of structural schemas; defaults are checked only in one that is sound otherwise. */
extern void schema_check_structure(Arena *arena, const Schema *schema, const FieldPath *path, bool with_defaults,
								   FieldErrorList *errors);

/*
 * schema_validate.c: as schema_validate() but for a value that stands at base (NULL: for the root of a document,
 * whose own errors upstream reports at "<nil>").
 */
extern void schema_validate_value(const Schema *schema, const JsonNode *value, const char *base,
								  FieldErrorList *errors);

/* schema_lists.c: lists of type set and map, and embedded resources, of a document or of a default at base. */
extern void schema_check_lists(const Schema *schema, const JsonNode *value, const FieldPath *base,
							   FieldErrorList *errors);
extern void schema_check_embedded(const Schema *schema, const JsonNode *value, const FieldPath *base,
								  FieldErrorList *errors);

/* schema_lists.c: what apimachinery says of a text that is no DNS-1035 label, or no kind; NULL when it is one. */
extern const char *schema_label_error(Arena *arena, JsonText text);
extern const char *schema_kind_error(Arena *arena, JsonText kind);

/* schema_prune.c: as schema_prune(), for a value that is no resource of its own. */
extern void schema_prune_value(Arena *arena, const Schema *schema, JsonNode *value);

#endif							/* SCHEMA_PRIVATE_H */
