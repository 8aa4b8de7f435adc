/*-------------------------------------------------------------------------
 *
 * summary.h
 *	  The results of a report in the policy working group's format, and the
 *	  summary that counts them.
 *
 * Results are in "results", the summary is beside them in "summary": at the top
 * level of policy reports, in "spec" of Kyverno's intermediate reports.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SUMMARY_H
#define SUMMARY_H

#include "engine/base/json.h"

/* The object within a document (whole, or without metadata) that has results or a summary; NULL if there is none. */
extern JsonNode *summary_place(const JsonNode *document);

/* The number of results for each of the five outcomes; all are 0 when results is NULL or no array. */
extern JsonNode *summary_count(Arena *arena, const JsonNode *results);

/*
 * Fills in the summary of a whole document if its producer left the summary out: the document has no summary, an empty
 * summary, or a summary that the server filled in before.  A summary without an owner in the managed fields was filled
 * in by the server.  In a document without managed fields, the summary counts as the producer's.  A producer's summary
 * stays unchanged, even if it is wrong.
 */
extern void summary_fill(Arena *arena, JsonNode *document);

#endif							/* SUMMARY_H */
