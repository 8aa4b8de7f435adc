/*-------------------------------------------------------------------------
 *
 * import_source.h
 *	  The sources of import: kube-apiserver, or the database of a reports-server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IMPORT_SOURCE_H
#define IMPORT_SOURCE_H

#include "cluster/ask.h"
#include "commands/import_batch.h"

typedef enum ImportEnd
{
	IMPORT_WHOLE,				/* everything was read */
	IMPORT_ABSENT,				/* the source has no such type */
	IMPORT_FAILED,				/* this type could not be read; an error was printed */
	IMPORT_STOPPED				/* nothing more can be stored; an error was printed */
} ImportEnd;

/*
 * Reads all objects of the batch's type into the batch, in pages of page_size objects.  version: of the
 * CustomResourceDefinition; "": the type's own version.
 */
extern ImportEnd import_from_cluster(ImportBatch *batch, Asker *kube, const char *version, int page_size);

/*
 * The same from the PostgreSQL of a reports-server: reads the rows of this cluster, and the rows that belong to no
 * cluster yet.  The check prints an error and returns false when the database has no tables or rows for the cluster.
 */
extern bool import_reports_server_check(PgSession *source, Arena *arena, const char *cluster);
extern ImportEnd import_from_reports_server(ImportBatch *batch, PgSession *source, int page_size);

#endif							/* IMPORT_SOURCE_H */
