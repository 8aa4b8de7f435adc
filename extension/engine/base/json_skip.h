/*-------------------------------------------------------------------------
 *
 * json_skip.h
 *	  Skips over parts of a JSON text without parsing them.
 *
 * For readers of a few members of a large text.  The text may be anything: a
 * skip never leaves it, and what is skipped is not checked.
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

/* Skips the string that begins at next.  text: the bytes between its quotes, escapes included; false: it has no end. */
extern bool json_skip_string(JsonSkip *skip, JsonText *text);

/*
 * Skips a value that begins at next: next is then behind a string, array or object, and at the comma or bracket behind
 * any other value.  false: the text ends within the value.
 */
extern bool json_skip_value(JsonSkip *skip);

#endif							/* JSON_SKIP_H */
