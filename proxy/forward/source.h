/*-------------------------------------------------------------------------
 *
 * source.h
 *	  The objects of one kind in a cluster: a list, then a watch.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_SOURCE_H
#define FORWARD_SOURCE_H

#include "cluster/kubeapi.h"

/*
 * Follows a kind such as policyreports.wgpolicyk8s.io/v1alpha2, whose objects are of kind name (PolicyReport), from its
 * position in the queue.
 */
extern void source_start(KubeApi *api, const char *kind, const char *name);

/* Lists every kind again and compares it with the receiver. */
extern void sources_resync(void);

/* Continues work that waited for a stored batch or for room in the queue. */
extern void sources_go_on(uint64_t stored);

typedef struct SourceCounts
{
	uint64_t	events;
	uint64_t	lists;
	size_t		kinds;
	size_t		watching;		/* kinds whose watch is open */
} SourceCounts;

extern SourceCounts source_counts(void);

#endif							/* FORWARD_SOURCE_H */
