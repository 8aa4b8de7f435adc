/*-------------------------------------------------------------------------
 *
 * cluster_uid.c
 *	  The cluster that a command works for.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/cluster_uid.h"

#include <strings.h>

#include "commands/command.h"

const char *
cluster_uid(Asker *kube, Arena *arena, const char *given)
{
	Answer		answer;
	const char *uid;

	if (kube == NULL)
		return given;
	uid = ask_cluster_uid(kube, arena, 0, &answer);
	/* A user who may not read the namespace must name the cluster. */
	if (uid == NULL && given[0] != '\0' && answer.status == 403)
		return given;
	if (uid == NULL)
	{
		command_error("the cluster's uid cannot be read: %s", answer.why);
		return NULL;
	}
	if (given[0] != '\0' && strcasecmp(uid, given) != 0)
	{
		command_error("%s is cluster %s, but --cluster-id is %s", asker_server(kube), uid, given);
		return NULL;
	}
	return uid;
}
