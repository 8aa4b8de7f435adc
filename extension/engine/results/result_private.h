/*-------------------------------------------------------------------------
 *
 * result_private.h
 *	  Compiled mappings, shared by result_mapping.c and result_extract.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RESULT_PRIVATE_H
#define RESULT_PRIVATE_H

#include "engine/results/result.h"
#include "engine/schema/table.h"

/* The start of a path. */
typedef enum ResultScope
{
	SCOPE_CONSTANT,				/* no path: a constant value */
	SCOPE_DOCUMENT,				/* $ */
	SCOPE_RESULT,				/* . */
	SCOPE_RESOURCE				/* @: an element of a subject's list */
} ResultScope;

/* One source of a value; the first source with a text that is not empty counts. */
typedef struct ResultSource
{
	ResultScope scope;
	const JsonPathStep *path;	/* NULL: the start itself */
	JsonText	constant;
	const JsonNode *map;		/* replaces words by texts; NULL: none */
	const JsonNode *otherwise;	/* replaces words that the map does not have; NULL: they stay */
	struct ResultSource *next;
} ResultSource;

typedef struct NamedSource
{
	JsonText	name;
	ResultSource *source;
	struct NamedSource *next;
} NamedSource;

/* One source of the subjects of a result; the first source with a subject counts. */
typedef struct SubjectSource
{
	ResultSource *each;			/* a list: a subject for each element; NULL: one subject */
	ResultSource *api_version;
	ResultSource *kind;
	ResultSource *namespace_name;
	ResultSource *name;
	ResultSource *uid;
	bool		of_document;	/* no part depends on the result */
	struct SubjectSource *next;
} SubjectSource;

struct ResultMapping
{
	ResultSource *list;
	ResultSource *source;
	ResultSource *policy;
	ResultSource *rule;
	ResultSource *category;
	ResultSource *severity;
	ResultSource *status;
	ResultSource *score;
	ResultSource *message;
	ResultSource *exceptions;
	ResultSource *time;
	ResultSource *key;			/* all sources count, not only the first */
	ResultSource *properties;	/* an object of scalars, or NULL */
	NamedSource *property;		/* otherwise: properties by name */
	SubjectSource *subjects;
};

/* result_extract.c: results in document order, without keys and ids. */
extern void result_read(Arena *arena, const ResultMapping *mapping, const JsonNode *document, ResultList *list);

/* Sets *status to the status with this name, ignoring case; false if the word is none of the five. */
extern bool result_status_word(JsonText text, ResultStatus *status);

#endif							/* RESULT_PRIVATE_H */
