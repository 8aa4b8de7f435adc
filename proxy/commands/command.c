/*-------------------------------------------------------------------------
 *
 * command.c
 *	  The commands of kube-reports-proxy besides serving.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/command.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cluster/ask.h"
#include "commands/api_service_command.h"
#include "commands/cleanup_command.h"
#include "commands/import_command.h"
#include "commands/cluster_id_command.h"
#include "commands/register_command.h"
#include "forward/forward_command.h"

const Command commands[] =
{
	{"apiservice", "let kube-apiserver use this server for API groups, or the CRDs again", api_service_command},
	{"register", "serve the types of an operator, or of CustomResourceDefinitions in files", register_command},
	{"import", "copy reports from a cluster's CRDs, or from a reports-server, into the database", import_command},
	{"cleanup", "delete from etcd the reports whose copies were verified in the database", cleanup_command},
	{"forward", "send a cluster's objects to a receiver, through a queue on disk", forward_command},
	{"cluster-id", "print the uid that identifies this cluster in a database", cluster_id_command},
	{NULL, NULL, NULL}
};

static void
print_table(const Command *table)
{
	for (const Command *command = table; command->name != NULL; command++)
		printf("  %-12s %s\n", command->name, command->summary);
}

void
commands_print(void)
{
	printf("\nCommands, each with flags and a --help of its own:\n");
	print_table(commands);
}

int
command_run(const char *program, const Command *table, int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
	{
		printf("Usage:\n  %s COMMAND [flags]\n\nCommands:\n", program);
		print_table(table);
		return argc < 2 ? COMMAND_USAGE : COMMAND_DONE;
	}
	for (const Command *command = table; command->name != NULL; command++)
	{
		if (strcmp(command->name, argv[1]) != 0)
			continue;
		/* A server that closes a connection makes only the request fail. */
		signal(SIGPIPE, SIG_IGN);
		return command->run(argc - 1, argv + 1);
	}
	fprintf(stderr, "%s: unknown command \"%s\"; see --help\n", program, argv[1]);
	return COMMAND_USAGE;
}

/* ---------- output ---------- */

void
command_tell(const char *format,...)
{
	va_list		arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

void
command_error(const char *format,...)
{
	va_list		arguments;

	fputs("error: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

/* ---------- common parts ---------- */

Asker *
command_kube(Arena *arena, const char *kubeconfig)
{
	const char *why = "";
	Asker	   *kube = asker_open(arena, kubeconfig, &why);

	if (kube == NULL)
		command_error("kube-apiserver cannot be reached: %s%s", why,
					  kubeconfig[0] == '\0' ? "; give --kubeconfig" : "");
	return kube;
}
