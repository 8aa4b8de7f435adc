/*-------------------------------------------------------------------------
 *
 * kube_version.h
 *	  Kubernetes' order of the versions of a group.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KUBE_VERSION_H
#define KUBE_VERSION_H

/* Below 0 when a comes before b: v2 v1 v2beta1 v1beta2 v1alpha1, then all other names. */
extern int	version_priority_compare(const char *a, const char *b);

#endif							/* KUBE_VERSION_H */
