/*-------------------------------------------------------------------------
 *
 * base64.h
 *	  Base64, for bytes in JSON documents.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BASE64_H
#define BASE64_H

#include "engine/base/json.h"

/* Decodes a text into the arena and ignores white space around the text.  False when the text is not base64. */
extern bool base64_decode(Arena *arena, const char *text, JsonText *bytes);

/* Returns the base64 of bytes, in the arena, with padding and without line breaks. */
extern const char *base64_encode(Arena *arena, JsonText bytes);

#endif							/* BASE64_H */
