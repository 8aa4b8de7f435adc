/*-------------------------------------------------------------------------
 *
 * cleanup_command.h
 *	  kube-reports-proxy cleanup: deletes from etcd the reports whose copies were verified in the database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CLEANUP_COMMAND_H
#define CLEANUP_COMMAND_H

extern int	cleanup_command(int argc, char **argv);

#endif							/* CLEANUP_COMMAND_H */
