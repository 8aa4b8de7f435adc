/*-------------------------------------------------------------------------
 *
 * patch.h
 *	  JSON patch (RFC 6902) and JSON merge patch (RFC 7386).
 *
 * Reference: k8s-conformance sections 13.2 and 13.3.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PATCH_H
#define PATCH_H

#include "engine/base/json.h"

typedef enum PatchResult
{
	PATCH_OK,
	PATCH_MALFORMED,			/* 400: the patch itself is no patch */
	PATCH_TOO_MANY,				/* 413: more than 10,000 operations */
	PATCH_FAILED				/* 422: it does not apply */
} PatchResult;

/*
 * *document, an object, is replaced by the patched tree; the old tree is not to be used afterwards, not even when this
 * fails.  The patch stays as it is, but the tree shares the text of its strings.
 *
 * *error says why not: for PATCH_MALFORMED the whole message of the Status, for PATCH_TOO_MANY the part after "Request
 * entity too large: ", for PATCH_FAILED a reason for logs, as clients are told nothing (JP-01).
 *
 * checked: the patch is decoded by its type first, as under any field validation but Ignore.  Otherwise a member of a
 * wrong type matters only where it is used.
 */
extern PatchResult json_patch_apply(Arena *arena, JsonNode **document, const JsonNode *patch, bool checked,
									const char **error);

/*
 * The same; patch must be an object, else PATCH_MALFORMED.  Unless that is checked a list takes the document's place:
 * then alone *document is no object.
 */
extern PatchResult merge_patch_apply(Arena *arena, JsonNode **document, const JsonNode *patch, bool checked,
									 const char **error);

#endif							/* PATCH_H */
