/*-------------------------------------------------------------------------
 *
 * jsonpath.h
 *	  JSONPaths, compiled.
 *
 * A path selects the same nodes as in client-go's util/jsonpath, for the kinds
 * of steps listed here.  Recursive descent (..) and unions ([0,1]) are refused
 * when the path is compiled.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JSONPATH_H
#define JSONPATH_H

#include "engine/base/json.h"

/* Limits of a path. */
#define JSONPATH_MAX_LENGTH 4096	/* bytes of text */
#define JSONPATH_MAX_STEPS 128

typedef enum JsonPathKind
{
	JSONPATH_FIELD,				/* .name */
	JSONPATH_WILDCARD,			/* .* */
	JSONPATH_SLICE,				/* [1], [*], [1:3], [::2] */
	JSONPATH_FILTER,			/* [?(left operator right)] */
	JSONPATH_LITERAL			/* in a filter only: a constant */
} JsonPathKind;

typedef enum JsonPathOperator
{
	JSONPATH_EXISTS,
	JSONPATH_EQUAL,
	JSONPATH_NOT_EQUAL,
	JSONPATH_LESS,
	JSONPATH_LESS_EQUAL,
	JSONPATH_GREATER,
	JSONPATH_GREATER_EQUAL
} JsonPathOperator;

typedef struct JsonPathStep JsonPathStep;

struct JsonPathStep
{
	JsonPathKind kind;
	JsonPathStep *next;
	JsonText	name;			/* field */

	/* slice; an index [n] is stored as the slice [n:n+1] with end_derived set */
	bool		has_start;
	bool		has_end;
	bool		end_derived;
	int64_t		start;
	int64_t		end;
	int64_t		step;

	/* filter; an empty side stands for the element itself */
	JsonPathOperator operator;
	JsonPathStep *left;
	JsonPathStep *right;

	JsonNode   *literal;
};

/*
 * Compiles the JSONPath subset that kubectl's printer columns use: .a.b, ['a.b'], [0], [*], [?(@.x=="y")], "\." in
 * names.  NULL with *error when the text is not such a path.
 */
extern JsonPathStep *jsonpath_compile(Arena *arena, const char *text, const char **error);

/* Whether the path can only select nodes within .metadata. */
extern bool jsonpath_within_metadata(const JsonPathStep *path);

/* The first node that the path selects; NULL if the path selects no node or fails on this document. */
extern const JsonNode *jsonpath_first(Arena *arena, const JsonPathStep *path, const JsonNode *document);

/* All nodes that the path selects, in their order; no node if the path fails on this document. */
extern const JsonNode *const *jsonpath_all(Arena *arena, const JsonPathStep *path, const JsonNode *document,
										   size_t *count);

#endif							/* JSONPATH_H */
