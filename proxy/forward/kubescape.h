/*-------------------------------------------------------------------------
 *
 * kubescape.h
 *	  Objects of Kubescape, whose own API server gives their contents only in some lists.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_KUBESCAPE_H
#define FORWARD_KUBESCAPE_H

#include <stdbool.h>

#include "engine/base/json.h"

/* The parameter by which a list of Kubescape's API server has whole objects, on each page of it. */
#define KUBESCAPE_WHOLE "&resourceVersion=fullSpec"

/* Whether a type, as in --kinds, is one of Kubescape's. */
extern bool kubescape_type(const char *type);

/* Whether a list comes from Kubescape's API server: its lists have no version.  metadata: of the list. */
extern bool kubescape_list(Arena *arena, const JsonNode *metadata);

/* Whether an object of the type has its contents. */
extern bool kubescape_whole(const char *type, const JsonNode *object);

#endif							/* FORWARD_KUBESCAPE_H */
