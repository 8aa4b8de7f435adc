/*-------------------------------------------------------------------------
 *
 * api_service.h
 *	  Maintains the caBundle of the APIServices that lead to this server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef API_SERVICE_H
#define API_SERVICE_H

/* The upkeep process calls this when its loop exists; does nothing without --apiservice-ca-file. */
extern void api_services_start(void);

#endif							/* API_SERVICE_H */
