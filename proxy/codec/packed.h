/*-------------------------------------------------------------------------
 *
 * packed.h
 *	  Documents as the database stores them.
 *
 * kube_reports_internal.stored_bytes() returns the text of a document, or, when
 * it is stored with lz4: the byte 1, four bytes of the length of the text in
 * network order, and a block of lz4.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PACKED_H
#define PACKED_H

#include "engine/base/json.h"

/* Returns the length of the text in bytes; 0 when the bytes cannot be a document. */
extern size_t packed_length(JsonText packed);

/*
 * Returns the text: the given bytes themselves when they are not packed, else the text in room, which must have
 * packed_length() bytes.  bytes is NULL when the block is damaged.
 */
extern JsonText packed_text(JsonText packed, char *room);

#endif							/* PACKED_H */
