/*-------------------------------------------------------------------------
 *
 * document_admit.h
 *	  Admission of documents from all sources.
 *
 * Four kinds of documents pass document_admit(), are completed by the caller,
 * and pass document_validate(): bodies of requests, results of patches and
 * applies, rows that the owner writes with SQL, and documents that a SQL
 * function checks.  The rest of the engine relies on the form of an admitted
 * document: its metadata is an ObjectMeta (metadata.h), it has no fields
 * unknown to the schema, its embedded resources are coerced, and defaults are
 * filled in.  A second admission changes nothing.
 *
 * A document is the whole object: apiVersion, kind, metadata and the rest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DOCUMENT_ADMIT_H
#define DOCUMENT_ADMIT_H

#include "engine/schema/definition.h"

/* Options that depend on the source of the document. */
typedef struct DocumentAdmission
{
	UnknownField unknown;		/* called for each dropped field; NULL: not needed */
	void	   *state;
	bool		metadata_optional;	/* a document without metadata is valid and stays so */
	bool		applied;		/* merged by server-side apply; if valid, document_settle_applied() follows */
} DocumentAdmission;

/* Why a document is not admitted: a part of it has the wrong type. */
typedef struct DocumentRefusal
{
	const char *message;		/* upstream's message for a body */
	FieldErrorList errors;		/* the same as a field error */
} DocumentRefusal;

/*
 * Converts an object to the form of its type, in place.  False with the refusal when this fails; then the document must
 * not be used.  If apiVersion and kind differ from the definition, only the metadata is converted, and
 * document_validate() refuses the document.
 */
extern bool document_admit(Arena *arena, const Definition *definition, JsonNode *document,
						   const DocumentAdmission *admission, DocumentRefusal *refusal);

/*
 * Adds all errors of an admitted document to errors.  old is the admitted metadata of the stored object, NULL for a
 * create.
 */
extern void document_validate(Arena *arena, const Definition *definition, const JsonNode *document, const JsonNode *old,
							  FieldErrorList *errors);

/*
 * Completes an applied document, which keeps its nulls and its embedded resources unchanged until it is validated:
 * fills in defaults and coerces embedded resources.
 */
extern void document_settle_applied(Arena *arena, const Definition *definition, JsonNode *document);

/*
 * Parses a stored object and fills in defaults that its schema got later.  body is NULL if the body is not needed.
 * Returns NULL if the object cannot be read: restored rows are stored without a check.
 */
extern JsonNode *document_read_stored(Arena *arena, const Definition *definition, JsonText metadata,
									  const JsonText *body);

/* The same for parsed parts, which it changes. */
extern JsonNode *document_take_stored(Arena *arena, const Definition *definition, JsonNode *metadata, JsonNode *body);

/* Whether apiVersion and kind are the definition's. */
extern bool document_is_of(const Definition *definition, const JsonNode *document);

/* Joins parts to a whole document, which shares them; body may be NULL. */
extern JsonNode *document_join(Arena *arena, const Definition *definition, JsonNode *metadata, const JsonNode *body);

/* The document without its type and metadata; the rest is shared. */
extern JsonNode *document_body(Arena *arena, const JsonNode *document);

#endif							/* DOCUMENT_ADMIT_H */
