/*-------------------------------------------------------------------------
 *
 * kube_json.h
 *	  The JSON of conversations with kube-apiserver: read and written with jansson.
 *
 * The engine's JSON (engine/base/json.h) is for documents: reports and CRDs,
 * whose exact bytes matter.  All other JSON that the proxy sends or receives is
 * a conversation: reviews, namespaces, policies, APIServices and so on.
 *
 * jansson counts references: the caller of kube_json_read() and of json_pack()
 * gets a reference, and declares its variable json_auto_t.  Other functions
 * return no reference: the result lives as long as the value in which it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KUBE_JSON_H
#define KUBE_JSON_H

#include <jansson.h>

#include "engine/base/json.h"

/* Makes jansson end the process when there is no memory, as arenas do.  Call once, at the start. */
extern void kube_json_start(void);

/*
 * Reads one JSON value; NULL if the bytes are not one JSON value in UTF-8.  The last of equal keys counts.  Values that
 * kube-apiserver may store but jansson refuses are changed: if an integer exceeds 64 bits, all integers become reals; a
 * NUL in a key becomes U+FFFD.
 */
extern json_t *kube_json_read(const char *bytes, size_t len);

/* Returns compact text with sorted keys, in the arena; takes the reference. */
extern JsonText kube_json_write(Arena *arena, json_t *json);

/* Returns the member at a path of keys, which ends with NULL; NULL when there is no such member. */
extern json_t *kube_json_at(const json_t *json,...) __attribute__((sentinel));

/* Returns the text of the string at a path of keys; NULL also when the member is no string, or contains a NUL. */
extern const char *kube_json_text(const json_t *json,...) __attribute__((sentinel));

/* Whether the value is a string with this text. */
extern bool kube_json_is(const json_t *json, const char *text);

/*
 * Whether the value is a list of Kubernetes.  Callers check this, because a server between kube-apiserver and the proxy
 * may answer 200 with another document, which does not mean that there are no objects.  Go writes empty items as null.
 */
extern bool kube_json_is_list(const json_t *json);

/* Returns a string made of any bytes: JSON_NUL becomes NUL, and U+FFFD replaces bytes that are not UTF-8. */
extern json_t *kube_json_string(const char *text);

#endif							/* KUBE_JSON_H */
