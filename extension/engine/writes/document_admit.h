/*-------------------------------------------------------------------------
 *
 * document_admit.h
 *	  The way in for documents, whoever brings them.
 *
 * A body of the API, what a patch or an apply made, a row of the owner's SQL
 * and a document that SQL asks about all go through document_admit(), are
 * completed by who brought them, and go through document_validate().  What has
 * been admitted has the shape that the rest of the engine relies on without
 * looking again: metadata that is an ObjectMeta (metadata.h), nothing that the
 * schema does not know, embedded resources in shape, defaults filled in.
 * Admitting it again changes nothing.
 *
 * A document is the whole object: apiVersion, kind, metadata and the rest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DOCUMENT_ADMIT_H
#define DOCUMENT_ADMIT_H

#include "engine/schema/definition.h"

/* What differs between those who bring documents. */
typedef struct DocumentAdmission
{
	UnknownField unknown;		/* told of each field that is dropped; NULL: nobody asks */
	void	   *state;
	bool		metadata_optional;	/* a document without metadata stays without, and is valid so */
	bool		applied;		/* by server-side apply: document_settle_applied() follows when it is valid */
} DocumentAdmission;

/* Why a document is not admitted: a part of it cannot be read as what its type says. */
typedef struct DocumentRefusal
{
	const char *message;		/* in upstream's words for a body */
	FieldErrorList errors;		/* the same as an error of a field */
} DocumentRefusal;

/*
 * Brings an object into the shape of its type, in place; false with the refusal when that cannot be done, the
 * document is then good for nothing.  One whose apiVersion and kind are not the definition's gets its metadata into
 * shape and keeps all the rest: document_validate() refuses it.
 */
extern bool document_admit(Arena *arena, const Definition *definition, JsonNode *document,
						   const DocumentAdmission *admission, DocumentRefusal *refusal);

/*
 * Everything that makes an admitted document invalid.  old is the admitted metadata of the stored object, NULL for a
 * create.
 */
extern void document_validate(Arena *arena, const Definition *definition, const JsonNode *document, const JsonNode *old,
							  FieldErrorList *errors);

/*
 * What was applied keeps its nulls, and its embedded resources as they are worded, until it has been validated: here
 * it gets its last shape.
 */
extern void document_settle_applied(Arena *arena, const Definition *definition, JsonNode *document);

/*
 * A stored object with the defaults that its schema has gained since; body NULL: nobody asks for it.  NULL when it
 * cannot be read: a restored row was stored as it came.
 */
extern JsonNode *document_read_stored(Arena *arena, const Definition *definition, JsonText metadata,
									  const JsonText *body);

/* Whether apiVersion and kind are the definition's. */
extern bool document_is_of(const Definition *definition, const JsonNode *document);

/* A whole document of its parts, which are shared; body may be NULL. */
extern JsonNode *document_join(Arena *arena, const Definition *definition, JsonNode *metadata, const JsonNode *body);

/* The document without its type and metadata; the rest is shared. */
extern JsonNode *document_body(Arena *arena, const JsonNode *document);

#endif							/* DOCUMENT_ADMIT_H */
