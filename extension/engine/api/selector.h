/*-------------------------------------------------------------------------
 *
 * selector.h
 *	  Label selectors and field selectors.
 *
 * The extension (lists, deletecollection) and the proxy (watches) use the same
 * functions, so that both select the same objects.
 * Reference: k8s-conformance section 10 (SEL-01 to SEL-13).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SELECTOR_H
#define SELECTOR_H

#include "engine/base/json.h"

typedef enum SelectorOperator
{
	SELECTOR_EXISTS,
	SELECTOR_NOT_EXISTS,
	SELECTOR_IN,				/* also = and == */
	SELECTOR_NOT_IN,			/* also != */
	SELECTOR_GREATER,
	SELECTOR_LESS
} SelectorOperator;

typedef struct SelectorRequirement
{
	JsonText	key;
	SelectorOperator operator;
	JsonText   *values;
	size_t		value_count;
} SelectorRequirement;

typedef struct Selector
{
	SelectorRequirement *requirements;
	size_t		count;
} Selector;

/* Parses a label selector.  Returns NULL and sets *error (upstream's words, without a prefix) if it is malformed. */
extern Selector *selector_parse(Arena *arena, const char *text, size_t len, const char **error);

/* Looks up the value of a label; false when the object has no such label. */
typedef bool (*SelectorLookup) (void *state, JsonText key, JsonText *value);

/* Whether an object matches a label selector; lookup finds its labels. */
extern bool selector_matches(const Selector *selector, SelectorLookup lookup, void *state);

/* The same for metadata.labels (NULL or an object of strings). */
extern bool selector_matches_labels(const Selector *selector, const JsonNode *labels);

/*
 * The terms of label_terms() that every match must have: "key=value" for each requirement with exactly one value.
 * Queries use them with the GIN index; selector_matches() then decides whether an object matches.
 */
extern size_t selector_terms(Arena *arena, const Selector *selector, JsonText **terms);

/* Field selectors: metadata.name and metadata.namespace with = == !=. */
typedef struct FieldTerm
{
	bool		is_namespace;	/* false: metadata.name */
	bool		negated;
	JsonText	value;
} FieldTerm;

typedef struct FieldSelector
{
	FieldTerm  *terms;
	size_t		count;
} FieldSelector;

/* Parses a field selector.  Returns NULL and sets *error ("field label not supported: spec.x") if it is refused. */
extern FieldSelector *field_selector_parse(Arena *arena, const char *text, size_t len, const char **error);
extern bool field_selector_matches(const FieldSelector *selector, JsonText namespace_name, JsonText name);

#endif							/* SELECTOR_H */
