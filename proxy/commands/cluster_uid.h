/*-------------------------------------------------------------------------
 *
 * cluster_uid.h
 *	  Which cluster a command works for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CLUSTER_UID_H
#define CLUSTER_UID_H

#include "cluster/ask.h"

/*
 * The uid of the namespace kube-system; given is what --cluster-id says, "" nothing: kube-apiserver is asked, and has
 * to agree. kube NULL: nobody is asked.  NULL when it cannot be had, which has been told.
 */
extern const char *cluster_uid(Asker *kube, Arena *arena, const char *given);

#endif							/* CLUSTER_UID_H */
