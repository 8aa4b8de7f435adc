/*-------------------------------------------------------------------------
 *
 * api_service_enable.h
 *	  Taking API groups over from their CRDs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef API_SERVICE_ENABLE_H
#define API_SERVICE_ENABLE_H

#include "commands/api_service_run.h"

/* Takes over all targets or none.  On failure it prints an error and returns false. */
extern bool api_service_enable(Run *run);

#endif							/* API_SERVICE_ENABLE_H */
