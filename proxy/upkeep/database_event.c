/*-------------------------------------------------------------------------
 *
 * database_event.c
 *	  Creates Kubernetes Events about the database, for the operators of the cluster.
 *
 * Operators look at the pods of a proxy before they read its log.  When the
 * database has refused connections for lack of room (53300), an Event of the
 * pod says so, and what can be done.  All processes count refusals in shared
 * memory (metrics.c).  The upkeep process needs no database to report them: at
 * most one Event in EVENT_MS, for all refusals since the last one.
 *
 * A proxy that may not create Events logs that once.
 *
 *-------------------------------------------------------------------------
 */
#include "upkeep/database_event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "cluster/kubeapi.h"

#define LOOK_MS 1000
#define EVENT_MS (5 * 60 * 1000)
#define PROGRAM "kube-reports-proxy"
#define MESSAGE \
	"The database refused %llu connections for want of room (SQLSTATE 53300): raise max_connections, or the limit of " \
	"the role or the database, or lower --database-connections, which is %d for this proxy. Requests wait for the " \
	"connections that are open."
#define NAMESPACE_FILE "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
#define NAMESPACE_LIMIT 63

static KubeApi *kube_api;
static LoopTimer timer;
static uint64_t told;			/* refusals that Events have reported */
static uint64_t told_at;		/* 0: none yet */
static bool sending;

/* Returns the namespace of this pod; outside of a cluster, a namespace that every cluster has. */
static const char *
pod_namespace(Arena *arena)
{
	const char *given = getenv("POD_NAMESPACE");
	JsonText	name;
	const char *why;

	if (given != NULL && given[0] != '\0')
		return given;
	if (!file_read(arena, NAMESPACE_FILE, NAMESPACE_LIMIT, &name, &why) || name.len == 0)
		return "default";
	return arena_strndup(arena, name.bytes, strcspn(name.bytes, "\r\n"));
}

/* Returns POD_NAME or the host name, which is the pod's name unless the pod uses the host's network. */
static const char *
pod_name(void)
{
	static char name[256];
	const char *given = getenv("POD_NAME");

	if (given != NULL && given[0] != '\0')
		return given;
	if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0')
		return PROGRAM;
	return name;
}

static void
answered(void *state, int status, const json_t *answer, const char *why)
{
	static bool warned;

	sending = false;
	if (status == 201)
		return;
	/* The next refusals cause another attempt. */
	if (!warned)
		log_line(LOG_ERROR, "no Event of refused database connections could be created (code %d%s%s): "
				 "the service account needs to create events", status, why != NULL ? ", " : "", why != NULL ? why : "");
	warned = true;
}

static void
send_event(uint64_t refusals)
{
	const char *namespace;
	const char *name = pod_name();
	time_t		now = time(NULL);
	struct tm	parts;
	char		stamp[32];
	Arena		arena;
	json_t	   *event;

	gmtime_r(&now, &parts);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &parts);
	arena_init(&arena);
	namespace = pod_namespace(&arena);
	event = json_pack("{s:s, s:s, s:{s:o, s:o}, s:{s:s, s:s, s:o, s:o}, s:s, s:s, s:o, s:s, s:s, s:i, s:{s:s}, s:s,"
					  " s:o}",
					  "apiVersion", "v1", "kind", "Event",
					  "metadata", "generateName", kube_json_string(arena_printf(&arena, "%s.", name)),
					  "namespace", kube_json_string(namespace),
					  "involvedObject", "apiVersion", "v1", "kind", "Pod",
					  "namespace", kube_json_string(namespace), "name", kube_json_string(name),
					  "type", "Warning", "reason", "DatabaseConnectionsRefused",
					  "message", json_sprintf(MESSAGE, (unsigned long long) refusals, config.connections),
					  "firstTimestamp", stamp, "lastTimestamp", stamp, "count", 1,
					  "source", "component", PROGRAM,
					  "reportingComponent", PROGRAM, "reportingInstance", kube_json_string(name));
	sending = true;
	kubeapi_post(kube_api, arena_printf(&arena, "/api/v1/namespaces/%s/events", namespace),
				 kube_json_write(&arena, event), TRANSFER_OTHER, answered, NULL);
	arena_free(&arena);
}

static void
look(void *state)
{
	uint64_t	refusals = metrics_total(COUNTER_DB_REFUSALS);

	if (refusals > told && !sending && (told_at == 0 || loop_now() - told_at >= EVENT_MS))
	{
		send_event(refusals - told);
		told = refusals;
		told_at = loop_now();
	}
	loop_timer_start(&timer, LOOK_MS, look, NULL);
}

void
database_events_start(void)
{
	if (!config_has_kubeapi(config.authentication_kubeconfig))
		return;
	kube_api = kubeapi_open(config.authentication_kubeconfig);
	/* A new upkeep process reports only refusals from now on. */
	told = metrics_total(COUNTER_DB_REFUSALS);
	loop_timer_start(&timer, LOOK_MS, look, NULL);
}
