/*-------------------------------------------------------------------------
 *
 * summary.h
 *	  The results of a report in the policy working group's format, and the
 *	  summary that counts them.
 *
 * Results stand in "results", the summary beside them in "summary": at the top
 * of policy reports, in "spec" of Kyverno's intermediate ones.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SUMMARY_H
#define SUMMARY_H

#include "engine/base/json.h"

/* The object of a document (whole, or without its metadata) that has results or a summary; NULL when there is none. */
extern JsonNode *summary_place(const JsonNode *document);

/* How many results have each outcome; results may be NULL or of another form: none.  All five members are there. */
extern JsonNode *summary_count(Arena *arena, const JsonNode *results);

/*
 * Fills in the summary of a whole document whose producer left it out: which has none, an empty one, or one that the
 * server filled in before.  The last is one of which the managed fields name no owner.  Where there are no managed
 * fields, a summary is the producer's.  A producer's stays as it is, right or wrong.
 */
extern void summary_fill(Arena *arena, JsonNode *document);

#endif							/* SUMMARY_H */
