/*-------------------------------------------------------------------------
 *
 * import_batch.h
 *	  Objects on their way into the database: in batches, each verified after its commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IMPORT_BATCH_H
#define IMPORT_BATCH_H

#include "commands/progress.h"
#include "commands/report_store.h"

/* Objects of one type by what became of them. */
typedef struct ImportCounts
{
	size_t		read;
	size_t		imported;
	size_t		updated;
	size_t		unchanged;
	size_t		kept;			/* what is stored is newer */
	size_t		refused;		/* invalid, or of a namespace that is being deleted */
	size_t		altered;		/* stored, but not as the same document */
	size_t		verified;		/* read again after the commit, and the same document */
	size_t		gone;			/* copies of what the source has no more */
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

/*
 * At most so many objects, or so many bytes, in a transaction: other writers of the type wait for one of these at most.
 */
#define IMPORT_BATCH_OBJECTS 64
#define IMPORT_BATCH_BYTES ((size_t) 2 * 1024 * 1024)

typedef struct ImportBatch
{
	const ReportStore *store;
	const ReportKind *kind;
	bool		overwrite;
	ImportCounts counts;
	Progress	progress;
	size_t		kept_told;
	Arena		arena;			/* of the items */
	ImportItem	items[IMPORT_BATCH_OBJECTS];
	size_t		count;
	size_t		bytes;
} ImportBatch;

extern void import_batch_begin(ImportBatch *batch, const ReportStore *store, const ReportKind *kind, bool overwrite);

/* Takes an object, whose tree is changed.  False when the database cannot be written to, which has been told. */
extern bool import_batch_add(ImportBatch *batch, Arena *arena, JsonNode *document);
extern bool import_batch_flush(ImportBatch *batch);
extern void import_batch_end(ImportBatch *batch);

/* The path of the first member in which two documents differ, NULL when they do not. */
extern const char *import_difference(Arena *arena, const JsonNode *source, const JsonNode *stored);

#endif							/* IMPORT_BATCH_H */
