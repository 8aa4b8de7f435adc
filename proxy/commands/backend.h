/*-------------------------------------------------------------------------
 *
 * backend.h
 *	  The Service that an APIService will name: whether it is ready, and which types it serves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BACKEND_H
#define BACKEND_H

#include "base/name_list.h"
#include "cluster/ask.h"
#include "cluster/registration.h"

typedef enum BackendState
{
	BACKEND_READY,
	BACKEND_NOT_YET,			/* may become ready */
	BACKEND_WRONG				/* cannot become ready without a change of the Service */
} BackendState;

/*
 * Makes the same checks as kube-apiserver before it calls an APIService available: the Service has the port, and one
 * of its endpoints is ready.  Sets *address to that endpoint's HOST:PORT, otherwise *why.
 */
extern BackendState backend_look(Asker *kube, Arena *arena, const ServiceAddress *service, const char **address,
								 const char **why);

/* Reads from a server which types of a group and version it serves (plural names).  On failure false, answer->why. */
extern bool backend_served(Asker *server, Arena *arena, const char *group, const char *version, NameList *plurals,
						   Answer *answer);

/*
 * Reads the same from the database of the servers.  database is a connection string; with "" libpq takes all parameters
 * from the environment.  cluster is the uid of the cluster.  On failure false and *why.
 */
extern bool backend_registered(Arena *arena, const char *database, const char *cluster, const char *group,
							   const char *version, NameList *plurals, const char **why);

#endif							/* BACKEND_H */
