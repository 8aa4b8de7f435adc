/*-------------------------------------------------------------------------
 *
 * backend.h
 *	  Interface between the document engine and PostgreSQL.
 *
 * Only the files that include this header see postgres.h.  An SQL-callable
 * function creates an Arena with a budget for its arguments, calls the
 * engine, copies the result out of the arena, and frees the arena.  If an
 * error is raised in between, the memory context frees the chunks of the
 * arena.  A document that exceeds its budget causes an error with SQLSTATE
 * 54000.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BACKEND_H
#define BACKEND_H

/* Replaces postgres.h, and contains all differences between server versions. */
#include "compat.h"

#include "access/htup_details.h"
#include "datatype/timestamp.h"
#include "utils/jsonb.h"

#include "engine/schema/definition.h"
#include "engine/api/request.h"
#include "engine/results/result.h"
#include "engine/writes/write.h"

/* KR, then the HTTP code that the API would return. */
#define ERRCODE_REPORT_INVALID	MAKE_SQLSTATE('K', 'R', '4', '2', '2')

/*
 * definition_cache.c: returns the compiled form of a definition, which lives until the session ends.  Compiles the
 * document at the first call with an id, and ignores it later.  Raises an error with SQLSTATE XX001 if the document is
 * damaged.
 */
extern const Definition *definition_lookup(int64 id, Datum document);

/* The same for a mapping of results. */
extern const ResultMapping *mapping_lookup(int64 id, Datum document);

/* Parses and checks a definition document.  Raises XX001 if crd_definitions() could not have made the document. */
extern JsonNode *parse_definition(Arena *arena, Datum document);

/* datum.c: arguments and results.  Texts of arguments point into detoasted copies in the current memory context. */
extern JsonText datum_text(Datum datum);
extern text *text_value(const char *bytes, size_t len);

/* The text of a JSON string.  NUL becomes U+FFFD, because a text cannot contain NUL. */
extern text *string_value(Arena *arena, JsonText string);
extern text *text_value_of_json(Arena *arena, const JsonNode *node);
extern Datum text_array_value(const JsonText *texts, size_t count);
extern Datum uuid_datum(const char *uid);

/*
 * The sum of the sizes in bytes of these arguments (texts or arrays), from which an arena computes its budget. Argument
 * numbers start at 0; -1 ends the list.  Nulls count as 0 bytes.
 */
extern size_t argument_bytes(FunctionCallInfo fcinfo,...);

/*
 * Raises an error if one of the arguments first to last, counted from 0, is null.  A function that is not STRICT calls
 * it for the arguments that must not be null.  Otherwise the role that owns the extension could crash the server,
 * although the role is no superuser.
 */
extern void require_arguments(FunctionCallInfo fcinfo, int first, int last);

/* The same for all arguments.  STRICT functions call it, because their owner can alter them to be not STRICT. */
extern void require_all_arguments(FunctionCallInfo fcinfo);

/*
 * Parses a document that should be a JSON object.  Raises an error if it is not (a bug, or data from another source).
 */
extern JsonNode *parse_document(Arena *arena, JsonText text);

/* The tree of a jsonb object or array.  Its strings point into the container. */
extern JsonNode *jsonb_node(Arena *arena, JsonbContainer * container);

/* Reads a request, a jsonb that SQL has decoded from the proxy's text; raises an error if it is invalid. */
extern void read_request(Arena *arena, Datum datum, ApiRequest *request);

/* The blessed row type of a function that returns a record.  It lives until the query ends. */
extern TupleDesc result_row(FunctionCallInfo fcinfo);

/*
 * sql_result.c: the results of a write.  Its decision reads them from the trees that it has parsed, and remembers the
 * rows of result_difference() until the transaction ends.  So a commit reads no document while it holds the lane's
 * lock.
 */
typedef struct WriteResults
{
	const ResultMapping *mapping;	/* NULL: the type has no current results */
	int64		mapping_id;
	int32		cluster;
	size_t		costly;			/* results of larger documents follow later; SIZE_MAX: all are derived by the commit */
	Arena		arena;			/* of the lists: their budget is their own, as in result_difference() */
	JsonText	old_metadata;	/* of the stored object; bytes NULL: there is none */
	JsonText	old_body;
	ResultList	before;
} WriteResults;

/* The arguments mapping_id, mapping and cluster_id begin with number first.  The caller makes the arena. */
extern void results_begin(WriteResults *results, FunctionCallInfo fcinfo, int first);

/* Parses the stored object into arena, and reads its results before a decision changes the trees. */
extern void results_read_stored(WriteResults *results, Arena *arena, StoredObject *stored);

/*
 * Remembers how the results change.  metadata and body are those of the new document, with their texts; all are NULL
 * for a delete.  Changes the trees to the form in which the texts are parsed.  Returns true with the time of
 * evaluation, a timestamptz, or false if there is none.
 */
extern bool results_decide(WriteResults *results, JsonNode *metadata, JsonNode *body, JsonText metadata_text,
						   JsonText body_text, int64 *time);

/* Raises all errors as one, with the message that the API would return. */
pg_noreturn extern void raise_invalid(Arena *arena, const char *kind, const char *group, const char *name,
									  const FieldErrorList *errors);

#endif							/* BACKEND_H */
