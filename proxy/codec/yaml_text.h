/*-------------------------------------------------------------------------
 *
 * yaml_text.h
 *	  YAML for clients that use it: converts bodies to JSON, and answers to YAML.
 *
 * A YAML text has the meaning that the decoder of Kubernetes gives it
 * (sigs.k8s.io/yaml over go.yaml.in/yaml/v2): YAML 1.1 with its booleans,
 * octal numbers and merge keys, one document, keys that become strings.  The
 * extension never sees YAML.
 *
 * Plain C over arena.h, json.h and libyaml.
 *
 *-------------------------------------------------------------------------
 */
#ifndef YAML_TEXT_H
#define YAML_TEXT_H

#include "engine/base/json.h"

/* The type of a plain scalar. */
typedef enum ScalarKind
{
	SCALAR_STRING,
	SCALAR_NULL,
	SCALAR_BOOL,
	SCALAR_INTEGER,
	SCALAR_UNSIGNED,			/* beyond int64 */
	SCALAR_FLOAT
} ScalarKind;

typedef struct Scalar
{
	ScalarKind	kind;
	union
	{
		bool		boolean;
		int64_t		integer;
		uint64_t	large;
		double		number;
	}			u;
} Scalar;

/* Returns the meaning of a scalar without quotes and tag. */
extern Scalar scalar_resolve(Arena *arena, JsonText text);

/* Whether some reader of YAML 1.1 or 1.2 would take the string for another type if it were written without quotes. */
extern bool scalar_is_ambiguous(Arena *arena, JsonText text);

/*
 * Appends the first document of a YAML text as JSON; an empty text is null.  The members of an object keep the order
 * of the text; the last of equal keys wins.  Returns false with *error, in upstream's words beginning with "yaml: ",
 * for invalid YAML, values that JSON does not have (.nan, a null key), too many aliases, nesting deeper than
 * JSON_MAX_DEPTH, JSON larger than limit bytes, and texts that would take more memory or work than their length allows.
 *
 * duplicates is an array or NULL.  Upstream's messages about keys that are set twice (line 5: key "a" already set in
 * map) are appended to it as strings, at most 100.
 */
extern bool yaml_to_json(Arena *arena, const char *text, size_t len, size_t limit, StrBuf *json, JsonNode *duplicates,
						 const char **error);

/* Appends a document in block style, keys sorted, ended by a newline. */
extern void yaml_write(StrBuf *buf, const JsonNode *node);

/*
 * Converts a JSON object that comes in pieces to YAML.  Holds at most one member, or one element of a member that is an
 * array.  The members of the object keep their order; keys of nested objects are sorted.
 */
typedef struct YamlStream
{
	StrBuf		pending;		/* the start of a member or an element */
	int			depth;			/* number of open brackets */
	bool		in_string;
	bool		escaped;		/* the next byte of the string is escaped */
	bool		in_array;		/* elements of a member are being written */
	bool		empty;			/* no element was written so far */
} YamlStream;

/* The arena holds the pending text; it belongs to the caller. */
extern void yaml_stream_begin(YamlStream *stream, Arena *arena);

/*
 * Appends the complete parts to out.  False when the text is not such an object, or when the key of an array is longer
 * than 512 bytes.
 */
extern bool yaml_stream_next(YamlStream *stream, const char *bytes, size_t len, StrBuf *out);

#endif							/* YAML_TEXT_H */
