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
 * The uid of the namespace kube-system.  kube-apiserver is asked (kube NULL: not asked), and must agree with given,
 * the value of --cluster-id ("": none).  If the uid cannot be found out, prints an error and returns NULL.
 */
extern const char *cluster_uid(Asker *kube, Arena *arena, const char *given);

#endif							/* CLUSTER_UID_H */
