/*-------------------------------------------------------------------------
 *
 * forward_command.h
 *	  kube-reports-proxy forward: sends the objects of a cluster to a receiver.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_COMMAND_H
#define FORWARD_COMMAND_H

extern int	forward_command(int argc, char **argv);

#endif							/* FORWARD_COMMAND_H */
