/*-------------------------------------------------------------------------
 *
 * backend.h
 *	  Between the document engine and PostgreSQL.
 *
 * Files that include this one are the only ones of the extension that see
 * postgres.h.  An SQL-callable function makes an Arena with the budget of its
 * arguments, calls the engine, copies what it returns out of the arena, and
 * ends the arena; when an error is raised in between, the memory context frees
 * the arena's chunks.  A document that goes over its budget is an error with
 * SQLSTATE 54000.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BACKEND_H
#define BACKEND_H

/* In place of postgres.h: what differs between server versions stands there and nowhere else. */
#include "compat.h"

#include "access/htup_details.h"

#include "engine/schema/definition.h"
#include "engine/api/request.h"
#include "engine/results/result.h"

/* KR and the HTTP code that the API would answer. */
#define ERRCODE_REPORT_INVALID	MAKE_SQLSTATE('K', 'R', '4', '2', '2')

/* definition_cache.c: the compiled definition; lives until the session ends. */
extern const Definition *definition_lookup(int64 id, Datum document);

/* Likewise a mapping of results. */
extern const ResultMapping *mapping_lookup(int64 id, Datum document);

/* A definition document, checked; raises an error when crd_definitions() would not make it. */
extern JsonNode *parse_definition(Arena *arena, Datum document);

/* datum.c: arguments and results.  Texts of arguments point into detoasted copies in the current memory context. */
extern JsonText datum_text(Datum datum);
extern text *text_of(const char *bytes, size_t len);

/* Of a JSON string; NUL, which no text can have, becomes U+FFFD. */
extern text *text_of_string(Arena *arena, JsonText string);
extern text *text_of_json(Arena *arena, const JsonNode *node);
extern Datum text_array(const JsonText *texts, size_t count);
extern Datum uuid_datum(const char *uid);

/*
 * Bytes of these arguments, texts or arrays, counted from 0 and ended by -1: what a budget is for.  Nulls count
 * nothing.
 */
extern size_t argument_bytes(FunctionCallInfo fcinfo,...);

/*
 * Raises an error when one of these arguments, counted from 0, is null.  For functions that are not STRICT because some
 * other argument may be: the role that owns the extension is no superuser, and must not be able to crash the server.
 */
extern void require_arguments(FunctionCallInfo fcinfo, int first, int last);

/* Likewise when any is null.  For functions that are STRICT: whoever owns one can alter that. */
extern void require_all_arguments(FunctionCallInfo fcinfo);

/* Parses a document that is known to be JSON; raises an error (a bug, or bytes from elsewhere) when it is not. */
extern JsonNode *parse_document(Arena *arena, JsonText text);

/* A parsed request; raises an error when it is none. */
extern void parse_request(Arena *arena, Datum datum, ApiRequest *request);

/* The blessed row type of a function that returns a record; kept for the rest of the query. */
extern TupleDesc result_row(FunctionCallInfo fcinfo);

/* Raises the errors as one, with the message the API would answer. */
pg_noreturn extern void raise_invalid(Arena *arena, const char *kind, const char *group, const char *name,
									  const FieldErrorList *errors);

#endif							/* BACKEND_H */
