/*-------------------------------------------------------------------------
 *
 * command.c
 *	  What the commands of kube-reports-proxy have in common.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/command.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cluster/ask.h"

void
command_print_table(const Command *table)
{
	for (const Command *command = table; command->name != NULL; command++)
		printf("  %-12s %s\n", command->name, command->summary);
}

int
command_run(const char *program, const Command *table, int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
	{
		printf("Usage:\n  %s COMMAND [flags]\n\nCommands:\n", program);
		command_print_table(table);
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
