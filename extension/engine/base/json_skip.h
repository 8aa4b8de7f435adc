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

/*
 * Skips a member of an object that is compact, as json_write() writes it, and has no escapes in its keys.  next is at
 * the opening brace or at a comma, afterwards at a comma or at the closing brace.  Returns false for any other text.
 */
extern bool json_skip_member(JsonSkip *skip, JsonText *key, JsonText *value);

/*
 * The member of an object with this key, parsed; NULL if there is none.  Other members are not parsed if the text is
 * compact.  The text must be JSON in valid UTF-8.
 */
extern JsonNode *json_parse_member(Arena *arena, JsonText object, const char *key);

#endif							/* JSON_SKIP_H */
