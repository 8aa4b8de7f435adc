/*-------------------------------------------------------------------------
 *
 * jsonpath.h
 *	  Compiled JSONPaths, shared by jsonpath.c and table.c.
 *
 * A path selects the same nodes as in client-go's util/jsonpath, for the kinds
 * of steps listed here.  Recursive descent (..) and unions ([0,1]) are refused
 * when the path is compiled.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JSONPATH_H
#define JSONPATH_H

#include "engine/schema/table.h"

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

/* The first node that the path selects; NULL if the path selects no node or fails on this document. */
extern const JsonNode *jsonpath_first(Arena *arena, const JsonPathStep *path, const JsonNode *document);

/* All nodes that the path selects, in their order; no node if the path fails on this document. */
extern const JsonNode *const *jsonpath_all(Arena *arena, const JsonPathStep *path, const JsonNode *document,
										   size_t *count);

#endif							/* JSONPATH_H */
