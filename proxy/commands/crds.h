/*-------------------------------------------------------------------------
 *
 * crds.h
 *	  The names and versions of the CustomResourceDefinitions of a cluster.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CRDS_H
#define CRDS_H

#include "base/name_list.h"
#include "cluster/ask.h"

/* Reads the names (plural.group) of all CRDs, in the arena.  On failure false and *why. */
extern bool crds_list(Asker *kube, Arena *arena, NameList *names, const char **why);

/*
 * Reads which of the named CRDs belong to the group and serve the version, and stores their plural names.
 * kube-apiserver serves these types unless an APIService leads elsewhere.  If a CRD cannot be read, false and *why.
 */
extern bool crds_of_version(Asker *kube, Arena *arena, const NameList *names, const char *group, const char *version,
							NameList *plurals, const char **why);

#endif							/* CRDS_H */
