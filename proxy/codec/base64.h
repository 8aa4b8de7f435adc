/*-------------------------------------------------------------------------
 *
 * base64.h
 *	  Bytes in JSON documents.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BASE64_H
#define BASE64_H

#include "engine/base/json.h"

/* The bytes of a text, in the arena; blanks around it do not matter.  False when it is no base64. */
extern bool base64_decode(Arena *arena, const char *text, JsonText *bytes);

/* The text of bytes, in the arena. */
extern const char *base64_encode(Arena *arena, JsonText bytes);

#endif							/* BASE64_H */
