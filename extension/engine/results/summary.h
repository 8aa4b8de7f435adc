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

/* The object of a document (whole, or without its metadata) that has results or a summary; NULL when there is none. */
extern JsonNode *summary_place(const JsonNode *document);

/* The number of results for each of the five outcomes; all are 0 when results is NULL or no array. */
extern JsonNode *summary_count(Arena *arena, const JsonNode *results);

/*
 * Fills in the summary of a whole document if its producer left it out: the document has no summary, an empty one, or
 * one that the server filled in before.  The server filled it in if the managed fields name no owner for it.  Without
 * managed fields, a summary counts as the producer's.  A producer's summary stays unchanged, even if it is wrong.
 */
extern void summary_fill(Arena *arena, JsonNode *document);

#endif							/* SUMMARY_H */
