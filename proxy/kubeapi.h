/*-------------------------------------------------------------------------
 *
 * kubeapi.h
 *	  What the proxy asks of kube-apiserver.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KUBEAPI_H
#define KUBEAPI_H

#include "kubeconfig.h"

/*
 * The uid of the namespace kube-system, which stands for the cluster.  Blocks for at most ten seconds: for the
 * parent, before it has workers.  NULL with *why when it cannot be had.
 */
extern const char *kubeapi_cluster_uid(Arena *arena, const KubeConfig *kubeconfig, const char **why);

#endif							/* KUBEAPI_H */
