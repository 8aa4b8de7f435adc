/*-------------------------------------------------------------------------
 *
 * api_service.h
 *	  The APIServices by which kube-apiserver finds this server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef API_SERVICE_H
#define API_SERVICE_H

/*
 * Begins to look after them, in the upkeep process, when --apiservice-ca-file is given; lasts as long as the process.
 */
extern void api_services_start(void);

#endif							/* API_SERVICE_H */
