/*-------------------------------------------------------------------------
 *
 * cleanup_list.h
 *	  The objects of a type in etcd, and whether the database has each of them.
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
	size_t		found;			/* objects in etcd */
	size_t		verified;		/* may be deleted: the database has copies */
	size_t		gone;			/* were imported, and then deleted in the database */
	size_t		refused;
	size_t		deleted;
	size_t		failed;			/* could not be deleted */
} CleanupCounts;

typedef struct Cleanup
{
	const ReportStore *store;
	Asker	   *kube;
	const ReportKind *kind;
	const char *version;		/* a version whose objects kube-apiserver reads from etcd */
	int			page_size;
	bool		deletes;		/* false: only counts */
	bool		also_gone;
	bool		tells;			/* prints each object that is refused */
	CleanupCounts counts;
	Progress	progress;
} Cleanup;

/*
 * Counts all objects of the type, and deletes those with copies if deletes is set.  On failure prints, returns false.
 */
extern bool cleanup_list(Cleanup *cleanup);

/*
 * Returns a version for which kube-apiserver reads from etcd: the type's own version, or another version of the
 * CustomResourceDefinition (wanted; "": any).  Returns NULL when there is none: then *absent is true if the type does
 * not exist, else an error was printed.
 */
extern const char *cleanup_version(Asker *kube, Arena *arena, const ReportKind *kind, const char *wanted, bool *absent);

#endif							/* CLEANUP_LIST_H */
