/*-------------------------------------------------------------------------
 *
 * ca_bundle.h
 *	  CA certificates from files and texts, PEM.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CA_BUNDLE_H
#define CA_BUNDLE_H

#include <openssl/x509_vfy.h>

#include "engine/base/json.h"

/* Reads a file into the arena; false, with the reason, when it cannot be read or is too large. */
extern bool ca_bundle_read(Arena *arena, const char *path, JsonText *pem, char *why, size_t why_size);

/*
 * Adds all certificates of a text, at least one, to *store as trust anchors.  The caller frees *store, whatever the
 * result.  Adds the subjects to names unless that is NULL.  False, with the reason, which begins with name.
 */
extern bool ca_bundle_load(X509_STORE * *store, STACK_OF(X509_NAME) * names, JsonText pem, const char *name, char *why,
						   size_t why_size);

/*
 * Whether the newest certificate of store is newer than the newest of other.  When the validity of two different
 * certificates starts in the same second, every proxy takes the same one for newer.
 */
extern bool ca_bundle_is_newer(X509_STORE * store, X509_STORE * other);

#endif							/* CA_BUNDLE_H */
