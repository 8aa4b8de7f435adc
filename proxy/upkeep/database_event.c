/*-------------------------------------------------------------------------
 *
 * database_event.c
 *	  Creates Kubernetes Events about the database, for the operators of the cluster.
 *
 * Operators look at the pods of a proxy before they read its log.  When the
 * database has refused connections for lack of room (53300), an Event of the
 * pod says so, and names the remedies.  All processes count refusals in shared
 * memory (metrics.c).  The upkeep process reports them without a database: at
 * most one Event in EVENT_MS, for all refusals since the previous Event.
 *
 * A proxy that may not create Events logs that once.
 *
 *-------------------------------------------------------------------------
 */
#include "upkeep/database_event.h"

#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "cluster/pod_event.h"

#define LOOK_MS 1000
#define EVENT_MS (5 * 60 * 1000)
#define PROGRAM "kube-reports-proxy"
#define MESSAGE \
	"The database refused %llu connections for want of room (SQLSTATE 53300): raise max_connections, or the limit of " \
	"the role or the database, or lower --database-connections, which is %d for this proxy. Requests wait for the " \
	"connections that are open."

static KubeApi *kube_api;
static LoopTimer timer;
static uint64_t told;			/* refusals that Events have reported */
static uint64_t told_at;		/* time of the last Event; 0: none yet */
static bool sending;

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
	Arena		arena;

	arena_init(&arena);
	sending = true;
	pod_event_send(kube_api, PROGRAM, "DatabaseConnectionsRefused",
				   arena_printf(&arena, MESSAGE, (unsigned long long) refusals, config.connections), answered, NULL);
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
