/*-------------------------------------------------------------------------
 *
 * termination.h
 *	  Whether this process was asked to end.
 *
 * After the first SIGTERM, readyz fails and connections are not kept alive.
 * Requests are still served for --shutdown-delay-duration.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TERMINATION_H
#define TERMINATION_H

#include <stdbool.h>

/* May be called in a signal handler. */
extern void termination_begin(void);
extern bool termination_begun(void);

#endif							/* TERMINATION_H */
