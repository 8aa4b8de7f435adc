/*-------------------------------------------------------------------------
 *
 * result.h
 *	  Typed results of a report: where they stand in a document, what they
 *	  say, which of them is which, and what changed from one state to another.
 *
 * Where results stand is data: a mapping, one for each type, in the language
 * that docs/architecture/results.md describes ("Mappings").  Nothing here knows a
 * kind by its name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RESULT_H
#define RESULT_H

#include "engine/api/status.h"

/* Longest texts of typed columns, in bytes: indexes refuse longer ones.  What is longer is cut between characters. */
#define RESULT_MAX_NAME 253		/* parts of a subject */
#define RESULT_MAX_TEXT 512		/* source, policy, rule, category, native status */

typedef struct ResultMapping ResultMapping;

/* NULL and errors when it is no mapping. The tree must live as long as what is returned. */
extern ResultMapping *result_mapping_compile(Arena *arena, const JsonNode *mapping, FieldErrorList *errors);

/* First letters of pass, warn, fail, error, skip. */
typedef enum ResultStatus
{
	RESULT_PASS = 'p',
	RESULT_WARN = 'w',
	RESULT_FAIL = 'f',
	RESULT_ERROR = 'e',
	RESULT_SKIP = 's'
} ResultStatus;

typedef struct ResultSubject
{
	JsonText	api_version;
	JsonText	kind;
	JsonText	namespace_name;
	JsonText	name;
	JsonText	uid;
	int64_t		id;
} ResultSubject;

/*
 * What an element of a document's list says, whatever it is about: kept, compared and hashed once for all subjects.
 * Texts hold no NUL; absent ones are empty.
 */
typedef struct ResultEntry
{
	size_t		position;		/* in the document's list, from 0 */
	int64_t		criterion;		/* of source, policy, rule, category, severity */
	int64_t		detail;			/* of message, properties, exceptions */
	/* among those of the document, by source, policy, rule and key; the same for equal ones */
	size_t		identity_order;
	size_t		detail_order;	/* among those of one identity_order, by the detail */
	size_t		content_order;	/* among those of one detail_order, by everything else but the time */
	JsonText	source;
	JsonText	policy;
	JsonText	rule;
	JsonText	category;
	JsonText	severity;		/* unknown info low medium high critical */
	ResultStatus status;
	JsonText	native_status;	/* the source's own word where it is another one, else empty */
	double		score;			/* 0: unknown */
	JsonText	message;
	JsonText	properties;		/* canonical JSON: an object of strings */
	const JsonText *exceptions;
	size_t		exception_count;
	const JsonText *key_texts;	/* what the mapping's key names */
	size_t		key_count;
	bool		has_time;
	int64_t		time;			/* of evaluation, in microseconds since 1970 */
	const struct ResultEntry *twin; /* the last one of another document that said the same */
	bool		told;			/* for whoever returns the texts once only */
} ResultEntry;

/* One result about one subject. */
typedef struct ReportResult
{
	ResultEntry *entry;
	ResultSubject *subject;		/* ids are written into it */
	int64_t		key;			/* which result of its report it is */
} ReportResult;

typedef struct ResultList
{
	ResultEntry **entries;		/* in document order, until keys are given */
	size_t		entry_count;
	ReportResult *results;		/* sorted by key, unless no hash was given: then in document order and without ids */
	size_t		count;
	bool		has_time;
	int64_t		time;			/* newest of all results */
} ResultList;

/* The first eight bytes of a SHA-256 hash, as a big-endian number. */
typedef int64_t (*ResultHash) (void *state, const char *bytes, size_t len);

/*
 * The results of a document.  cluster goes into the ids of subjects only.  hash NULL: no keys, no ids.
 *
 * Ids are hashes of fields, each preceded by its length in bytes as four bytes, highest first:
 *key 'key', source, policy, rule, group of apiVersion, kind, namespace, name (uid without one), what the mapping's
 *key names, then '0'.  Several results of one report may agree in all of these.  All but one of them have their
 *detail before the number, which then is that among those with the same detail ('0', '1' ...); see name_equals().
 *Their order in the document does not matter.
 *	criterion	'criterion', source, policy, rule, category, severity
 *	subject		'subject', cluster, apiVersion, kind, namespace, name, uid
 *	detail		'detail', message, properties, then each exception
 */
extern void result_extract(Arena *arena, const ResultMapping *mapping, const JsonNode *document, int cluster,
						   ResultHash hash, void *state, ResultList *list);

/* The newest time of evaluation alone; false when there is none. */
extern bool result_time(Arena *arena, const ResultMapping *mapping, const JsonNode *document, int64_t *time);

/* One result that is not what it was.  old NULL: it appeared; new NULL: it is gone. */
typedef struct ResultChange
{
	const ReportResult *old;
	const ReportResult *new;
} ResultChange;

/*
 * What changed from one state of a document to another; either may be NULL: there is none.  Times of evaluation alone
 * are no change.  Returns the number of changes; they are in no particular order.
 */
extern size_t result_difference(Arena *arena, const ResultMapping *mapping, const JsonNode *old,
								const JsonNode *new, int cluster,
								ResultHash hash, void *state, ResultChange **changes);

/* The hash of fields as above; for ids that are made elsewhere (actors). */
extern int64_t result_field_hash(Arena *arena, const JsonText *fields, size_t count, ResultHash hash, void *state);

#endif							/* RESULT_H */
