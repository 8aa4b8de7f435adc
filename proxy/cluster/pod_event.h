/*-------------------------------------------------------------------------
 *
 * pod_event.h
 *	  Kubernetes Events about the pod in which this process runs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef POD_EVENT_H
#define POD_EVENT_H

#include "cluster/kubeapi.h"

/*
 * Creates an Event of type Warning about this pod, and does not wait for the answer.  POD_NAME and POD_NAMESPACE name
 * the pod and its namespace.  Without these variables the names are the host name (the pod's name unless the pod uses
 * the host's network) and the namespace of the service account; outside of a cluster, component and default.  All texts
 * are copied; answer and state as for kubeapi_post().
 */
extern void pod_event_send(KubeApi *api, const char *component, const char *reason, const char *message,
						   KubeAnswer answer, void *state);

#endif							/* POD_EVENT_H */
