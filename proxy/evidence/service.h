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

/* Whether new connections are taken: until service_end(). Any thread may ask. */
extern bool service_takes(void);

/* How many connections are open; for the main thread only. */
extern unsigned service_connections(void);

#endif							/* EVIDENCE_SERVICE_H */
