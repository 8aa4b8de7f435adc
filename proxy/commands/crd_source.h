/*-------------------------------------------------------------------------
 *
 * crd_source.h
 *	  CustomResourceDefinitions from files and from kube-apiserver, for register.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CRD_SOURCE_H
#define CRD_SOURCE_H

#include "base/name_list.h"
#include "cluster/ask.h"

/* A CustomResourceDefinition. */
typedef struct CrdText
{
	const char *name;			/* plural.group */
	const char *group;
	const char *origin;			/* file or server, for messages */
	NameList	versions;		/* the served versions */
	JsonText	text;
} CrdText;

typedef struct CrdSet
{
	CrdText    *crds;
	size_t		count;
	size_t		capacity;
} CrdSet;

/*
 * Adds the CustomResourceDefinitions of a file (YAML with any number of documents, or JSON; "-" is standard input), or
 * of the files *.yaml, *.yml and *.json of a directory.  group: add only CustomResourceDefinitions of this group; NULL:
 * of all groups.  Other documents are ignored.  On failure prints an error and returns false.
 */
extern bool crd_set_add_path(CrdSet *set, Arena *arena, const char *path, const char *group);

/* Adds the CustomResourceDefinitions of a group that kube-apiserver has.  On failure prints an error, returns false. */
extern bool crd_set_add_group(CrdSet *set, Arena *arena, Asker *kube, const char *group);

#endif							/* CRD_SOURCE_H */
