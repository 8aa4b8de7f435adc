/*-------------------------------------------------------------------------
 *
 * collection.h
 *	  A deletecollection that the proxy decides (variant sql).
 *
 * Pieces of at most 500 objects or 4 MB are loaded in the order of keys, and
 * deleted in dialogues of DIALOGUE_WRITES each.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COLLECTION_H
#define COLLECTION_H

#include "api/exchange.h"

extern void collection_start(Exchange *exchange);

#endif							/* COLLECTION_H */
