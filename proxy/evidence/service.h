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

/* Begins to serve; false with a reason. */
extern bool service_start(char *why);

/* Called every second: takes new certificates into use, closes connections that are too slow. */
extern void service_look(void);

/* Takes no new connection from now on. */
extern void service_end(void);

/* How many connections are open. */
extern unsigned service_connections(void);

#endif							/* EVIDENCE_SERVICE_H */
