/*-------------------------------------------------------------------------
 *
 * api_service_command.c
 *	  kube-reports-proxy apiservice: takes groups over from CRDs, and gives them back.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/api_service_command.h"

#include <stdio.h>

#include "commands/command.h"

static const Command actions[] =
{
	{NULL, NULL, NULL}
};

int
api_service_command(int argc, char **argv)
{
	return command_run("kube-reports-proxy apiservice", actions, argc, argv);
}
