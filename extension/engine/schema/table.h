/*-------------------------------------------------------------------------
 *
 * table.h
 *	  Printer columns: JSONPath, cells, ages.
 *
 * Reference: k8s-conformance section 11.2 (TAB-01 to TAB-09).
 *
 *-------------------------------------------------------------------------
 */
#ifndef TABLE_H
#define TABLE_H

#include "engine/schema/jsonpath.h"

typedef struct TableColumn TableColumn;

struct TableColumn
{
	const char *name;
	const char *type;			/* integer number string boolean date */
	const char *format;
	const char *description;
	int64_t		priority;
	JsonPathStep *path;			/* NULL for the first column, Name, which is not in the CRD */
	bool		metadata_only;	/* the path stays within .metadata */
};

/*
 * Appends the cell as JSON: null when the value is absent (also for a date), "<unknown>" for the zero time, "<invalid>"
 * for a date that is no time or too far in the future.  document needs only the members that table_document() returns.
 */
extern void table_cell(StrBuf *buf, const TableColumn *column, const JsonNode *document, int64_t now);

/*
 * The members of a stored object that the columns (and the Name column) read, without apiVersion and kind.  The other
 * members are not parsed.  body may be empty when all columns are metadata_only.
 */
extern JsonNode *table_document(Arena *arena, const TableColumn *columns, size_t count,
								JsonText metadata, JsonText body);

#endif							/* TABLE_H */
