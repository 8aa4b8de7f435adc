/*-------------------------------------------------------------------------
 *
 * crds.h
 *	  The CustomResourceDefinitions of a cluster, as the commands need them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CRDS_H
#define CRDS_H

#include "base/name_list.h"
#include "cluster/ask.h"

/* The names (plural.group) of all CRDs.  On failure false and *why. */
extern bool crds_list(Asker *kube, Arena *arena, NameList *names, const char **why);

/*
 * The plural names of those CRDs in the list that have the version, which kube-apiserver serves unless an APIService
 * leads elsewhere.  If a CRD cannot be read, false and *why.
 */
extern bool crds_of_version(Asker *kube, Arena *arena, const NameList *names, const char *group, const char *version,
							NameList *plurals, const char **why);

#endif							/* CRDS_H */
