/*-------------------------------------------------------------------------
 *
 * json.h
 *	  JSON documents in memory: parse, look up, change, compare, print.
 *
 * A tree is kept in canonical form, the form in which kube-apiserver prints
 * a custom resource: the members of every object are sorted by key bytes and
 * unique, integers that fit 64 bits stay integers, other numbers are doubles
 * printed the shortest way (1.0 and 1e0 become 1, as Go prints them), text is
 * valid UTF-8 (bad bytes and lone surrogates become U+FFFD, as Go decodes
 * them).  Equal documents therefore print equal bytes.
 *
 * Strings are counted, not NUL-terminated, and may hold NUL.  A parsed tree
 * may point into the text it came from: keep that text as long as the tree.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JSON_H
#define JSON_H

#include "engine/base/arena.h"

/* Deeper documents are refused (k8s-conformance REQ-08). */
#define JSON_MAX_DEPTH 1000

typedef enum JsonKind
{
	JSON_KIND_NULL,
	JSON_KIND_BOOL,
	JSON_KIND_INTEGER,
	JSON_KIND_NUMBER,			/* not an integer, or beyond int64 */
	JSON_KIND_STRING,
	JSON_KIND_ARRAY,
	JSON_KIND_OBJECT
} JsonKind;

typedef struct JsonText
{
	const char *bytes;
	size_t		len;
} JsonText;

typedef struct JsonNode JsonNode;

typedef struct JsonMember
{
	JsonText	key;
	JsonNode   *value;
} JsonMember;

struct JsonNode
{
	JsonKind	kind;
	bool		plain;			/* string: prints without any escape */
	bool		repeats;		/* object: its text contained a key more than once */
	bool		repeated;		/* value of a member: its key was such a key */
	union
	{
		bool		boolean;
		int64_t		integer;
		struct
		{
			double		number;
			JsonText	literal;	/* as written in the text; bytes is NULL without a text */
		};
		JsonText	string;
		struct
		{
			JsonNode  **items;
			size_t		count;
			size_t		capacity;
		}			array;
		struct
		{
			JsonMember *members;	/* sorted by key, unique */
			size_t		count;
			size_t		capacity;
		}			object;
	}			u;
};

/* Why a text is not JSON: the message in the words of Go's decoder, and the position. */
typedef struct JsonError
{
	const char *message;		/* e.g. invalid character '}' looking for beginning of value */
	size_t		offset;			/* in bytes, from 0 */
} JsonError;

/*
 * Called for each duplicate key, in document order.  path is the dotted path with [i] for array elements ("spec.x",
 * "results[0].foo"), without a leading dot.  The last value wins, as in Go.  Called once for each path and for at most
 * 100 paths, as upstream does.
 */
typedef void (*JsonDuplicate) (void *state, const char *path);

/* Returns NULL and sets *error if the text is not exactly one JSON value.  duplicate may be NULL. */
extern JsonNode *json_parse(Arena *arena, const char *text, size_t len,
							JsonDuplicate duplicate, void *state, JsonError *error);

/* Reports the duplicate keys of a parsed tree, in the order of keys; omits members that were replaced since. */
extern void json_tell_repeated(Arena *arena, const JsonNode *node, JsonDuplicate duplicate, void *state);

/* NULL when absent, or when node is NULL or not an object. */
extern JsonNode *json_get(const JsonNode *object, const char *key);
extern JsonNode *json_get_text(const JsonNode *object, JsonText key);

/* Follows a chain of keys ended by NULL. */
extern JsonNode *json_path(const JsonNode *object,...) __attribute__((sentinel));

/*
 * Converts a string to a C string.  NUL becomes JSON_NUL, two bytes that never occur in UTF-8.  So messages and
 * comparisons of names include the text behind a NUL.  json_cstring_text() converts JSON_NUL back to NUL.
 */
#define JSON_NUL "\xC0\x80"

extern char *json_text_cstring(Arena *arena, JsonText text);
extern JsonText json_cstring_text(Arena *arena, const char *string);	/* copied only if it contains a JSON_NUL */

/* The same for a string member; NULL when absent or not a string. */
extern const char *json_get_cstring(Arena *arena, const JsonNode *object, const char *key);

