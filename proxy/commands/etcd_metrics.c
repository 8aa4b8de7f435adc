/*-------------------------------------------------------------------------
 *
 * etcd_metrics.c
 *	  The size and the contents of etcd, from kube-apiserver's metrics.
 *
 * The names changed over time: apiserver_storage_size_bytes was
 * apiserver_storage_db_total_size_in_bytes before Kubernetes 1.28, and
 * apiserver_storage_objects has the group in a label of its own since 1.34.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/etcd_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_LIMIT ((size_t) 64 * 1024 * 1024)
#define METRICS_TIMEOUT_MS 30000L

EtcdMetrics
etcd_metrics_read(Asker *kube, Arena *arena)
{
	Ask			question = {.path = "/metrics", .accept = "text/plain", .answer_limit = METRICS_LIMIT,
	.timeout_ms = METRICS_TIMEOUT_MS};
	Answer		answer = ask(kube, arena, &question);

	return (EtcdMetrics) {.why = answer.why, .text = answer.body};
}

/* Returns the value of the first line with this name whose labels contain all parts (up to NULL); below 0: none. */
static double
find_value(const EtcdMetrics *metrics, const char *name, const char *const *parts)
{
	const char *line = metrics->why == NULL ? metrics->text.bytes : NULL;

	while (line != NULL && *line != '\0')
	{
		const char *end = strchr(line, '\n');
		size_t		len = end != NULL ? (size_t) (end - line) : strlen(line);
		size_t		name_len = strlen(name);
		bool		fits = len > name_len && strncmp(line, name, name_len) == 0 &&
		(line[name_len] == '{' || line[name_len] == ' ');

		for (size_t i = 0; fits && parts[i] != NULL; i++)
			fits = memmem(line, len, parts[i], strlen(parts[i])) != NULL;
		if (fits)
		{
			const char *value = line + len;

			while (value > line && value[-1] != ' ')
				value--;
			return strtod(value, NULL);
		}
		line = end != NULL ? end + 1 : NULL;
	}
	return -1;
}

double
etcd_metrics_size(const EtcdMetrics *metrics)
{
	static const char *const none[] = {NULL};
	double		size = find_value(metrics, "apiserver_storage_size_bytes", none);

	return size >= 0 ? size : find_value(metrics, "apiserver_storage_db_total_size_in_bytes", none);
}

double
etcd_metrics_objects(const EtcdMetrics *metrics, const char *group, const char *resource)
{
	char		together[600];
	char		of_group[300];
	char		of_resource[300];
	const char *const joined[] = {together, NULL};
	const char *const apart[] = {of_group, of_resource, NULL};
	double		objects;

	snprintf(together, sizeof(together), "resource=\"%s.%s\"", resource, group);
	snprintf(of_group, sizeof(of_group), "group=\"%s\"", group);
	snprintf(of_resource, sizeof(of_resource), "resource=\"%s\"", resource);
	objects = find_value(metrics, "apiserver_storage_objects", joined);
	if (objects < 0)
		objects = find_value(metrics, "apiserver_storage_objects", apart);
	/* Since Kubernetes 1.34. */
	return objects >= 0 ? objects : find_value(metrics, "apiserver_resource_objects", apart);
}
