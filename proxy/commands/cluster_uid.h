/*-------------------------------------------------------------------------
 *
 * cluster_uid.h
 *	  The cluster that a command works for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CLUSTER_UID_H
#define CLUSTER_UID_H

#include "cluster/ask.h"

/*
 * Returns the uid of the cluster.  kube-apiserver is asked for the uid of the namespace kube-system (kube NULL: not
 * asked); it must be equal to given, the value of --cluster-id ("": none).  On failure prints an error, returns NULL.
 */
extern const char *cluster_uid(Asker *kube, Arena *arena, const char *given);

#endif							/* CLUSTER_UID_H */
