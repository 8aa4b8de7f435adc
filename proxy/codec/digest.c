/*-------------------------------------------------------------------------
 *
 * digest.c
 *	  SHA-256 as text.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/digest.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>

void
hex_write(const unsigned char *bytes, size_t len, char *hex)
{
	hex[0] = '\0';
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
}

void
sha256_hex(const void *bytes, size_t len, char *hex)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int size = 0;

	if (EVP_Digest(bytes == NULL ? "" : bytes, len, digest, &size, EVP_sha256(), NULL) != 1)
		abort();
	hex_write(digest, size, hex);
}
