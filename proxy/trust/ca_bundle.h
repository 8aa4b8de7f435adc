/*-------------------------------------------------------------------------
 *
 * ca_bundle.h
 *	  Files and texts with the certificates of CAs, PEM.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CA_BUNDLE_H
#define CA_BUNDLE_H

#include <openssl/x509_vfy.h>

#include "engine/base/json.h"

/* The text of a file, in the arena; false, with the reason, when it cannot be read, is empty or too large. */
extern bool ca_bundle_read(Arena *arena, const char *path, JsonText *pem, char *why, size_t why_size);

/*
 * Every certificate of a text, at least one, becomes an anchor of *store, which is the caller's to free whatever the
 * result; subjects are added to names unless that is NULL.  False, with the reason, which begins with name.
 */
extern bool ca_bundle_load(X509_STORE * *store, STACK_OF(X509_NAME) * names, JsonText pem, const char *name, char *why,
						   size_t why_size);

/*
 * Whether the newest certificate of a store that was loaded is newer than that of another.  Of two different ones
 * that begin to be valid in the same second one is, too, and it is always the same one.
 */
extern bool ca_bundle_is_newer(X509_STORE * store, X509_STORE * other);

#endif							/* CA_BUNDLE_H */
