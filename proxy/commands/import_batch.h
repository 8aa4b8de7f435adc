/*-------------------------------------------------------------------------
 *
 * import_batch.h
 *	  Writes objects into the database in batches, and verifies each batch after its commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IMPORT_BATCH_H
#define IMPORT_BATCH_H

#include "commands/progress.h"
#include "commands/report_store.h"

/* Numbers of objects of one type, by their outcome. */
typedef struct ImportCounts
{
	size_t		read;
	size_t		imported;
	size_t		updated;
	size_t		unchanged;
	size_t		kept;			/* not copied: the stored object is newer */
	size_t		refused;		/* invalid, or its namespace is being deleted */
	size_t		altered;		/* stored as a different document */
	size_t		verified;		/* read again after the commit: the same document */
	size_t		gone;			/* copies of objects that the source no longer has */
} ImportCounts;

typedef struct ImportItem
{
	JsonText	namespace_name;
	JsonText	name;
	JsonText	source_version;
	JsonText	metadata;		/* canonical JSON, without resourceVersion */
	JsonText	body;			/* without apiVersion, kind and metadata */
	bool		stored;
} ImportItem;

/* Limits of a transaction, in objects and in bytes, so that other writers of the type wait only for a short time. */
#define IMPORT_BATCH_OBJECTS 64
#define IMPORT_BATCH_BYTES ((size_t) 2 * 1024 * 1024)

typedef struct ImportBatch
{
	const ReportStore *store;
	const ReportKind *kind;
	const char *source;			/* the parameter source of api_import() */
	bool		overwrite;
	ImportCounts counts;
	Progress	progress;
	size_t		kept_told;
	size_t		unnoted;		/* objects that the database could not take: it does not know that they were seen */
	Arena		arena;			/* memory of the items */
	ImportItem	items[IMPORT_BATCH_OBJECTS];
	size_t		count;
	size_t		bytes;
} ImportBatch;

extern void import_batch_begin(ImportBatch *batch, const ReportStore *store, const ReportKind *kind, const char *source,
							   bool overwrite);

/*
 * Adds an object, whose tree is changed; sends the batch when it is full.  import_batch_flush() sends the rest.  If the
 * database accepts no writes, they print an error and return false.
 */
extern bool import_batch_add(ImportBatch *batch, Arena *arena, JsonNode *document);
extern bool import_batch_flush(ImportBatch *batch);

/* Counts and prints an object that cannot be added; namespace_name: "" for an object of the cluster. */
extern void import_batch_refuse(ImportBatch *batch, const char *namespace_name, const char *name, const char *reason);
extern void import_batch_end(ImportBatch *batch);

#endif							/* IMPORT_BATCH_H */
