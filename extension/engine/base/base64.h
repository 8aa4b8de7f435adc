/*-------------------------------------------------------------------------
 *
 * base64.h
 *	  Base64, as Go's encoding/base64 reads and writes it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BASE64_H
#define BASE64_H

#include "engine/base/json.h"

/* The text of bytes, with padding and without line breaks. */
extern char *base64_encode(Arena *arena, JsonText bytes);

/* Decodes a text with padding.  As in Go, line breaks are ignored and surplus bits at the end have no meaning. */
extern bool base64_decode(Arena *arena, JsonText text, JsonText *bytes);

/* The same for a value of a file or a header: white space around it is ignored. */
extern bool base64_decode_value(Arena *arena, const char *value, JsonText *bytes);

/* The alphabet of URLs, without padding.  *wrong is the offset of the wrong byte when the text is not valid. */
extern char *base64url_encode(Arena *arena, JsonText bytes);
extern bool base64url_decode(Arena *arena, JsonText text, JsonText *bytes, size_t *wrong);

#endif							/* BASE64_H */
