/*-------------------------------------------------------------------------
 *
 * crds.h
 *	  The CustomResourceDefinitions of a cluster, as far as commands ask.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CRDS_H
#define CRDS_H

#include "base/name_list.h"
#include "cluster/ask.h"

/* The names of all of them, plural.group; false with *why when they cannot be had. */
extern bool crds_list(Asker *kube, Arena *arena, NameList *names, const char **why);

/*
 * The plural names of those, out of such a list, that have a version which kube-apiserver serves unless an APIService
 * leads elsewhere.  False with *why when one cannot be read.
 */
extern bool crds_of_version(Asker *kube, Arena *arena, const NameList *names, const char *group, const char *version,
							NameList *plurals, const char **why);

#endif							/* CRDS_H */
