/*-------------------------------------------------------------------------
 *
 * crd_list.h
 *	  The objects of a CustomResourceDefinition in a cluster, page by page, and
 *	  whether kube-apiserver gives them at all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CRD_LIST_H
#define CRD_LIST_H

#include "cluster/ask.h"
#include "commands/report_store.h"

/* Where kube-apiserver sends requests for a group and version. */
typedef enum CrdReach
{
	CRD_STORED,					/* to its own storage: there is a CustomResourceDefinition */
	CRD_SERVED,					/* to an aggregated server, which hides what is stored; why names its service */
	CRD_ABSENT,					/* nowhere */
	CRD_UNKNOWN					/* it does not say; why */
} CrdReach;

extern CrdReach crd_reach(Asker *kube, Arena *arena, const char *group, const char *version, const char **why);

typedef enum CrdStep
{
	CRD_PAGE,					/* a page; more follow */
	CRD_LAST,					/* the last page */
	CRD_RESTART,				/* the list was lost (410): the next call begins it anew */
	CRD_FAILED					/* why */
} CrdStep;

/* Begins zeroed, with kube to page_size. */
typedef struct CrdList
{
	Asker	   *kube;
	const char *group;
	const char *version;
	const char *resource;
	bool		metadata_only;
	int			page_size;
	char	   *token;			/* where it goes on; allocated */
	bool		moved;			/* a part of it is of a later state of the cluster than the part before (410) */
	int			restarts;
	size_t		total;			/* of the whole list, as the first page said; 0: unknown */
} CrdList;

/* The items of the next page, in the arena; status: that of a failure. */
extern CrdStep crd_list_next(CrdList *list, Arena *arena, const JsonNode **items, int *status, const char **why);
extern void crd_list_end(CrdList *list);

#endif							/* CRD_LIST_H */
