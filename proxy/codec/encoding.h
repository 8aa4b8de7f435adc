/*-------------------------------------------------------------------------
 *
 * encoding.h
 *	  What happens to an answer's JSON on its way out: YAML, gzip.
 *
 * Plain C over the JSON code, libyaml's part of which is not needed here, and
 * zlib.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ENCODING_H
#define ENCODING_H

#include "engine/base/json.h"

/* Smaller answers are not compressed (REQ-11). */
#define GZIP_FROM ((size_t) 128 * 1024)

/* What is smaller takes some milliseconds: more than that is for a thread. */
#define ENCODE_AT_ONCE ((size_t) 128 * 1024)

/* Whether an Accept-Encoding header (NULL: none) asks for gzip rather than for nothing. */
extern bool encoding_accepts_gzip(const char *header);

/* A whole document, in the arena; as it is when it is no JSON. */
extern JsonText encode_yaml(Arena *arena, JsonText json);
extern JsonText encode_gzip(Arena *arena, JsonText text);

/* An answer that comes in pieces.  It holds a piece and what a piece becomes, and 256 KB for gzip. */
typedef struct Encoding Encoding;

extern Encoding *encoding_new(bool yaml, bool gzip);

/*
 * What the next bytes of the JSON become, which may be nothing; valid until the next call.  last: with the end of the
 * answer.  False when they cannot be encoded.
 */
extern bool encoding_next(Encoding *encoding, JsonText json, bool last, JsonText *bytes);
extern void encoding_free(Encoding *encoding);

#endif							/* ENCODING_H */
