/*-------------------------------------------------------------------------
 *
 * field_element.h
 *	  Elements of field paths: how they are written, read and shown.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FIELD_ELEMENT_H
#define FIELD_ELEMENT_H

#include "engine/base/json.h"

/* f:<name> */
extern JsonText field_name_element(Arena *arena, JsonText name);

/* k:{...} of an object of keys, v:... of a value. */
extern JsonText field_keys_element(Arena *arena, const JsonNode *keys);
extern JsonText field_value_element(Arena *arena, const JsonNode *value);

typedef enum ElementResult
{
	ELEMENT_OK,
	ELEMENT_UNKNOWN,			/* of a type that nobody knows yet */
	ELEMENT_MALFORMED
} ElementResult;

/* Brings an element that a client wrote to its canonical form; *error when it is malformed. */
extern ElementResult field_element_parse(Arena *arena, JsonText text, JsonText *element, const char **error);

/* Whether the element is f:<name>; then *name is the name. */
extern bool field_element_name(JsonText element, JsonText *name);

/* Appends .name, [a=1,b="x"], [="x"] or [3]. */
extern void field_element_show(StrBuf *buf, JsonText element);

/* The keys or the value of a canonical element; NULL for a name or an index. */
extern const JsonNode *field_element_value(Arena *arena, JsonText element);

/* Upstream's order: names, keys, values, indexes; numbers by value and before strings.  Each with its value. */
extern int	field_element_order(JsonText a, const JsonNode *a_value, JsonText b, const JsonNode *b_value);

#endif							/* FIELD_ELEMENT_H */
