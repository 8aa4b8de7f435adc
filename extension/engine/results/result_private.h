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

/* What a path starts from. */
typedef enum ResultScope
{
	SCOPE_CONSTANT,				/* no path: a value of its own */
	SCOPE_DOCUMENT,				/* $ */
	SCOPE_RESULT,				/* . */
	SCOPE_RESOURCE				/* @: an element of a subject's list */
} ResultScope;

/* One way to a value; the first that gives a text which is not empty counts. */
typedef struct ResultSource
{
	ResultScope scope;
	const JsonPathStep *path;	/* NULL: where it starts from itself */
	JsonText	constant;
	const JsonNode *map;		/* words and what they stand for; NULL: none */
	struct ResultSource *next;
} ResultSource;

typedef struct NamedSource
{
	JsonText	name;
	ResultSource *source;
	struct NamedSource *next;
} NamedSource;

/* A way to the subjects of a result; the first that gives one counts. */
typedef struct SubjectSource
{
	ResultSource *each;			/* a list: a subject for each element; NULL: one subject */
	ResultSource *api_version;
	ResultSource *kind;
	ResultSource *namespace_name;
	ResultSource *name;
	ResultSource *uid;
	bool		of_document;	/* nothing of it depends on the result */
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
	ResultSource *key;			/* all of them count */
	ResultSource *properties;	/* an object of scalars; or NULL and */
	NamedSource *property;		/* each by its name */
	SubjectSource *subjects;
};

/* result_extract.c: results in document order, without keys and ids. */
extern void result_read(Arena *arena, const ResultMapping *mapping, const JsonNode *document, ResultList *list);

/* Which of the five statuses a word is, in any case; false when it is none. */
extern bool result_status_word(JsonText text, ResultStatus *status);

#endif							/* RESULT_PRIVATE_H */
