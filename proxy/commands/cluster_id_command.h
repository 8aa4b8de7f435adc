/*-------------------------------------------------------------------------
 *
 * cluster_id_command.h
 *	  kube-reports-proxy cluster-id: prints the uid of this cluster.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CLUSTER_ID_COMMAND_H
#define CLUSTER_ID_COMMAND_H

extern int	cluster_id_command(int argc, char **argv);

#endif							/* CLUSTER_ID_COMMAND_H */
