/*-------------------------------------------------------------------------
 *
 * termination.h
 *	  Whether this process has been told to end.
 *
 * From the first SIGTERM on readyz fails and connections are not kept alive,
 * while everything is still served for --shutdown-delay-duration.
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
