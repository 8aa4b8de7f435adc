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

/* Takes the targets over, all or none; false, told, when that failed. */
extern bool api_service_enable(Run *run);

#endif							/* API_SERVICE_ENABLE_H */
