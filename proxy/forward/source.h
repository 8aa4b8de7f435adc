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
 * Starts to follow a type, from its position in the queue.  kind: such as policyreports.wgpolicyk8s.io/v1alpha2.  name:
 * the kind of its objects, such as PolicyReport.
 */
extern void source_start(KubeApi *api, const char *kind, const char *name);

/* Sets how often kinds are listed that cannot be watched (see kubescape.c). */
extern void sources_list_every(int seconds);

/* Lists every kind again and compares it with the receiver. */
extern void sources_resync(void);

/* Continues work that waits for room in the queue, or until the batch with the number stored is stored. */
extern void sources_go_on(uint64_t stored);

typedef struct SourceCounts
{
	uint64_t	events;
	uint64_t	lists;
	size_t		kinds;
	size_t		watching;		/* kinds whose watch is open, or that are listed at an interval */
} SourceCounts;

extern SourceCounts source_counts(void);

#endif							/* FORWARD_SOURCE_H */
