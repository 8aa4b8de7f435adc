/*-------------------------------------------------------------------------
 *
 * pod_event.c
 *	  Kubernetes Events about the pod in which this process runs.
 *
 *-------------------------------------------------------------------------
 */
#include "cluster/pod_event.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

#define NAMESPACE_FILE "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
#define NAMESPACE_LIMIT 63

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

static const char *
pod_name(const char *component)
{
	static char host[256];
	const char *given = getenv("POD_NAME");

	if (given != NULL && given[0] != '\0')
		return given;
	return gethostname(host, sizeof(host) - 1) == 0 && host[0] != '\0' ? host : component;
}

void
pod_event_send(KubeApi *api, const char *component, const char *reason, const char *message,
			   KubeAnswer answer, void *state)
{
	const char *name = pod_name(component);
	const char *namespace;
	time_t		now = time(NULL);
	struct tm	parts;
	char		stamp[32];
	Arena		arena;
	json_t	   *event;

	gmtime_r(&now, &parts);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &parts);
	arena_init(&arena);
	namespace = pod_namespace(&arena);
	event = json_pack("{s:s, s:s, s:{s:o, s:o}, s:{s:s, s:s, s:o, s:o}, s:s, s:s, s:s, s:s, s:s, s:i, s:{s:s}, s:s,"
					  " s:o}",
					  "apiVersion", "v1", "kind", "Event",
					  "metadata", "generateName", kube_json_string(arena_printf(&arena, "%s.", name)),
					  "namespace", kube_json_string(namespace),
					  "involvedObject", "apiVersion", "v1", "kind", "Pod",
					  "namespace", kube_json_string(namespace), "name", kube_json_string(name),
					  "type", "Warning", "reason", reason, "message", message,
					  "firstTimestamp", stamp, "lastTimestamp", stamp, "count", 1,
					  "source", "component", component,
					  "reportingComponent", component, "reportingInstance", kube_json_string(name));
	kubeapi_post(api, arena_printf(&arena, "/api/v1/namespaces/%s/events", namespace),
				 kube_json_write(&arena, event), TRANSFER_OTHER, answer, state);
	arena_free(&arena);
}
