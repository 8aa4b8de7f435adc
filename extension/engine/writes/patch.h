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
	PATCH_MALFORMED,			/* 400: the patch itself is malformed */
	PATCH_TOO_MANY,				/* 413: more than 10,000 operations */
	PATCH_FAILED				/* 422: the patch does not apply to the document */
} PatchResult;

/*
 * Replaces *document, an object, by the patched tree.  The old tree must not be used afterwards, not even after a
 * failure.  The patch stays unchanged, but the tree shares the text of its strings.
 *
 * *error is the reason of a failure: for PATCH_MALFORMED the whole message of the Status, for PATCH_TOO_MANY the part
 * after "Request entity too large: ", for PATCH_FAILED a reason for logs, because clients get no reason (JP-01).
 *
 * With checked, the types of all members of the patch are checked first, as for every field validation but Ignore.
 * Without checked, a member of a wrong type is an error only if an operation uses it.
 */
extern PatchResult json_patch_apply(Arena *arena, JsonNode **document, const JsonNode *patch, bool checked,
									const char **error);

/*
 * The same for a merge patch.  A patch that is not an object is PATCH_MALFORMED, with one exception: without checked, a
 * list replaces the document.  Only then *document is not an object afterwards.
 */
extern PatchResult merge_patch_apply(Arena *arena, JsonNode **document, const JsonNode *patch, bool checked,
									 const char **error);

#endif							/* PATCH_H */
