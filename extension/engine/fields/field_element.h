/*-------------------------------------------------------------------------
 *
 * field_element.h
 *	  Elements of field paths: write, parse and show them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FIELD_ELEMENT_H
#define FIELD_ELEMENT_H

#include "engine/base/json.h"

/* f:<name> */
extern JsonText field_name_element(Arena *arena, JsonText name);

/* k:{...} from an object of keys, v:... from a value. */
extern JsonText field_keys_element(Arena *arena, const JsonNode *keys);
extern JsonText field_value_element(Arena *arena, const JsonNode *value);

typedef enum ElementResult
{
	ELEMENT_OK,
	ELEMENT_UNKNOWN,			/* an element of a type that a later version may define */
	ELEMENT_MALFORMED
} ElementResult;

/* Converts an element of a client to its canonical form; sets *error when the element is malformed. */
extern ElementResult field_element_parse(Arena *arena, JsonText text, JsonText *element, const char **error);

/* Whether the element is f:<name>; then *name is the name. */
extern bool field_element_name(JsonText element, JsonText *name);

/* Appends .name, [a=1,b="x"], [="x"] or [3]. */
extern void field_element_show(StrBuf *buf, JsonText element);

/* The keys or the value of a canonical element; NULL for a name or an index. */
extern const JsonNode *field_element_value(Arena *arena, JsonText element);

/* Upstream's order: names, keys, values, indexes; numbers by value, before strings.  Values: field_element_value() */
extern int	field_element_order(JsonText a, const JsonNode *a_value, JsonText b, const JsonNode *b_value);

#endif							/* FIELD_ELEMENT_H */
