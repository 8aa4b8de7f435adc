/*-------------------------------------------------------------------------
 *
 * digest.h
 *	  SHA-256 as text: how credentials are stored, and files are named.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DIGEST_H
#define DIGEST_H

#include <stddef.h>

/* Bytes of a SHA-256 in hexadecimal, with the NUL. */
#define DIGEST_HEX_SIZE 65

/* Writes bytes as lower-case hexadecimal digits and a NUL: 2 * len + 1 bytes. */
extern void hex_write(const unsigned char *bytes, size_t len, char *hex);

/* Writes the SHA-256 of bytes in this form. */
extern void sha256_hex(const void *bytes, size_t len, char *hex);

#endif							/* DIGEST_H */
