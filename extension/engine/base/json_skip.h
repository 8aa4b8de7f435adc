/*-------------------------------------------------------------------------
 *
 * json_skip.h
 *	  Skips over parts of a JSON text without parsing them.
 *
 * For callers that read a few members of a large text.  The text need not be
 * JSON: a skip never reads beyond its end, and does not check the skipped
 * part.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JSON_SKIP_H
#define JSON_SKIP_H

#include "engine/base/json.h"

typedef struct JsonSkip
{
	const char *next;
	const char *end;
} JsonSkip;

/* Skips the string at next; *text is its content with escapes.  Returns false if the string has no closing quote. */
extern bool json_skip_string(JsonSkip *skip, JsonText *text);

/*
 * Skips the value that begins at next.  Afterwards next is behind a string, array or object, and at the comma or
 * bracket that follows any other value.  Returns false if the text ends within the value.
 */
extern bool json_skip_value(JsonSkip *skip);

#endif							/* JSON_SKIP_H */