/*
 * Set a member, or remove it; members stay in order.  key must live as long as the tree.  json_remove() returns false
 * if there is no such member.
 */
extern void json_set(Arena *arena, JsonNode *object, const char *key, JsonNode *value);
extern void json_set_text(Arena *arena, JsonNode *object, JsonText key, JsonNode *value);
extern bool json_remove(JsonNode *object, const char *key);
extern bool json_remove_text(JsonNode *object, JsonText key);

/* index of json_insert() is at most the length of the array; index of json_remove_item() is below the length. */
extern void json_append(Arena *arena, JsonNode *array, JsonNode *value);
extern void json_insert(Arena *arena, JsonNode *array, size_t index, JsonNode *value);
extern void json_remove_item(JsonNode *array, size_t index);

/* Make new values. */
extern JsonNode *json_new_null(Arena *arena);
extern JsonNode *json_new_bool(Arena *arena, bool value);
extern JsonNode *json_new_integer(Arena *arena, int64_t value);
extern JsonNode *json_new_number(Arena *arena, double value);
extern JsonNode *json_new_string(Arena *arena, const char *bytes, size_t len);	/* not copied */
extern JsonNode *json_new_cstring(Arena *arena, const char *string);	/* not copied */
extern JsonNode *json_new_array(Arena *arena);
extern JsonNode *json_new_object(Arena *arena);

/* The members of two objects side by side, in the order of their keys; either object may be NULL. */
typedef struct JsonPairs
{
	const JsonNode *left;
	const JsonNode *right;
	size_t		left_next;
	size_t		right_next;
	size_t		steps;
	JsonText	key;
	JsonNode   *left_value;		/* NULL: this object has no such member */
	JsonNode   *right_value;
} JsonPairs;

/*
 * Moves to the next key of either object; false at the end.  Set left and right before the first call, all other fields
 * to zero.
 */
extern bool json_pairs_next(JsonPairs *pairs);

/* Deep copy of the tree; the text of strings is shared. */
extern JsonNode *json_clone(Arena *arena, const JsonNode *node);

/*
 * Changes a tree to the one that is parsed from its canonical text: a whole double becomes the integer that it is
 * printed as.
 */
extern void json_settle(Arena *arena, JsonNode *node);

/* Same value: numbers by value (1 equals 1.0, and a whole double equals the integer that it is printed as). */
extern bool json_same(const JsonNode *a, const JsonNode *b);

/* Whether node (may be NULL) is a string with this text. */
extern bool json_string_is(const JsonNode *node, const char *value);
extern int	json_text_compare(JsonText a, JsonText b);	/* byte order */

/*
 * The position of key in a sorted array, or the position to insert it at.  The first member of each element is its key,
 * a JsonText; size is the size of an element in bytes.
 */
extern size_t json_text_search(const void *elements, size_t count, size_t size, JsonText key, bool *found);

extern bool json_text_is(JsonText text, const char *value);
extern const char *json_kind_name(JsonKind kind);	/* null boolean integer number string array object */

/* as json_go_kind_name(), but for messages about an integer, where Go adds the value of a number: number 1.0 */
extern const char *json_go_number_name(Arena *arena, const JsonNode *node);

/* in messages of Go's decoder: null bool number string array object */
extern const char *json_go_kind_name(JsonKind kind);

/* Compact canonical text. */
extern void json_write(StrBuf *buf, const JsonNode *node);

/* The same as a text in the arena, with a NUL after it; {NULL, 0} for NULL. */
extern JsonText json_text_of(Arena *arena, const JsonNode *node);

/* The same with <, >, & and the two line separators of JavaScript escaped, as Go's encoding/json prints a value. */
extern void json_write_html(StrBuf *buf, const JsonNode *node);

/* Indented by two spaces, as Go's MarshalIndent does; depth is the depth of the value. */
extern void json_write_pretty(StrBuf *buf, const JsonNode *node, int depth);

/* The same for a JSON text: its members keep their order. */
extern void json_indent(StrBuf *buf, JsonText text, int depth);

/* A JSON string literal, with quotes. */
extern void json_write_string(StrBuf *buf, const char *bytes, size_t len);

#endif							/* JSON_H */
