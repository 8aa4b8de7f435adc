/*-------------------------------------------------------------------------
 *
 * document_set.h
 *	  The discovery and OpenAPI documents of one reading of the registry.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DOCUMENT_SET_H
#define DOCUMENT_SET_H

#include "db/pg.h"
#include "engine/schema/definition.h"

/* The forms of a document. */
typedef enum DocumentForm
{
	FORM_COMPACT,				/* as it was read */
	FORM_INDENTED,
	FORM_YAML,
	FORMS
} DocumentForm;

typedef struct RegistryDocument
{
	const char *path;
	const char *content_type;
	const char *etag;
	bool		discovery;		/* also offered as YAML and indented */
	size_t		row;			/* sorts documents of one path by their rows */
	JsonText	forms[FORMS];	/* the forms after the first are made on first use, in the arena */
	JsonText	compressed[FORMS];
} RegistryDocument;

/* The documents of one reading. */
typedef struct Documents
{
	unsigned	references;
	Arena		arena;
	RegistryDocument *entries;	/* by path, then row */
	size_t		count;
	PgResult   *rows;			/* has the bodies; NULL: the arena has them */
} Documents;

/* Returns a set of documents to be filled in; rows may be NULL, and belongs to the set. */
extern Documents *documents_new(PgResult *rows, size_t count);

/* Returns the documents of the rows of api_documents(), which belong to the set. */
extern Documents *documents_read(PgResult *rows);

/* Makes the documents of types (variant sql). */
extern Documents *documents_of(const Definition *const *definitions, size_t count);

/* Ends a reference to a set (a Documents, as the state of a callback); NULL: does nothing. */
extern void documents_release(void *state);

/* Returns the documents of a path, the default one first; NULL when the path has none. */
extern RegistryDocument *documents_find(const Documents *documents, const char *path, size_t *count);

#endif							/* DOCUMENT_SET_H */
