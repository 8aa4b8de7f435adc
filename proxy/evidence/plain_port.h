/*-------------------------------------------------------------------------
 *
 * plain_port.h
 *	  The port for health and metrics, plain HTTP.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_PLAIN_PORT_H
#define EVIDENCE_PLAIN_PORT_H

#include <stdbool.h>

/* Begins to serve at --metrics-port, unless that is 0; false with the reason in why, WHY_SIZE bytes. */
extern bool plain_port_start(char *why);

#endif							/* EVIDENCE_PLAIN_PORT_H */
