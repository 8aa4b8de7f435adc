/*-------------------------------------------------------------------------
 *
 * documents.h
 *	  Discovery, OpenAPI and version documents of the served types.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DOCUMENTS_H
#define DOCUMENTS_H

#include "engine/answers/discovery.h"
#include "engine/schema/definition.h"

/* Makes the documents of these types with served_documents() of the engine; returns *document_count, in the arena. */
extern ServedDocument *documents_make(Arena *arena, const Definition *const *definitions, size_t count,
									  size_t *document_count);

#endif							/* DOCUMENTS_H */
