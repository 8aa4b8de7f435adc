/*-------------------------------------------------------------------------
 *
 * commands.h
 *	  The table of the commands of kube-reports-proxy.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "commands/command.h"

/* The commands; the last entry has no name. */
extern const Command commands[];

/* Prints the commands, for the help of the server. */
extern void commands_print(void);

#endif							/* COMMANDS_H */
