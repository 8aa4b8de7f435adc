/*-------------------------------------------------------------------------
 *
 * policy_reporter.h
 *	  Paths of Policy Reporter's REST API: /v1/policy-reporter/...
 *
 *	  /v1/policy-reporter/<path>						of the proxy's cluster
 *	  /v1/policy-reporter/namespaces/<namespace>/<path>	of the reports in a namespace
 *	  /v1/policy-reporter/clusters/<cluster>/<path>		of a cluster that the proxy's role reads, by uid or name
 *	  /v1/policy-reporter/clusters/<cluster>/namespaces/<namespace>/<path>
 *
 * <path> is a path of Policy Reporter 3.9.0 that its UI or a script asks for,
 * such as v2/findings: so Policy Reporter UI takes what stands before it as the
 * host of Policy Reporter.
 *
 *-------------------------------------------------------------------------
 */
#ifndef POLICY_REPORTER_H
#define POLICY_REPORTER_H

#include "engine/base/json.h"

/* What a path asks for.  Texts are parts of the path; bytes NULL: the path has none. */
typedef struct ReporterTarget
{
	const char *answer;			/* the name that sql/export/policy_reporter.sql has for it; a literal */
	bool		selects;		/* by POST, with a selector of namespaces as the body; else by GET */
	JsonText	argument;		/* a source, a resource's id or the name of a property */
	JsonText	cluster;
	JsonText	namespace_name; /* a DNS label */
} ReporterTarget;

/* Whether the path begins as these paths do. */
extern bool reporter_prefix(const char *path);

/* Reads a decoded path; false when nothing is served there. */
extern bool reporter_target(const char *path, ReporterTarget *target);

#endif							/* POLICY_REPORTER_H */
