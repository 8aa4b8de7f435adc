/*-------------------------------------------------------------------------
 *
 * kube_json.c
 *	  The JSON of conversations with kube-apiserver: read and written with jansson.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/kube_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

/*
 * jansson 2.14 does not check every allocation: without memory, its lexer would read past the end of a buffer.
 * allocate() ends the process instead.
 */
void
kube_json_start(void)
{
	json_set_alloc_funcs(allocate, free);
}

/* Returns a copy of a JSON text, in which U+FFFD replaces each escaped NUL.  The caller frees it. */
static char *
without_nul(const char *bytes, size_t len)
{
	char	   *copy = memcpy(allocate(len), bytes, len);

	for (size_t i = 0; i + 6 <= len; i++)
	{
		if (copy[i] != '\\')
			continue;
		if (memcmp(copy + i, "\\u0000", 6) == 0)
			memcpy(copy + i, "\\ufffd", 6);
		/* The character after a backslash does not begin another escape. */
		i++;
	}
	return copy;
}

json_t *
kube_json_read(const char *bytes, size_t len)
{
	size_t		flags = JSON_ALLOW_NUL | JSON_DECODE_ANY;
	char	   *copy = NULL;
	json_error_t error;
	json_t	   *json;

	/* jansson refuses some values that an object of the cluster may have; then read the text again in another way. */
	while ((json = json_loadb(copy != NULL ? copy : bytes, len, flags, &error)) == NULL)
	{
		if (json_error_code(&error) == json_error_numeric_overflow && (flags & JSON_DECODE_INT_AS_REAL) == 0)
			flags |= JSON_DECODE_INT_AS_REAL;
		else if (json_error_code(&error) == json_error_null_byte_in_key && copy == NULL)
			copy = without_nul(bytes, len);
		else
			break;
	}
	free(copy);
	return json;
}

JsonText
kube_json_write(Arena *arena, json_t *json)
{
	size_t		flags = JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY;
	char	   *text = json_dumps(json, flags);
	JsonText	copy;

	/* json_dumps() fails only for NULL, the value of a json_pack() that failed. */
	if (text == NULL)
		abort();
	copy.len = strlen(text);
	copy.bytes = arena_strndup(arena, text, copy.len);
	free(text);
	json_decref(json);
	return copy;
}

static json_t *
follow(const json_t *json, va_list keys)
{
	const char *key;

	while (json != NULL && (key = va_arg(keys, const char *)) != NULL)
		json = json_object_get(json, key);
	return (json_t *) json;
}

json_t *
kube_json_at(const json_t *json,...)
{
	va_list		keys;
	json_t	   *found;

	va_start(keys, json);
	found = follow(json, keys);
	va_end(keys);
	return found;
}

const char *
kube_json_text(const json_t *json,...)
{
	va_list		keys;
	const json_t *found;

	va_start(keys, json);
	found = follow(json, keys);
	va_end(keys);
	return json_is_string(found) && strlen(json_string_value(found)) == json_string_length(found) ?
		json_string_value(found) : NULL;
}

bool
kube_json_is(const json_t *json, const char *text)
{
	const char *found = kube_json_text(json, NULL);

	return found != NULL && strcmp(found, text) == 0;
}

bool
kube_json_is_list(const json_t *json)
{
	const json_t *items = json_object_get(json, "items");

	return (json_is_array(items) || json_is_null(items)) &&
		kube_json_text(json, "metadata", "resourceVersion", NULL) != NULL;
}

json_t *
kube_json_string(const char *text)
{
	json_t	   *string = json_string(text);
	Arena		arena;
	StrBuf		literal;
	JsonText	bytes;

	if (string != NULL)
		return string;
	arena_init(&arena);
	strbuf_init(&literal, &arena);
	bytes = json_cstring_text(&arena, text);
	json_write_string(&literal, bytes.bytes, bytes.len);
	string = kube_json_read(literal.bytes, literal.len);
	arena_free(&arena);
	return string;
}
