/*-------------------------------------------------------------------------
 *
 * metadata_private.h
 *	  Declarations that the files metadata*.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef METADATA_PRIVATE_H
#define METADATA_PRIVATE_H

#include "engine/api/metadata.h"

/* Go's zero time, 0001-01-01T00:00:00Z, which means no time. */
#define GO_ZERO_TIME INT64_C(-62135596800)

/*
 * Reads a time that Go's time.Parse accepts as RFC 3339.  On failure, *element is the part of the layout that did not
 * match (NULL: extra text follows the time) and *at the position in the text, or *range is the name of a number that is
 * out of range.
 */
extern bool scan_time(JsonText text, int64_t *seconds, const char **element, size_t *at, const char **range);

/* Like label_value_errors(). */
extern const char *const *subdomain_errors(Arena *arena, JsonText text);
extern const char *const *namespace_errors(Arena *arena, JsonText text);

#endif							/* METADATA_PRIVATE_H */
