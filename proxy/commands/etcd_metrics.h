/*-------------------------------------------------------------------------
 *
 * etcd_metrics.h
 *	  What kube-apiserver's metrics say of etcd: its size, and how many objects of a type it holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ETCD_METRICS_H
#define ETCD_METRICS_H

#include "cluster/ask.h"

typedef struct EtcdMetrics
{
	const char *why;			/* NULL: they could be read */
	JsonText	text;
} EtcdMetrics;

extern EtcdMetrics etcd_metrics_read(Asker *kube, Arena *arena);

/* Below 0: not said. */
extern double etcd_metrics_size(const EtcdMetrics *metrics);
extern double etcd_metrics_objects(const EtcdMetrics *metrics, const char *group, const char *resource);

#endif							/* ETCD_METRICS_H */
