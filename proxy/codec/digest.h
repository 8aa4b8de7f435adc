/*-------------------------------------------------------------------------
 *
 * digest.h
 *	  SHA-256 as text, for stored credentials and names of files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DIGEST_H
#define DIGEST_H

#include <stddef.h>

/* Size in bytes of a SHA-256 in hexadecimal, with the NUL. */
#define DIGEST_HEX_SIZE 65

/* Writes bytes as lower-case hexadecimal digits and a NUL: 2 * len + 1 bytes. */
extern void hex_write(const unsigned char *bytes, size_t len, char *hex);

/* Writes the SHA-256 of bytes as hexadecimal digits and a NUL: DIGEST_HEX_SIZE bytes. */
extern void sha256_hex(const void *bytes, size_t len, char *hex);

#endif							/* DIGEST_H */
