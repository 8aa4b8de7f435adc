/*-------------------------------------------------------------------------
 *
 * metadata.h
 *	  Object metadata: coercion, validation, names.
 *
 * Reference: k8s-conformance CRE-03..11, UPD-02, UPD-05.
 *
 *-------------------------------------------------------------------------
 */
#ifndef METADATA_H
#define METADATA_H

#include "engine/api/status.h"

/*
 * Coerces metadata to the shape of ObjectMeta, in place.  Drops unknown keys (and reports them to unknown, as
 * "metadata.foo"), nulls, empty maps and lists, and selfLink.  An empty managedFields stays until field_owner.h has
 * handled it.  For a wrong type, returns false and a message in Go's words in *error ("json: cannot unmarshal number
 * into Go struct field ObjectMeta.labels of type string").
 */
extern bool metadata_coerce(Arena *arena, JsonNode *metadata, UnknownField unknown, void *state, const char **error);

/*
 * CRE-05, CRE-08, MF-08: checks name, namespace, labels, annotations, ownerReferences, finalizers and managedFields of
 * a new object; paths begin with "metadata".
 */
extern void metadata_validate(Arena *arena, const JsonNode *metadata, bool namespaced, FieldErrorList *errors);

/*
 * The same for an update of a stored object, whose name is already valid; also checks immutable fields and the
 * finalizers of a terminating object.
 */
extern void metadata_validate_update(Arena *arena, const JsonNode *metadata, const JsonNode *stored, bool namespaced,
									 FieldErrorList *errors);

/* CRE-10: drops duplicate ownerReferences and adds their uids to *duplicates (a JSON array) for the warning. */
extern void metadata_dedup_owners(Arena *arena, JsonNode *metadata, JsonNode *duplicates);

/* The finalizers that stored (may be NULL) does not have, once each, sorted. */
extern size_t metadata_new_finalizers(Arena *arena, const JsonNode *metadata, const JsonNode *stored, JsonText **added);

/* CRE-03: prefix (cut to 58 bytes) and 5 characters chosen by the random bytes. */
extern char *metadata_generate_name(Arena *arena, const char *prefix, const uint8_t random[5]);

/* Whether a text is a label of RFC 1123 (at most 63 bytes), or several labels with dots between them (at most 253). */
extern bool is_dns1123_label(JsonText text);
extern bool is_dns1123_subdomain(JsonText text);

/* Check a label key or value; return a NULL-terminated list of upstream's messages, or NULL if there is no error. */
extern const char *const *qualified_name_errors(Arena *arena, JsonText key);
extern const char *const *label_value_errors(Arena *arena, JsonText value);

/*
 * Times in RFC 3339, in UTC with whole seconds: "2026-01-01T00:00:00Z".  seconds count from 1970.  parse_time() returns
 * false if the text is not a time.
 */
extern char *format_time(Arena *arena, int64_t seconds);
extern bool parse_time(JsonText text, int64_t *seconds);

#endif							/* METADATA_H */
