/*-------------------------------------------------------------------------
 *
 * api_service.h
 *	  Maintains the caBundle of the APIServices that lead to this server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef API_SERVICE_H
#define API_SERVICE_H

/* Starts this in the upkeep process if --apiservice-ca-file is given; lasts as long as the process. */
extern void api_services_start(void);

#endif							/* API_SERVICE_H */
