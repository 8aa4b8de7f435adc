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

#include "../extension/json.h"

/* The text of a file, in the arena; false, with the reason, when it cannot be read, is empty or too large. */
extern bool ca_bundle_read(Arena *arena, const char *path, JsonText *pem, char *why, size_t why_size);

/*
 * Every certificate of a text, at least one, becomes an anchor of *store, which is the caller's to free whatever the result; subjects
 * are added to names unless that is NULL.  False, with the reason, which begins with name.
 */
extern bool ca_bundle_load(X509_STORE **store, STACK_OF(X509_NAME) *names, JsonText pem, const char *name, char *why, size_t why_size);

/* When the last of its certificates begins to be valid; NULL when there is none. */
extern const ASN1_TIME *ca_bundle_newest(X509_STORE *store);

#endif							/* CA_BUNDLE_H */
