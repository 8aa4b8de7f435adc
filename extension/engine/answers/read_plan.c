/*-------------------------------------------------------------------------
 *
 * read_plan.c
 *	  Plans of gets, lists and watches.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/answers/read_plan.h"

#include <string.h>

#include "engine/answers/render.h"
#include "engine/api/selector.h"

static void
plan_init(Arena *arena, ReadPlan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->code = 200;
	strbuf_init(&plan->status, arena);
}

bool
read_plan_get(Arena *arena, const ApiRequest *request, ReadPlan *plan)
{
	plan_init(arena, plan);
	return request_negotiate(arena, request, false, false, &plan->transform, &plan->code, &plan->status) &&
		request_get_version(arena, request, &plan->version, &plan->code, &plan->status);
}

bool
read_plan_list(Arena *arena, const Definition *definition, const ApiRequest *request, ReadPlan *plan)
{
	bool		watch = strcmp(request->verb, "watch") == 0;
	Selector   *selector;
	const char *error;

	plan_init(arena, plan);
	if (!request_negotiate(arena, request, true, watch, &plan->transform, &plan->code, &plan->status) ||
		!request_list_options(arena, request, definition->namespaced, watch, &plan->options, &plan->code,
							  &plan->status))
		return false;
	plan->needs_body = render_needs_body(definition, &plan->transform);
	selector = selector_parse(arena, plan->options.label_selector, strlen(plan->options.label_selector), &error);
	if (selector != NULL)
		plan->term_count = selector_terms(arena, selector, &plan->terms);
	return true;
}
