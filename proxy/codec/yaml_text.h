/*-------------------------------------------------------------------------
 *
 * yaml_text.h
 *	  YAML for clients that speak it: bodies become JSON, answers YAML.
 *
 * What a YAML text means is what Kubernetes' decoder makes of it
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

/* What a plain scalar stands for. */
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

/* The meaning of a scalar without quotes and tag. */
extern Scalar scalar_resolve(Arena *arena, JsonText text);

/* A string that some reader of YAML 1.1 or 1.2 would take for something else, were it written without quotes. */
extern bool scalar_is_ambiguous(Arena *arena, JsonText text);

/*
 * Appends the first document of a YAML text as JSON; an empty text is null.  The members of an object stand in the
 * order of the text, the last of equal keys wins.  False with *error, upstream's words beginning with "yaml: ", for
 * what is no YAML, what JSON cannot hold (.nan, a null key), aliases without measure, nesting deeper than
 * JSON_MAX_DEPTH, JSON larger than limit bytes, and whatever would take more memory or work than a text of its length
 * may.
 *
 * duplicates is an array or NULL; to it are appended, as strings, upstream's complaints about keys that are set twice
 * (line 5: key "a" already set in map), at most 100.
 */
extern bool yaml_to_json(Arena *arena, const char *text, size_t len, size_t limit, StrBuf *json, JsonNode *duplicates,
						 const char **error);

/* Appends a document in block style, keys sorted, ended by a newline. */
extern void yaml_write(StrBuf *buf, const JsonNode *node);

/*
 * A JSON object that comes in pieces, turned into YAML as it comes: of it no more is held than one member or one
 * element of an array that is a member.  The order of its members stays; below it, keys are sorted.
 */
typedef struct YamlStream
{
	StrBuf		pending;		/* the start of a member or an element */
	int			depth;			/* of open brackets */
	bool		in_string;
	bool		escaped;		/* the next byte of the string stands for itself */
	bool		in_array;		/* elements of a member are being written */
	bool		empty;			/* none so far */
} YamlStream;

/* The arena holds what is pending; it is the caller's. */
extern void yaml_stream_begin(YamlStream *stream, Arena *arena);

/*
 * Appends to out what has become complete.  False when the text is not such an object, or an array in it has a key of
 * more than 512 bytes.
 */
extern bool yaml_stream_next(YamlStream *stream, const char *bytes, size_t len, StrBuf *out);

#endif							/* YAML_TEXT_H */
