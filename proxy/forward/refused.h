/*-------------------------------------------------------------------------
 *
 * refused.h
 *	  The items of the oldest batch that the receiver can never store.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_REFUSED_H
#define FORWARD_REFUSED_H

#include "engine/base/json.h"

/* The items of a batch that the next request has, in the arena or as they were given. */
extern JsonText refused_rest(Arena *arena, JsonText items);

/* Whether the next request is a probe, which must be one that no receiver stores. */
extern bool refused_probing(void);

/*
 * Reads the answer to a request with the items of refused_rest().  True: it told about items, and the batch is sent
 * again at once.  *count grows by the items that are left out from now on.
 */
extern bool refused_read(JsonText items, int status, JsonText answer, uint64_t *count);

/* The batch is stored. */
extern void refused_forget(void);

#endif							/* FORWARD_REFUSED_H */
