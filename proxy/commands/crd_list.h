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

/* Where kube-apiserver sends requests for a group and version. */
typedef enum CrdReach
{
	CRD_STORED,					/* to its own storage: a CustomResourceDefinition exists */
	CRD_SERVED,					/* to an aggregated server, which hides the stored objects; *why: its Service */
	CRD_ABSENT,					/* nowhere: the group and version are not served */
	CRD_UNKNOWN					/* kube-apiserver does not tell; *why has the reason */
} CrdReach;

extern CrdReach crd_reach(Asker *kube, Arena *arena, const char *group, const char *version, const char **why);

typedef enum CrdStep
{
	CRD_PAGE,					/* a page; more follow */
	CRD_LAST,					/* the last page */
	CRD_RESTART,				/* the list has expired (410): the next call begins it anew */
	CRD_FAILED					/* *why has the reason */
} CrdStep;

/* A list.  The caller sets the members from kube to page_size, and the others to zero. */
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
	int			expiries;		/* number of 410 answers since the last page */
	size_t		total;			/* objects of the whole list, from the first page; 0: unknown */
} CrdList;

/* Reads the next page: *items are in the arena.  After CRD_FAILED, *status is the HTTP status (0: no answer). */
extern CrdStep crd_list_next(CrdList *list, Arena *arena, const JsonNode **items, int *status, const char **why);
extern void crd_list_end(CrdList *list);

#endif							/* CRD_LIST_H */
