/*-------------------------------------------------------------------------
 *
 * summary.c
 *	  Counts the results of reports, and fills in absent summaries.
 *
 * A filled-in summary has no owner, because it is added after the managed
 * fields are made.  As with mutating admission in kube-apiserver, the manager
 * of a request owns only the fields of the request.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/results/summary.h"

#include <string.h>

static const char *const outcomes[] = {"pass", "fail", "warn", "error", "skip"};

#define OUTCOMES (sizeof(outcomes) / sizeof(outcomes[0]))

static bool
is_place(const JsonNode *object)
{
	return json_get(object, "results") != NULL || json_get(object, "summary") != NULL;
}

JsonNode *
summary_place(const JsonNode *document)
{
	JsonNode   *spec = json_get(document, "spec");

	if (is_place(document))
		return (JsonNode *) document;
	return is_place(spec) ? spec : NULL;
}

JsonNode *
summary_count(Arena *arena, const JsonNode *results)
{
	int64_t		counts[OUTCOMES] = {0};
	JsonNode   *summary = json_new_object(arena);

	if (results != NULL && results->kind == JSON_KIND_ARRAY)
		for (size_t i = 0; i < results->u.array.count; i++)
			for (size_t j = 0; j < OUTCOMES; j++)
				if (json_string_is(json_get(results->u.array.items[i], "result"), outcomes[j]))
					counts[j]++;
	for (size_t j = 0; j < OUTCOMES; j++)
		json_set(arena, summary, outcomes[j], json_new_integer(arena, counts[j]));
	return summary;
}

/* Whether the managed fields contain a member of the summary; in_spec: the summary is in spec. */
static bool
is_owned(const JsonNode *managed_fields, bool in_spec)
{
	for (size_t i = 0; i < managed_fields->u.array.count; i++)
	{
		const JsonNode *fields = json_get(managed_fields->u.array.items[i], "fieldsV1");
		const JsonNode *summary = json_get(in_spec ? json_get(fields, "f:spec") : fields, "f:summary");

		if (summary == NULL || summary->kind != JSON_KIND_OBJECT)
			continue;
		for (size_t j = 0; j < summary->u.object.count; j++)
			if (summary->u.object.members[j].key.len > 2 &&
				memcmp(summary->u.object.members[j].key.bytes, "f:", 2) == 0)
				return true;
	}
	return false;
}

void
summary_fill(Arena *arena, JsonNode *document)
{
	JsonNode   *place = summary_place(document);
	const JsonNode *summary = json_get(place, "summary");
	const JsonNode *managed_fields = json_path(document, "metadata", "managedFields", NULL);
	bool		left_out = summary == NULL || (summary->kind == JSON_KIND_OBJECT && summary->u.object.count == 0);
	bool		tracked = managed_fields != NULL && managed_fields->kind == JSON_KIND_ARRAY &&
	managed_fields->u.array.count > 0;

	if (place == NULL || (!left_out && (!tracked || is_owned(managed_fields, place != document))))
		return;
	json_set(arena, place, "summary", summary_count(arena, json_get(place, "results")));
}
