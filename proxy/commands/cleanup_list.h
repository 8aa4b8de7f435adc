/*-------------------------------------------------------------------------
 *
 * cleanup_list.h
 *	  The objects of a type that etcd holds, with what the database says of each.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CLEANUP_LIST_H
#define CLEANUP_LIST_H

#include "cluster/ask.h"
#include "commands/progress.h"
#include "commands/report_store.h"

typedef struct CleanupCounts
{
	size_t		found;			/* in etcd */
	size_t		verified;		/* may be deleted: the database has them */
	size_t		gone;			/* were imported, and have been deleted in the database since */
	size_t		refused;
	size_t		deleted;
	size_t		failed;			/* could not be deleted */
} CleanupCounts;

typedef struct Cleanup
{
	const ReportStore *store;
	Asker	   *kube;
	const ReportKind *kind;
	const char *version;		/* by which etcd is reached */
	int			page_size;
	bool		deletes;		/* false: only looks */
	bool		also_gone;
	bool		tells;			/* of each object that is refused */
	CleanupCounts counts;
	Progress	progress;
} Cleanup;

/* Goes through all objects; false when that failed, which has been told. */
extern bool cleanup_list(Cleanup *cleanup);

/*
 * A version by which kube-apiserver reaches etcd: the type's own, or another one of the CustomResourceDefinition
 * (wanted, "" any). NULL when there is none, which has been told; *absent: because there is no such type.
 */
extern const char *cleanup_version(Asker *kube, Arena *arena, const ReportKind *kind, const char *wanted, bool *absent);

#endif							/* CLEANUP_LIST_H */
