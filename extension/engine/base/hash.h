/*-------------------------------------------------------------------------
 *
 * hash.h
 *	  FNV-1a.  The hash has no secret, so clients can choose texts with equal
 *	  hashes: use it only where such texts cost no other client anything.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HASH_H
#define HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_SEED UINT64_C(14695981039346656037)

/* Continues a hash, which begins with HASH_SEED. */
static inline uint64_t
hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
	const unsigned char *byte = bytes;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
	return hash;
}

#endif							/* HASH_H */
