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

#include "engine/base/json.h"

typedef struct JsonPathStep JsonPathStep;
typedef struct TableColumn TableColumn;

struct TableColumn
{
	const char *name;
	const char *type;			/* integer number string boolean date */
	const char *format;
	const char *description;
	int64_t		priority;
	JsonPathStep *path;			/* NULL for the Name column, which comes first and is not in the CRD */
	bool		metadata_only;	/* the path stays within .metadata */
};

/*
 * The JSONPath subset that kubectl's printer columns use: .a.b, ['a.b'], [0], [*], [?(@.x=="y")], "\." in
 * names.  NULL and *error when it is none.
 */
extern JsonPathStep *jsonpath_compile(Arena *arena, const char *text, const char **error);

/* Whether all that the path can select stands within .metadata. */
extern bool jsonpath_within_metadata(const JsonPathStep *path);

/*
 * Appends the cell as JSON: null when absent (also a date), "<unknown>" for the zero time, "<invalid>" for what is no
 * time or too far in the future.  document needs no more than table_document() gives.
 */
extern void table_cell(StrBuf *buf, const TableColumn *column, const JsonNode *document, int64_t now);

/*
 * The members of a stored object that the columns (and the Name column) read, without apiVersion and kind; the rest of
 * the texts is not parsed.  body may be empty when all columns are metadata_only.
 */
extern JsonNode *table_document(Arena *arena, const TableColumn *columns, size_t count,
								JsonText metadata, JsonText body);

/* TAB-03: duration in seconds as kubectl writes an age. */
extern void human_duration(StrBuf *buf, int64_t seconds);

#endif							/* TABLE_H */
