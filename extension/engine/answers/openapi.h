/*-------------------------------------------------------------------------
 *
 * openapi.h
 *	  OpenAPI v3 and v2 documents of the served types.
 *
 * Reference: k8s-conformance section 3.
 *
 *-------------------------------------------------------------------------
 */
#ifndef OPENAPI_H
#define OPENAPI_H

#include "engine/base/json.h"

/* Appends the OpenAPI v3 document of one group and version; definitions are its documents (definition.h). */
extern void openapi_v3_document(StrBuf *buf, Arena *arena, const JsonNode *const *definitions, size_t count);

/* The Swagger 2 document of all types; definitions are all served definition documents. */
extern JsonNode *openapi_v2_build(Arena *arena, const JsonNode *const *definitions, size_t count);

/* A Swagger 2 document as the protobuf message openapi.v2.Document of gnostic, which kubectl before 1.27 requests. */
extern void openapi_v2_protobuf(StrBuf *buf, Arena *arena, const JsonNode *document);

#endif							/* OPENAPI_H */
