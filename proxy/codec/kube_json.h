/*-------------------------------------------------------------------------
 *
 * kube_json.h
 *	  The JSON of conversations with kube-apiserver: read and written with jansson.
 *
 * The engine's JSON (engine/base/json.h) is for documents: reports and CRDs,
 * whose exact bytes matter.  All other JSON that the proxy sends or receives is
 * a conversation: reviews, namespaces, policies, APIServices and so on.
 *
 * Ownership is jansson's: the caller of kube_json_read() and of json_pack()
 * has a reference, and declares it json_auto_t.  Other functions borrow: what
 * they return lives as long as the value that they were given.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KUBE_JSON_H
#define KUBE_JSON_H

#include <jansson.h>

#include "engine/base/json.h"

/* Without memory, jansson ends the process, as arenas do: no text is ever cut short.  Call once, at the start. */
extern void kube_json_start(void);

/*
 * NULL if the bytes are not one JSON value in UTF-8.  The last one of equal keys counts.  Objects in a list may have
 * anything that kube-apiserver stores: integers beyond 64 bits become reals, a NUL in a key becomes U+FFFD.
 */
extern json_t *kube_json_read(const char *bytes, size_t len);

/* Compact text with sorted keys, in the arena; takes the reference. */
extern JsonText kube_json_write(Arena *arena, json_t *json);

/* Follows a chain of keys ended by NULL; NULL where there is no such member. */
extern json_t *kube_json_at(const json_t *json,...) __attribute__((sentinel));

/* The same for a string; NULL also if it contains a NUL. */
extern const char *kube_json_text(const json_t *json,...) __attribute__((sentinel));

/* Whether this is a string with this text. */
extern bool kube_json_is(const json_t *json, const char *text);

/*
 * Whether this is a list.  Something between kube-apiserver and the proxy may answer 200 with anything, which does not
 * mean that there are no objects.  Go writes an empty list as null.
 */
extern bool kube_json_is_list(const json_t *json);

/* A string of any bytes: JSON_NUL becomes NUL; where others are not UTF-8, U+FFFD takes their place. */
extern json_t *kube_json_string(const char *text);

#endif							/* KUBE_JSON_H */
