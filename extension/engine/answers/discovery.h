/*-------------------------------------------------------------------------
 *
 * discovery.h
 *	  All documents that depend only on the served definitions.
 *
 * Reference: k8s-conformance sections 1.3, 2 and 3.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DISCOVERY_H
#define DISCOVERY_H

#include "engine/base/json.h"

/* The version of Kubernetes whose behaviour the server follows, as semver. */
#define API_SERVER_MAJOR "1"
#define API_SERVER_MINOR "34"
#define API_SERVER_VERSION "v1.34.0+kube-reports"
#define API_SERVER_TITLE "Kubernetes reports"

typedef struct ServedDocument
{
	const char *path;			/* without a trailing slash and without a query; "/" is the index */
	const char *content_type;
	const char *body;
	size_t		len;
	const char *hash;			/* of the body; the ETag is this in double quotes */
} ServedDocument;

/* SHA-512 in upper-case hexadecimal; the engine itself has no cryptography. */
typedef char *(*DocumentHash) (Arena *arena, const char *bytes, size_t len);

/*
 * All documents for these definitions (definition.h).  definitions has all served groups and versions, in any order.
 * The rows of one path are adjacent; the first of them has the default media type.
 *
 * Code that matches Accept against content types must treat '@' in Accept as '.': kubectl before 1.27 requests
 * application/com.github.proto-openapi.spec.v2@v1.0+protobuf, but refuses an answer of that type, because it is not a
 * well-formed media type.
 */
extern ServedDocument *served_documents(Arena *arena, const JsonNode *const *definitions, size_t count,
										DocumentHash hash, size_t *document_count);

#endif							/* DISCOVERY_H */
