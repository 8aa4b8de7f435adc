/*-------------------------------------------------------------------------
 *
 * commands.c
 *	  The table of the commands of kube-reports-proxy.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/commands.h"

#include <stdio.h>

#include "commands/api_service_command.h"
#include "commands/cleanup_command.h"
#include "commands/cluster_id_command.h"
#include "commands/import_command.h"
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

void
commands_print(void)
{
	printf("\nCommands, each with flags and a --help of its own:\n");
	command_print_table(commands);
}
