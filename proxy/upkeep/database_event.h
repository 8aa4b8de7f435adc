/*-------------------------------------------------------------------------
 *
 * database_event.h
 *	  Creates Kubernetes Events about the database, for the operators of the cluster.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DATABASE_EVENT_H
#define DATABASE_EVENT_H

/* The upkeep process calls this; does nothing without a kube-apiserver. */
extern void database_events_start(void);

#endif							/* DATABASE_EVENT_H */
