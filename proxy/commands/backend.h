/*-------------------------------------------------------------------------
 *
 * backend.h
 *	  The Service that an APIService is to name: whether it is ready, and what it serves.
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
	BACKEND_NOT_YET,			/* worth waiting for */
	BACKEND_WRONG				/* not worth it */
} BackendState;

/*
 * Looks as kube-apiserver does before it calls an APIService available: the Service has the port, and an endpoint of
 * it is ready.  *address is that endpoint's HOST:PORT.  Otherwise *why.
 */
extern BackendState backend_look(Asker *kube, Arena *arena, const ServiceAddress *service, const char **address,
								 const char **why);

/* What a server serves of a group and version: plural names; none: nothing.  False with answer->why. */
extern bool backend_served(Asker *server, Arena *arena, const char *group, const char *version, NameList *plurals,
						   Answer *answer);

/*
 * The same out of the database that the servers of a cluster have, by a connection string; "" leaves all of it to
 * libpq's environment.  False with *why.
 */
extern bool backend_registered(Arena *arena, const char *database, const char *cluster, const char *group,
							   const char *version, NameList *plurals, const char **why);

#endif							/* BACKEND_H */
