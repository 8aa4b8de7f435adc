/*-------------------------------------------------------------------------
 *
 * result_rows.h
 *	  Rows of results, in the form that result_difference() of the SQL variant
 *	  takes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RESULT_ROWS_H
#define RESULT_ROWS_H

#include "engine/results/result.h"

/*
 * A document before and after a change.  When a body has no bytes, there is no document.  When there is no metadata,
 * the body is the whole document.
 */
typedef struct ResultStates
{
	JsonText	old_metadata;
	JsonText	old_body;
	JsonText	metadata;
	JsonText	body;
} ResultStates;

typedef struct ResultRows
{
	JsonText	rows;			/* JSON: an array of objects with the columns of result_difference() */
	JsonText	evaluated_at;	/* the newest time of evaluation in the new document, as text; empty: none */
} ResultRows;

/*
 * Computes the changes of results, in the arena.  cluster: number of the cluster.  False with *why when a document is
 * damaged, or when the work costs more than the size of the documents allows.
 */
extern bool result_rows(Arena *arena, const ResultMapping *mapping, int cluster, const ResultStates *states,
						ResultRows *rows, const char **why);

/* Computes only evaluated_at. */
extern bool result_evaluated_at(Arena *arena, const ResultMapping *mapping, JsonText metadata, JsonText body,
								JsonText *evaluated_at, const char **why);

#endif							/* RESULT_ROWS_H */
