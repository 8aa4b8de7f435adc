/*-------------------------------------------------------------------------
 *
 * crd_list.h
 *	  The objects of a CustomResourceDefinition in a cluster, page by page, and
 *	  whether kube-apiserver serves them at all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CRD_LIST_H
#define CRD_LIST_H

#include "cluster/ask.h"
#include "commands/report_store.h"

/* Where kube-apiserver sends requests for a group and version to. */
typedef enum CrdReach
{
	CRD_STORED,					/* its own storage: a CustomResourceDefinition exists */
	CRD_SERVED,					/* an aggregated server, which hides the stored objects; *why: its Service */
	CRD_ABSENT,					/* nowhere */
	CRD_UNKNOWN					/* it does not tell; *why */
} CrdReach;

extern CrdReach crd_reach(Asker *kube, Arena *arena, const char *group, const char *version, const char **why);

typedef enum CrdStep
{
	CRD_PAGE,					/* a page; more follow */
	CRD_LAST,					/* the last page */
	CRD_RESTART,				/* the list has expired (410): the next call begins it anew */
	CRD_FAILED					/* *why */
} CrdStep;

/* The caller sets kube to page_size, and the other members to zero. */
typedef struct CrdList
{
	Asker	   *kube;
	const char *group;
	const char *version;
	const char *resource;
	bool		metadata_only;
	int			page_size;
	char	   *token;			/* where the list continues; allocated */
	bool		moved;			/* the list continued with a later state of the cluster (410) */
	bool		begun;			/* a page was read */
	int			restarts;
	int			expiries;		/* without a page in between */
	size_t		total;			/* objects of the whole list, from the first page; 0: unknown */
} CrdList;

/* Returns the items of the next page, in the arena; *status: the code of a failure. */
extern CrdStep crd_list_next(CrdList *list, Arena *arena, const JsonNode **items, int *status, const char **why);
extern void crd_list_end(CrdList *list);

#endif							/* CRD_LIST_H */
