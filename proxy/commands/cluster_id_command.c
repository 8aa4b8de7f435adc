/*-------------------------------------------------------------------------
 *
 * cluster_id_command.c
 *	  kube-reports-proxy cluster-id: prints the uid of this cluster.
 *
 * grant_proxy() needs the uid before the first proxy can connect, and a Job
 * that sets a database up in a cluster has no other client of kube-apiserver.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/cluster_id_command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cluster/ask.h"
#include "commands/command.h"

static struct
{
	const char *kubeconfig;
	const char *output;
}			options;

static const Flag cluster_id_flags[] =
{
	COMMAND_KUBECONFIG_FLAG(&options.kubeconfig),
	{"output", FLAG_STRING, &options.output, "", 0, 0,
	"file for the uid, instead of standard output"},
};

static const FlagSet cluster_id_set = {
	.program = "kube-reports-proxy cluster-id",
	.about = "Prints the uid of the namespace kube-system, which identifies the cluster in a database.",
	.usage = "kube-reports-proxy cluster-id [flags]",
	.flags = cluster_id_flags,
	.count = sizeof(cluster_id_flags) / sizeof(cluster_id_flags[0]),
};

static bool
write_line(const char *path, const char *line)
{
	FILE	   *file = path[0] == '\0' ? stdout : fopen(path, "we");
	bool		good = file != NULL && fprintf(file, "%s\n", line) > 0 && fflush(file) == 0;
	int			error = errno;

	if (file != NULL && file != stdout && fclose(file) != 0 && good)
	{
		good = false;
		error = errno;
	}
	if (!good)
		command_error("the uid cannot be written to %s: %s", path[0] == '\0' ? "standard output" : path,
					  strerror(error));
	return good;
}

static int
tell(Arena *arena, Asker *kube)
{
	Answer		answer;
	const char *uid = ask_cluster_uid(kube, arena, 0, &answer);

	if (uid == NULL)
	{
		command_error("the namespace kube-system cannot be read: %s", answer.why);
		return COMMAND_FAILED;
	}
	return write_line(options.output, uid) ? COMMAND_DONE : COMMAND_FAILED;
}

int
cluster_id_command(int argc, char **argv)
{
	Arena		arena;
	Asker	   *kube;
	int			code = COMMAND_FAILED;

	flags_parse(&cluster_id_set, argc, argv, NULL, 0);
	arena_init(&arena);
	kube = command_kube(&arena, options.kubeconfig);
	if (kube != NULL)
	{
		code = tell(&arena, kube);
		asker_close(kube);
	}
	arena_free(&arena);
	return code;
}
