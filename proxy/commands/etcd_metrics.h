/*-------------------------------------------------------------------------
 *
 * etcd_metrics.h
 *	  The size of etcd and the number of its objects of a type, from kube-apiserver's metrics.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ETCD_METRICS_H
#define ETCD_METRICS_H

#include "cluster/ask.h"

typedef struct EtcdMetrics
{
	const char *why;			/* error; NULL: the metrics were read */
	JsonText	text;
} EtcdMetrics;

extern EtcdMetrics etcd_metrics_read(Asker *kube, Arena *arena);

/* Return the size of etcd in bytes, and its number of objects of a type; below 0: unknown. */
extern double etcd_metrics_size(const EtcdMetrics *metrics);
extern double etcd_metrics_objects(const EtcdMetrics *metrics, const char *group, const char *resource);

#endif							/* ETCD_METRICS_H */
