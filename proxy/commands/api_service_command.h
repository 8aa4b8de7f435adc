/*-------------------------------------------------------------------------
 *
 * api_service_command.h
 *	  kube-reports-proxy apiservice: takes API groups over from CRDs, and gives them back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef API_SERVICE_COMMAND_H
#define API_SERVICE_COMMAND_H

extern int	api_service_command(int argc, char **argv);

#endif							/* API_SERVICE_COMMAND_H */
