/*-------------------------------------------------------------------------
 *
 * register_command.h
 *	  kube-reports-proxy register: serves the types of CustomResourceDefinitions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTER_COMMAND_H
#define REGISTER_COMMAND_H

extern int	register_command(int argc, char **argv);

#endif							/* REGISTER_COMMAND_H */
