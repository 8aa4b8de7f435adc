/*-------------------------------------------------------------------------
 *
 * policy_reporter.c
 *	  Paths of Policy Reporter's REST API: /v1/policy-reporter/...
 *
 *-------------------------------------------------------------------------
 */
#include "api/policy_reporter.h"

#include <string.h>

#include "engine/api/metadata.h"

typedef struct ReporterRoute
{
	const char *pattern;		/* a segment * is the argument */
	const char *answer;
} ReporterRoute;

/* Policy Reporter UI asks for these paths of v1; the others of v1 are older forms of what v2 answers. */
static const ReporterRoute reporter_routes[] = {
	{"v1/namespaces", "namespaces"},
	{"v1/namespaced-resources/kinds", "namespace-kinds"},
	{"v1/namespaced-resources/categories", "namespace-categories"},
	{"v1/cluster-resources/kinds", "cluster-kinds"},
	{"v1/cluster-resources/categories", "cluster-categories"},
	{"v2/targets", "targets"},
	{"v2/namespaces", "namespaces"},
	{"v2/namespaces/resolve-selector", "namespaces"},
	{"v2/sources", "sources"},
	{"v2/sources/categories", "categories"},
	{"v2/sources/*/use-resources", "use-resources"},
	{"v2/sources/*/status-counts", "status-counts"},
	{"v2/sources/*/severity-counts", "severity-counts"},
	{"v2/policies", "policies"},
	{"v2/findings", "findings"},
	{"v2/severity-findings", "severity-findings"},
	{"v2/total-results", "total-results"},
	{"v2/results-without-resources", "results-without-resources"},
	{"v2/properties/*", "properties"},
	{"v2/namespace-scoped/resource-results", "namespace-resources"},
	{"v2/namespace-scoped/results", "namespace-results"},
	{"v2/namespace-scoped/kinds", "namespace-kinds"},
	{"v2/namespace-scoped/*/status-counts", "namespace-status-counts"},
	{"v2/namespace-scoped/*/severity-counts", "namespace-severity-counts"},
	{"v2/cluster-scoped/resource-results", "cluster-resources"},
	{"v2/cluster-scoped/results", "cluster-results"},
	{"v2/cluster-scoped/kinds", "cluster-kinds"},
	{"v2/cluster-scoped/*/status-counts", "cluster-status-counts"},
	{"v2/cluster-scoped/*/severity-counts", "cluster-severity-counts"},
	{"v2/resource/*", "resource"},
	{"v2/resource/*/status-counts", "resource-status-counts"},
	{"v2/resource/*/severity-counts", "resource-severity-counts"},
	{"v2/resource/*/resource-results", "resource-resources"},
	{"v2/resource/*/results", "resource-results"},
	{"v2/resource/*/source-categories", "resource-categories"},
};

static const char reporter_base[] = "/v1/policy-reporter/";

/* Takes the segment after a word; false when the path does not begin with the word, or the segment is empty. */
static bool
take_segment(const char **path, const char *word, JsonText *segment)
{
	size_t		len = strlen(word);
	size_t		size;

	if (strncmp(*path, word, len) != 0)
		return false;
	size = strcspn(*path + len, "/");
	if (size == 0 || (*path)[len + size] != '/')
		return false;
	*segment = (JsonText) {*path + len, size};
	*path += len + size + 1;
	return true;
}

static bool
pattern_matches(const char *pattern, const char *path, JsonText *argument)
{
	const char *star = strchr(pattern, '*');
	size_t		len = star != NULL ? (size_t) (star - pattern) : strlen(pattern);

	*argument = (JsonText) {NULL, 0};
	if (strncmp(path, pattern, len) != 0)
		return false;
	if (star == NULL)
		return path[len] == '\0';
	*argument = (JsonText) {path + len, strcspn(path + len, "/")};
	return argument->len > 0 && strcmp(path + len + argument->len, star + 1) == 0;
}

bool
reporter_prefix(const char *path)
{
	return strncmp(path, reporter_base, sizeof(reporter_base) - 1) == 0;
}

bool
reporter_target(const char *path, ReporterTarget *target)
{
	*target = (ReporterTarget) {0};
	if (!reporter_prefix(path))
		return false;
	path += sizeof(reporter_base) - 1;
	take_segment(&path, "clusters/", &target->cluster);
	if (take_segment(&path, "namespaces/", &target->namespace_name) && !is_dns1123_label(target->namespace_name))
		return false;
	for (size_t i = 0; i < sizeof(reporter_routes) / sizeof(reporter_routes[0]); i++)
	{
		if (pattern_matches(reporter_routes[i].pattern, path, &target->argument))
		{
			target->answer = reporter_routes[i].answer;
			target->selects = strcmp(reporter_routes[i].pattern, "v2/namespaces/resolve-selector") == 0;
			return true;
		}
	}
	return false;
}
