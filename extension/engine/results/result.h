/*-------------------------------------------------------------------------
 *
 * result.h
 *	  Typed results of a report: extraction from a document, keys, and changes
 *	  from one state to another.
 *
 * A mapping for each type describes where documents have their results, in the
 * language of docs/architecture/results.md ("Mappings").  This code does not
 * depend on the names of kinds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RESULT_H
#define RESULT_H

#include "engine/api/status.h"

/* Maximum bytes of texts in typed columns: indexes refuse longer ones.  Longer texts are cut between characters. */
#define RESULT_MAX_NAME 253		/* parts of a subject */
#define RESULT_MAX_TEXT 512		/* source, policy, rule, category, native status */

typedef struct ResultMapping ResultMapping;

/* Compiles a mapping; NULL with errors if it is not valid.  mapping must live as long as the compiled mapping. */
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
 * The contents of one element of a document's list: stored, compared and hashed once for all its subjects.  Texts
 * contain no NUL; absent texts are empty.
 */
typedef struct ResultEntry
{
	size_t		position;		/* in the document's list, from 0 */
	int64_t		criterion;		/* of source, policy, rule, category, severity */
	int64_t		detail;			/* of message, properties, exceptions */
	/* rank in the document by source, policy, rule and key; equal entries have the same rank */
	size_t		identity_order;
	size_t		detail_order;	/* rank within one identity_order, by the detail */
	size_t		content_order;	/* rank within one detail_order, by all other parts except the time */
	JsonText	source;
	JsonText	policy;
	JsonText	rule;
	JsonText	category;
	JsonText	severity;		/* unknown info low medium high critical */
	ResultStatus status;
	JsonText	native_status;	/* the word of the source if it is not one of the five statuses, else empty */
	double		score;			/* 0: unknown */
	JsonText	message;
	JsonText	properties;		/* canonical JSON: an object of strings */
	const JsonText *exceptions;
	size_t		exception_count;
	const JsonText *key_texts;	/* the values of the mapping's key */
	size_t		key_count;
	bool		has_time;
	int64_t		time;			/* of evaluation, in microseconds since 1970 */
	const struct ResultEntry *twin; /* the last equal entry of another document */
	bool		told;			/* for a caller that returns the texts once: already returned */
} ResultEntry;

/* One result about one subject. */
typedef struct ReportResult
{
	ResultEntry *entry;
	ResultSubject *subject;		/* identify() sets its id */
	int64_t		key;			/* identifies the result in its report */
} ReportResult;

typedef struct ResultList
{
	ResultEntry **entries;		/* in document order, until results get keys */
	size_t		entry_count;
	ReportResult *results;		/* sorted by key; without a hash: in document order and without ids */
	size_t		count;
	bool		has_time;
	int64_t		time;			/* newest of all results */
} ResultList;

/* The first eight bytes of a SHA-256 hash, as a big-endian number. */
typedef int64_t (*ResultHash) (void *state, const char *bytes, size_t len);

/*
 * The results of a document.  cluster is only part of the ids of subjects.  Without a hash (NULL), results get no keys
 * and no ids.
 *
 * Ids are hashes of fields, each preceded by its length in bytes as four bytes, highest first:
 *	key			'key', source, policy, rule, group of apiVersion, kind, namespace, name (or uid without a name), the
 *				values of the mapping's key, then '0'.  Several results of one report may agree in all of these.
 *				All but one of them have their detail before the number, and the number counts the results with
 *				the same detail ('0', '1' ...); see name_equals().  The order in the document does not matter.
 *	criterion	'criterion', source, policy, rule, category, severity
 *	subject		'subject', cluster, apiVersion, kind, namespace, name, uid
 *	detail		'detail', message, properties, then each exception
 */
extern void result_extract(Arena *arena, const ResultMapping *mapping, const JsonNode *document, int cluster,
						   ResultHash hash, void *state, ResultList *list);

/* Sets *time to the newest time of evaluation, in microseconds since 1970; false if no result has one. */
extern bool result_time(Arena *arena, const ResultMapping *mapping, const JsonNode *document, int64_t *time);

/* One changed result.  old is NULL when the result appeared, new is NULL when it disappeared. */
typedef struct ResultChange
{
	const ReportResult *old;
	const ReportResult *new;
} ResultChange;

/*
 * The changes from one state of a document to another.  A state is NULL when the document does not exist.  A different
 * time of evaluation alone is no change.  Returns the number of changes, which are in no particular order.
 */
extern size_t result_difference(Arena *arena, const ResultMapping *mapping, const JsonNode *old,
								const JsonNode *new, int cluster,
								ResultHash hash, void *state, ResultChange **changes);

/* The same for the lists of the two states, extracted without a hash; an empty list (all zero) when there is none. */
extern size_t result_compare(Arena *arena, ResultList *before, ResultList *after, int cluster,
							 ResultHash hash, void *state, ResultChange **changes);

/* The hash of fields, in the form of the ids above, for ids that other code makes (ids of actors). */
extern int64_t result_field_hash(Arena *arena, const JsonText *fields, size_t count, ResultHash hash, void *state);

#endif							/* RESULT_H */
