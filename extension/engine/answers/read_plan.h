/*-------------------------------------------------------------------------
 *
 * read_plan.h
 *	  Plans of gets, lists and watches: the checked options of a request.
 *
 * In the C variant the backend plans reads, in the SQL variant the proxy.
 *
 *-------------------------------------------------------------------------
 */
#ifndef READ_PLAN_H
#define READ_PLAN_H

#include "engine/api/request.h"
#include "engine/schema/definition.h"

typedef struct ReadPlan
{
	int			code;			/* 200, or the code of the Status */
	StrBuf		status;			/* the answer, unless the code is 200 */
	Transform	transform;
	int64_t		version;		/* of a get: the least version; 0: any */
	/* of lists and watches */
	ListOptions options;
	bool		needs_body;
	JsonText   *terms;			/* selector_terms() of the label selector */
	size_t		term_count;
} ReadPlan;

/* Plan a read.  Return false, with code and status set, if the request is invalid. */
extern bool read_plan_get(Arena *arena, const ApiRequest *request, ReadPlan *plan);
extern bool read_plan_list(Arena *arena, const Definition *definition, const ApiRequest *request, ReadPlan *plan);

#endif							/* READ_PLAN_H */
