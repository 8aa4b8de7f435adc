/*-------------------------------------------------------------------------
 *
 * read_plan.h
 *	  What a get, a list or a watch asks for.
 *
 * The backend plans reads in the C variant, the proxy in the variant in SQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef READ_PLAN_H
#define READ_PLAN_H

#include "engine/api/request.h"
#include "engine/schema/definition.h"

typedef struct ReadPlan
{
	int			code;			/* 200, or that of the Status */
	StrBuf		status;			/* the answer, unless the code is 200 */
	Transform	transform;
	int64_t		version;		/* of a get: the least version; 0: any */
	/* of lists and watches */
	ListOptions options;
	bool		needs_body;
	JsonText   *terms;			/* selector_terms() of the label selector */
	size_t		term_count;
} ReadPlan;

/* False with code and Status when the request cannot be answered. */
extern bool read_plan_get(Arena *arena, const ApiRequest *request, ReadPlan *plan);
extern bool read_plan_list(Arena *arena, const Definition *definition, const ApiRequest *request, ReadPlan *plan);

#endif							/* READ_PLAN_H */
