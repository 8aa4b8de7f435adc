/*-------------------------------------------------------------------------
 *
 * database_event.h
 *	  Kubernetes Events about the database, for whoever runs the cluster.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DATABASE_EVENT_H
#define DATABASE_EVENT_H

/* Called by the upkeep process; does nothing where there is no kube-apiserver. */
extern void database_events_start(void);

#endif							/* DATABASE_EVENT_H */
