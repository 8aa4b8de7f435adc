/*-------------------------------------------------------------------------
 *
 * import_command.h
 *	  kube-reports-proxy import: copies the reports of a cluster, or of a reports-server, into the database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IMPORT_COMMAND_H
#define IMPORT_COMMAND_H

extern int	import_command(int argc, char **argv);

#endif							/* IMPORT_COMMAND_H */
