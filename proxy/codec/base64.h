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

/* Decodes a text into the arena; blanks around the text are ignored.  False when the text is not base64. */
extern bool base64_decode(Arena *arena, const char *text, JsonText *bytes);

/* Encodes bytes as text, in the arena. */
extern const char *base64_encode(Arena *arena, JsonText bytes);

#endif							/* BASE64_H */
