/*-------------------------------------------------------------------------
 *
 * service.h
 *	  The HTTPS port: connections, routes, certificates that change.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_SERVICE_H
#define EVIDENCE_SERVICE_H

#include <stdbool.h>

/* Begins to serve; false with the reason in why, WHY_SIZE bytes. */
extern bool service_start(char *why);

/* Call every second: begins to use changed certificates, and closes connections that are too slow. */
extern void service_look(void);

/* From now on no new connection is accepted. */
extern void service_end(void);

/* Whether new connections are accepted: true until service_end().  Any thread may call this. */
extern bool service_takes(void);

/* Returns the number of open connections.  Only the main thread may call this. */
extern unsigned service_connections(void);

#endif							/* EVIDENCE_SERVICE_H */
