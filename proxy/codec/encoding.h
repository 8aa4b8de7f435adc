/*-------------------------------------------------------------------------
 *
 * encoding.h
 *	  Encodes the JSON of an answer for the client: YAML, gzip.
 *
 * Plain C that uses the engine's JSON, zlib and yaml_write.c; it does not need
 * libyaml.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ENCODING_H
#define ENCODING_H

#include "engine/base/json.h"

/* Smaller answers are not compressed (REQ-11). */
#define GZIP_FROM ((size_t) 128 * 1024)

/* Smaller answers are encoded in the loop within some milliseconds, larger ones on a thread. */
#define ENCODE_AT_ONCE ((size_t) 128 * 1024)

/* Whether an Accept-Encoding header (NULL: none) prefers gzip to no encoding. */
extern bool encoding_accepts_gzip(const char *header);

/* Encode a whole document into the arena.  encode_yaml() returns a text that is not JSON unchanged. */
extern JsonText encode_yaml(Arena *arena, JsonText json);
extern JsonText encode_gzip(Arena *arena, JsonText text);

/* The state for an answer that comes in pieces.  It holds one piece, its encoded form, and 256 KB for gzip. */
typedef struct Encoding Encoding;

extern Encoding *encoding_new(bool yaml, bool gzip);

/*
 * Encodes the next bytes of the JSON.  The result may be empty and is valid until the next call.  last: this is the end
 * of the answer.  False when the bytes cannot be encoded.
 */
extern bool encoding_next(Encoding *encoding, JsonText json, bool last, JsonText *bytes);
extern void encoding_free(Encoding *encoding);

/*
 * Decompresses gzip into the arena.  False when the bytes are not gzip (*large false), or when the text would be longer
 * than limit bytes (*large true).
 */
extern bool decode_gzip(Arena *arena, JsonText given, size_t limit, JsonText *text, bool *large);

#endif							/* ENCODING_H */
